package resp

import (
	"fmt"
	"strings"
	"sync"
	"time"
)

// CLIENT ID
func clientID(c *connection, _ [][]byte) error {
	c.out.writeInteger(c.client.ID)
	return nil
}

// CLIENT GETNAME
func clientGetName(c *connection, _ [][]byte) error {
	if c.name == "" {
		c.out.writeNull()
	} else {
		c.out.writeBulkString(c.name)
	}
	return nil
}

// CLIENT SETNAME name
func clientSetName(c *connection, args [][]byte) error {
	if !printable(args[2]) {
		return errBadClientName
	}
	c.name = string(args[2])
	c.out.writeOK()
	return nil
}

// CLIENT SETINFO LIB-NAME name | LIB-VER version
func clientSetInfo(c *connection, args [][]byte) error {
	field, what := &c.libName, "lib-name"
	switch {
	case equalFold(args[2], "lib-name"):
	case equalFold(args[2], "lib-ver"):
		field, what = &c.libVer, "lib-ver"
	default:
		return Errorf("ERR", "Unrecognized option '%s'", cString(args[2], len(args[2])))
	}
	if !printable(args[3]) {
		return Errorf("ERR", "%s cannot contain spaces, newlines or special characters.", what)
	}
	*field = string(args[3])
	c.out.writeOK()
	return nil
}

// CLIENT INFO
func clientInfo(c *connection, _ [][]byte) error {
	state := c.state()
	c.out.writeVerbatim(c.clientLine(&state))
	return nil
}

// CLIENT LIST [TYPE type] [ID id ...]
func clientList(c *connection, args [][]byte) error {
	shown := func(int64) bool { return true }
	switch {
	case len(args) == 2:
	case len(args) == 4 && equalFold(args[2], "type"):
		switch kind := strings.ToLower(string(args[3])); kind {
		case "normal":
		case "master", "replica", "slave", "pubsub":
			shown = func(int64) bool { return false }
		default:
			return Errorf("ERR", "Unknown client type '%s'", cString(args[3], len(args[3])))
		}
	case len(args) > 3 && equalFold(args[2], "id"):
		ids := make(map[int64]bool, len(args)-3)
		for _, arg := range args[3:] {
			id, ok := parseInt(arg)
			if !ok || id < 1 {
				return genericError("Invalid client ID")
			}
			ids[id] = true
		}
		shown = func(id int64) bool { return ids[id] }
	default:
		return errSyntax
	}
	c.showState()
	var text strings.Builder
	for _, each := range c.server.List() {
		if other := each.(*connection); shown(other.client.ID) {
			state := other.shown.load()
			text.WriteString(other.clientLine(&state))
		}
	}
	c.hold(text.Len())
	defer c.hold(0)
	c.out.writeVerbatim(text.String())
	return nil
}

// clientState is what others see of a connection.
type clientState struct {
	name, libName, libVer, lastCommand string
	active                             time.Time // when the connection had last executed what it had received
	database, proto                    int
	inMulti                            bool
	queued, queuedBytes                int
	buffered, readBuffer               int // bytes
	replies, replyBuffer               int
}

// shownState is the state of a connection as of the last time that it waited for its client, for CLIENT LIST on others.
type shownState struct {
	mu    sync.Mutex
	state clientState
}

func (s *shownState) load() clientState {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state
}

// state returns the present state of the connection.
func (c *connection) state() clientState {
	return clientState{name: c.name, libName: c.libName, libVer: c.libVer, lastCommand: c.lastCommand,
		active:   c.server.options.Clock(),
		database: c.database, proto: c.out.proto, inMulti: c.transaction.open, queued: len(c.transaction.queue),
		queuedBytes: c.transaction.bytes,
		buffered:    c.in.buffered(), readBuffer: cap(c.in.buf), replies: len(c.out.buf), replyBuffer: cap(c.out.buf)}
}

// showState shows the present state to others.
func (c *connection) showState() {
	state := c.state()
	c.shown.mu.Lock()
	defer c.shown.mu.Unlock()
	c.shown.state = state
}

// clientLine returns the line of CLIENT LIST. Fields without meaning here have the value of an ordinary Redis client.
func (c *connection) clientLine(s *clientState) string {
	now := c.server.options.Clock()
	flags, queued, lastCommand := "N", -1, s.lastCommand
	if s.inMulti {
		flags, queued = "x", s.queued
	}
	if c.wait.isWaiting() {
		flags = "b"
	}
	if lastCommand == "" {
		lastCommand = "NULL"
	}
	return fmt.Sprintf(
		"id=%d addr=%s laddr=%s fd=-1 name=%s age=%d idle=%d flags=%s db=%d sub=0 psub=0 ssub=0 multi=%d qbuf=%d "+
			"qbuf-free=%d argv-mem=0 multi-mem=%d rbs=%d rbp=%d obl=%d oll=0 omem=0 tot-mem=%d events=r cmd=%s "+
			"user=%s redir=-1 resp=%d lib-name=%s lib-ver=%s\n",
		c.client.ID, c.socket.RemoteAddr(), c.socket.LocalAddr(), s.name, int64(now.Sub(c.client.Opened).Seconds()),
		int64(now.Sub(s.active).Seconds()), flags, s.database, queued,
		s.buffered, s.readBuffer-s.buffered, s.queuedBytes, s.replyBuffer, s.replyBuffer, s.replies,
		c.client.AccountedBytes(), lastCommand,
		c.userName(), s.proto, s.libName, s.libVer)
}

// CLIENT NO-EVICT ON|OFF
func clientNoEvict(c *connection, args [][]byte) error { return c.acknowledgeSwitch(args[2]) }

// CLIENT NO-TOUCH ON|OFF
func clientNoTouch(c *connection, args [][]byte) error { return c.acknowledgeSwitch(args[2]) }

// acknowledgeSwitch accepts an ON or OFF that has no effect here.
func (c *connection) acknowledgeSwitch(onOff []byte) error {
	if !equalFold(onOff, "on") && !equalFold(onOff, "off") {
		return errSyntax
	}
	c.out.writeOK()
	return nil
}

// CLIENT REPLY ON|OFF|SKIP
func clientReply(c *connection, args [][]byte) error {
	switch {
	case equalFold(args[2], "on"):
		c.replyOff, c.out.mute = false, false
		c.out.writeOK()
	case equalFold(args[2], "off"):
		c.replyOff = true
	case equalFold(args[2], "skip"):
		c.skipNextReply = !c.replyOff
	default:
		return errSyntax
	}
	return nil
}

// CLIENT HELP
func clientHelp(c *connection, _ [][]byte) error {
	c.writeHelp("CLIENT",
		"GETNAME", "    Return the name of the current connection.",
		"ID", "    Return the ID of the current connection.",
		"INFO", "    Return information about the current client connection.",
		"LIST [TYPE type] [ID id ...]", "    Return information about client connections.",
		"NO-EVICT (ON|OFF)", "    Accepted, without effect.",
		"NO-TOUCH (ON|OFF)", "    Accepted: reads have no effect on eviction.",
		"REPLY (ON|OFF|SKIP)", "    Control the replies sent to the current connection.",
		"SETINFO (LIB-NAME|LIB-VER) <value>", "    Set the name or version of the client library.",
		"SETNAME <name>", "    Assign the name <name> to the current connection.",
		"UNBLOCK <id> [TIMEOUT|ERROR]", "    End the wait of a client for an element.")
	return nil
}

// writeHelp lists subcommands in the format of Redis.
func (c *connection) writeHelp(container string, lines ...string) {
	c.out.writeArrayHeader(len(lines) + 3)
	c.out.writeSimple(container + " <subcommand> [<arg> [value] [opt] ...]. Subcommands are:")
	for _, line := range lines {
		c.out.writeSimple(line)
	}
	c.out.writeSimple("HELP")
	c.out.writeSimple("    Prints this help.")
}
