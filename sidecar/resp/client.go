package resp

import (
	"fmt"
	"strings"
)

// CLIENT ID
func clientID(c *connection, _ [][]byte) error {
	c.out.integer(c.id)
	return nil
}

// CLIENT GETNAME
func clientGetName(c *connection, _ [][]byte) error {
	if c.name == "" {
		c.out.null()
	} else {
		c.out.bulkString(c.name)
	}
	return nil
}

// CLIENT SETNAME name
func clientSetName(c *connection, args [][]byte) error {
	if !printable(args[2]) {
		return errBadClientName
	}
	c.name = string(args[2])
	c.out.ok()
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
	c.out.ok()
	return nil
}

// CLIENT INFO
func clientInfo(c *connection, _ [][]byte) error {
	c.out.verbatim(c.describe())
	return nil
}

// CLIENT LIST [TYPE type] [ID id ...]: a client sees itself only.
func clientList(c *connection, args [][]byte) error {
	shown := true
	switch {
	case len(args) == 2:
	case len(args) == 4 && equalFold(args[2], "type"):
		switch kind := strings.ToLower(string(args[3])); kind {
		case "normal":
		case "master", "replica", "slave", "pubsub":
			shown = false
		default:
			return Errorf("ERR", "Unknown client type '%s'", cString(args[3], len(args[3])))
		}
	case len(args) > 3 && equalFold(args[2], "id"):
		shown = false
		for _, arg := range args[3:] {
			id, ok := parseInt(arg)
			if !ok || id < 1 {
				return plainError("Invalid client ID")
			}
			shown = shown || id == c.id
		}
	default:
		return errSyntax
	}
	if shown {
		c.out.verbatim(c.describe())
	} else {
		c.out.verbatim("")
	}
	return nil
}

// describe is the line of CLIENT LIST. What has no meaning here has the value that an ordinary client of Redis has.
func (c *connection) describe() string {
	age := int64(c.server.options.Clock().Sub(c.opened).Seconds())
	return fmt.Sprintf("id=%d addr=%s laddr=%s fd=-1 name=%s age=%d idle=0 flags=N db=0 sub=0 psub=0 ssub=0 multi=-1 qbuf=%d "+
		"qbuf-free=%d argv-mem=0 multi-mem=0 rbs=%d rbp=%d obl=%d oll=0 omem=0 tot-mem=%d events=r cmd=%s user=%s redir=-1 "+
		"resp=%d lib-name=%s lib-ver=%s\n",
		c.id, c.socket.RemoteAddr(), c.socket.LocalAddr(), c.name, age, c.in.buffered(), cap(c.in.buf)-len(c.in.buf),
		cap(c.out.buf), cap(c.out.buf), len(c.out.buf), cap(c.in.buf)+cap(c.out.buf), c.lastCommand,
		c.server.options.Username, c.out.proto, c.libName, c.libVer)
}

// CLIENT NO-EVICT ON|OFF
func clientNoEvict(c *connection, args [][]byte) error { return c.accept(args[2]) }

// CLIENT NO-TOUCH ON|OFF
func clientNoTouch(c *connection, args [][]byte) error { return c.accept(args[2]) }

// accept answers a switch that changes nothing here.
func (c *connection) accept(onOff []byte) error {
	if !equalFold(onOff, "on") && !equalFold(onOff, "off") {
		return errSyntax
	}
	c.out.ok()
	return nil
}

// CLIENT REPLY ON|OFF|SKIP
func clientReply(c *connection, args [][]byte) error {
	switch {
	case equalFold(args[2], "on"):
		c.noReply, c.out.mute = false, false
		c.out.ok()
	case equalFold(args[2], "off"):
		c.noReply = true
	case equalFold(args[2], "skip"):
		c.skipNext = !c.noReply
	default:
		return errSyntax
	}
	return nil
}

// CLIENT TRACKING ...
func clientTracking(*connection, [][]byte) error {
	return plainError("CLIENT TRACKING is not supported: the sidecar does not tell clients of changes; " +
		"switch client side caching off, the sidecar and its data centre cache already")
}

// CLIENT HELP
func clientHelp(c *connection, _ [][]byte) error {
	c.help("CLIENT",
		"GETNAME", "    Return the name of the current connection.",
		"ID", "    Return the ID of the current connection.",
		"INFO", "    Return information about the current client connection.",
		"LIST [TYPE type] [ID id ...]", "    Return information about the current client connection; others are not shown.",
		"NO-EVICT (ON|OFF)", "    Accepted: connections are never evicted.",
		"NO-TOUCH (ON|OFF)", "    Accepted: reads have no effect on eviction.",
		"REPLY (ON|OFF|SKIP)", "    Control the replies sent to the current connection.",
		"SETINFO (LIB-NAME|LIB-VER) <value>", "    Tell the name or version of the client's library.",
		"SETNAME <name>", "    Assign the name <name> to the current connection.")
	return nil
}

// help lists subcommands in the form of Redis.
func (c *connection) help(container string, lines ...string) {
	c.out.array(len(lines) + 3)
	c.out.simple(container + " <subcommand> [<arg> [value] [opt] ...]. Subcommands are:")
	for _, line := range lines {
		c.out.simple(line)
	}
	c.out.simple("HELP")
	c.out.simple("    Prints this help.")
}
