package resp

import (
	"strconv"
	"strings"

	"github.com/causalstore/causalstore/sidecar/value"
)

// Commands of consumer groups. A group is a part of its stream, and all data centers share it.

var (
	errBusyGroup = &Error{Code: "BUSYGROUP", Message: "Consumer Group name already exists"}
	errNoStream  = genericError("The XGROUP subcommand requires the key to exist. Note that for CREATE you may want " +
		"to use the MKSTREAM option to create an empty stream automatically.")
	errEntriesRead = genericError("value for ENTRIESREAD must be positive or -1")
)

func errNoGroupOf(key, group string) error {
	return Errorf("NOGROUP", "No such consumer group '%s' for key name '%s'", cText(group), cText(key))
}

func errNoKeyOrGroup(key, group string) error {
	return Errorf("NOGROUP", "No such key '%s' or consumer group '%s'", cText(key), cText(group))
}

// cText returns what of a name Redis shows in an error: up to the first zero byte.
func cText(name string) string {
	name, _, _ = strings.Cut(name, "\x00")
	return name
}

func errSubcommand(container string, args [][]byte) error {
	return Errorf("ERR", "unknown subcommand or wrong number of arguments for '%s'. Try %s HELP.",
		cString(args[1], 128), container)
}

// groupOptions are the options of XGROUP CREATE and XGROUP SETID.
type groupOptions struct {
	makes bool
	read  int64
}

func parseGroupOptions(args [][]byte, isCreate bool) (o groupOptions, err error) {
	o.read = value.UnknownRead
	for i := 5; i < len(args); i++ {
		switch {
		case isCreate && equalFold(args[i], "mkstream"):
			o.makes = true
		case equalFold(args[i], "entriesread") && i+1 < len(args):
			i++
			n, ok := parseInt(args[i])
			switch {
			case !ok:
				return o, errNotInteger
			case n < value.UnknownRead:
				return o, errEntriesRead
			}
			o.read = n
		default:
			return o, errSubcommand("XGROUP", args)
		}
	}
	return o, nil
}

// changeGroup executes a subcommand of XGROUP on a group, which is nil if there is none. Its reply is a number, or OK.
func (c *connection) changeGroup(args [][]byte, o groupOptions, isNeeded bool, reply func(),
	apply func(s *value.StreamLog, g *value.StreamGroup) (bool, error)) error {
	key, name := string(args[2]), string(args[3])
	bytes := len(name) + 4*elementBytes
	return c.changeStream(args[2], bytes, func(s *value.StreamLog, ch *value.Change) (bool, error) {
		g := s.Group(name)
		switch exists := ch.Len() > 0; {
		case !exists && !o.makes:
			return false, errNoStream
		case g == nil && isNeeded:
			return false, errNoGroupOf(key, name)
		}
		return apply(s, g)
	}, func() error {
		reply()
		return nil
	})
}

// XGROUP CREATE key group id|$ [MKSTREAM] [ENTRIESREAD entries-read]
func xgroupCreate(c *connection, args [][]byte) error {
	o, err := parseGroupOptions(args, true)
	if err != nil {
		return err
	}
	isLast := string(args[4]) == "$"
	id, wrong := value.StreamID{}, error(nil)
	if !isLast {
		id, wrong = parseStrictID(args[4])
	}
	name := string(args[3])
	return c.changeGroup(args, o, false, c.out.writeOK, func(s *value.StreamLog, g *value.StreamGroup) (bool, error) {
		from := id
		switch {
		case wrong != nil:
			return false, wrong
		case g != nil:
			return false, errBusyGroup
		case isLast:
			from = s.Last
		}
		s.Make(c.line())
		s.Start(name, c.line(), from, o.read)
		return true, nil
	})
}

// XGROUP SETID key group id|$ [ENTRIESREAD entries-read]
func xgroupSetID(c *connection, args [][]byte) error {
	o, err := parseGroupOptions(args, false)
	if err != nil {
		return err
	}
	isLast := string(args[4]) == "$"
	id, wrong := value.StreamID{}, error(nil)
	if !isLast {
		id, wrong = parseAnyID(args[4], 0)
	}
	return c.changeGroup(args, o, true, c.out.writeOK, func(s *value.StreamLog, g *value.StreamGroup) (bool, error) {
		from := id
		switch {
		case wrong != nil:
			return false, wrong
		case isLast:
			from = s.Last
		}
		s.Start(g.Name, c.line(), from, o.read)
		return true, nil
	})
}

// XGROUP DESTROY key group
func xgroupDestroy(c *connection, args [][]byte) error {
	dropped := false
	return c.changeGroup(args, groupOptions{}, false, func() { c.out.writeInteger(oneIf(dropped)) },
		func(_ *value.StreamLog, g *value.StreamGroup) (bool, error) {
			if dropped = g != nil; dropped {
				g.Drop()
			}
			return dropped, nil
		})
}

// XGROUP CREATECONSUMER key group consumer
func xgroupCreateConsumer(c *connection, args [][]byte) error {
	name, isNew := string(args[4]), false
	return c.changeGroup(args, groupOptions{}, true, func() { c.out.writeInteger(oneIf(isNew)) },
		func(_ *value.StreamLog, g *value.StreamGroup) (bool, error) {
			if isNew = !g.HasConsumer(name); isNew {
				g.See(name, c.nowMs())
			}
			return isNew, nil
		})
}

// XGROUP DELCONSUMER key group consumer
func xgroupDelConsumer(c *connection, args [][]byte) error {
	name, removed := string(args[4]), 0
	return c.changeGroup(args, groupOptions{}, true, func() { c.out.writeInteger(int64(removed)) },
		func(_ *value.StreamLog, g *value.StreamGroup) (bool, error) {
			has := g.HasConsumer(name)
			removed = g.RemoveConsumer(name)
			return has, nil
		})
}

// XGROUP HELP
func xgroupHelp(c *connection, _ [][]byte) error {
	c.writeHelp("XGROUP",
		"CREATE <key> <groupname> <id|$> [option]",
		"    Create a new consumer group. Options are:",
		"    * MKSTREAM",
		"      Create the empty stream if it does not exist.",
		"    * ENTRIESREAD entries_read",
		"      Set the group's entries_read counter (internal use).",
		"CREATECONSUMER <key> <groupname> <consumer>",
		"    Create a new consumer in the specified group.",
		"DELCONSUMER <key> <groupname> <consumer>",
		"    Remove the specified consumer.",
		"DESTROY <key> <groupname>",
		"    Remove the specified group.",
		"SETID <key> <groupname> <id|$> [ENTRIESREAD entries_read]",
		"    Set the current group ID and entries_read counter.")
	return nil
}

// XACK key group id [id ...]
func xack(c *connection, args [][]byte) error {
	group := string(args[2])
	ids, wrong := parseStrictIDs(args[3:])
	acknowledged := 0
	return c.changeStream(args[1], 0, func(s *value.StreamLog, _ *value.Change) (bool, error) {
		acknowledged = 0
		g := s.Group(group)
		switch {
		case g == nil: // Redis looks at the ids only if there is one
			return false, nil
		case wrong != nil:
			return false, wrong
		}
		for _, id := range ids {
			acknowledged += int(oneIf(g.Acknowledge(id)))
		}
		return acknowledged > 0, nil
	}, func() error {
		c.out.writeInteger(int64(acknowledged))
		return nil
	})
}

// pendingRange is which pending entries XPENDING returns.
type pendingRange struct {
	isSummary   bool
	idle, count int64
	from, to    value.StreamID
	consumer    []byte // nil: all
}

func parsePendingRange(args [][]byte) (r pendingRange, err error) {
	if r.isSummary = len(args) == 3; r.isSummary {
		return r, nil
	}
	if len(args) < 6 || len(args) > 9 {
		return r, errSyntax
	}
	at, ok := 3, false
	if equalFold(args[3], "idle") {
		if r.idle, ok = parseInt(args[4]); !ok {
			return r, errNotInteger
		}
		if len(args) < 8 {
			return r, errSyntax
		}
		at = 5
	}
	if r.count, ok = parseInt(args[at+2]); !ok {
		return r, errNotInteger
	}
	r.count = max(r.count, 0)
	if r.from, err = parseFromID(args[at]); err != nil {
		return r, err
	}
	if r.to, err = parseToID(args[at+1]); err != nil {
		return r, err
	}
	if at+3 < len(args) {
		r.consumer = args[at+3]
	}
	return r, nil
}

// groupAt reads a group of a stream.
func (c *connection) groupAt(key, group []byte) (*value.StreamGroup, error) {
	s, _, err := c.streamAt(key)
	if err != nil {
		return nil, err
	}
	if g := s.Group(string(group)); g != nil {
		return g, nil
	}
	return nil, errNoKeyOrGroup(string(key), string(group))
}

// XPENDING key group [[IDLE min-idle-time] start end count [consumer]]
func xpending(c *connection, args [][]byte) error {
	r, err := parsePendingRange(args)
	if err != nil {
		return err
	}
	g, err := c.groupAt(args[1], args[2])
	if err != nil {
		return err
	}
	if r.isSummary {
		c.writePendingSummary(g)
		return nil
	}
	now := c.nowMs()
	var found []value.Pending
	for _, p := range g.Pending() {
		if int64(len(found)) == r.count {
			break
		}
		if !p.ID.Less(r.from) && !r.to.Less(p.ID) && (r.consumer == nil || p.Consumer == string(r.consumer)) &&
			(r.idle == 0 || now-p.AtMs >= r.idle) {
			found = append(found, p)
		}
	}
	c.out.writeArrayHeader(len(found))
	for _, p := range found {
		c.out.writeArrayHeader(4)
		c.out.writeBulkString(p.ID.String())
		c.out.writeBulkString(p.Consumer)
		c.out.writeInteger(max(now-p.AtMs, 0))
		c.out.writeInteger(p.Count)
		c.out.flushIfFull()
	}
	return nil
}

func (c *connection) writePendingSummary(g *value.StreamGroup) {
	all := g.Pending()
	c.out.writeArrayHeader(4)
	c.out.writeInteger(int64(len(all)))
	if len(all) == 0 {
		c.out.writeNull()
		c.out.writeNull()
		c.out.writeNullArray()
		return
	}
	c.out.writeBulkString(all[0].ID.String())
	c.out.writeBulkString(all[len(all)-1].ID.String())
	var names []string
	for _, name := range g.Consumers() {
		if len(g.PendingOf(name)) > 0 {
			names = append(names, name)
		}
	}
	c.out.writeArrayHeader(len(names))
	for _, name := range names {
		c.out.writeArrayHeader(2)
		c.out.writeBulkString(name)
		c.out.writeBulkString(strconv.Itoa(len(g.PendingOf(name))))
	}
}
