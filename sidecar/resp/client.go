package resp

import (
	"fmt"
	"strings"
)

// CLIENT ID
func clientID(c *connection, _ [][]byte) error {
	c.out.writeInteger(c.id)
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
	c.out.writeVerbatim(c.clientLine())
	return nil
}

// CLIENT LIST [TYPE type] [ID id ...]: a client sees only itself.
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
				return genericError("Invalid client ID")
			}
			shown = shown || id == c.id
		}
	default:
		return errSyntax
	}
	if shown {
		c.out.writeVerbatim(c.clientLine())
	} else {
		c.out.writeVerbatim("")
	}
	return nil
}

// clientLine returns the line of CLIENT LIST. Fields without meaning here have the value of an ordinary Redis client.
func (c *connection) clientLine() string {
	age := int64(c.server.options.Clock().Sub(c.opened).Seconds())
	flags, queued := "N", -1
	if c.transaction.open {
		flags, queued = "x", len(c.transaction.queue)
	}
	return fmt.Sprintf("id=%d addr=%s laddr=%s fd=-1 name=%s age=%d idle=0 flags=%s db=%d sub=0 psub=0 ssub=0 multi=%d qbuf=%d "+
		"qbuf-free=%d argv-mem=0 multi-mem=%d rbs=%d rbp=%d obl=%d oll=0 omem=0 tot-mem=%d events=r cmd=%s user=%s redir=-1 "+
		"resp=%d lib-name=%s lib-ver=%s\n",
		c.id, c.socket.RemoteAddr(), c.socket.LocalAddr(), c.name, age, flags, c.database, queued, c.in.buffered(), cap(c.in.buf)-len(c.in.buf),
		c.transaction.bytes, cap(c.out.buf), cap(c.out.buf), len(c.out.buf), cap(c.in.buf)+cap(c.out.buf), c.lastCommand,
		c.userName(), c.out.proto, c.libName, c.libVer)
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
		"LIST [TYPE type] [ID id ...]", "    Return information about the current client connection; others are not shown.",
		"NO-EVICT (ON|OFF)", "    Accepted, without effect.",
		"NO-TOUCH (ON|OFF)", "    Accepted: reads have no effect on eviction.",
		"REPLY (ON|OFF|SKIP)", "    Control the replies sent to the current connection.",
		"SETINFO (LIB-NAME|LIB-VER) <value>", "    Set the name or version of the client library.",
		"SETNAME <name>", "    Assign the name <name> to the current connection.")
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
