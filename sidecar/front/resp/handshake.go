package resp

import (
	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/sidecar/causal"
)

// redisVersion is the version of Redis that this package imitates. Clients enable features by it.
const redisVersion = "7.0.15"

// PING [message]
func ping(c *connection, args [][]byte) error {
	switch len(args) {
	case 1:
		c.out.writeSimple("PONG")
	case 2:
		c.out.writeBulk(args[1])
	default:
		return errArity("ping")
	}
	return nil
}

// ECHO message
func echo(c *connection, args [][]byte) error {
	c.out.writeBulk(args[1])
	return nil
}

// QUIT
func quit(c *connection, _ [][]byte) error {
	c.out.writeOK()
	c.quitting = true
	return nil
}

// RESET: restores the state of a new connection. The session keeps what it has read and written.
func reset(c *connection, _ [][]byte) error {
	c.client.Logout()
	c.in.authenticated = c.client.User() != nil
	c.out.proto = 2
	c.replyOff, c.skipNextReply, c.out.mute = false, false, false
	c.name = ""
	c.database, c.transaction = 0, transaction{}
	if c.session.Session != nil {
		if err := c.session.SetLevel(causal.DefaultLevel); err != nil {
			return err
		}
	}
	c.out.writeSimple("RESET")
	return nil
}

// AUTH [username] password
func auth(c *connection, args [][]byte) error {
	if len(args) > 3 {
		return errSyntax
	}
	user, password := []byte(contract.DefaultUser), args[len(args)-1]
	if len(args) == 3 {
		user = args[1]
	} else if c.server.Users().AtStart() != nil {
		return genericError("AUTH <password> called without any password configured for the default user. " +
			"Are you sure your configuration is correct?")
	}
	if err := c.authenticate(user, password); err != nil {
		return err
	}
	c.out.writeOK()
	return nil
}

// HELLO [protover [AUTH username password] [SETNAME clientname]]
func hello(c *connection, args [][]byte) error {
	proto := int64(c.out.proto)
	if len(args) > 1 {
		n, ok := parseInt(args[1])
		switch {
		case !ok:
			return genericError("Protocol version is not an integer or out of range")
		case n < 2 || n > 3:
			return errNoProto
		}
		proto = n
	}
	var user, password, name []byte
	for i := 2; i < len(args); i++ {
		switch more := len(args) - 1 - i; {
		case equalFold(args[i], "auth") && more >= 2:
			user, password = args[i+1], args[i+2]
			i += 2
		case equalFold(args[i], "setname") && more >= 1:
			if name = args[i+1]; !printable(name) {
				return errBadClientName
			}
			i++
		default:
			return Errorf("ERR", "Syntax error in HELLO option '%s'", cString(args[i], len(args[i])))
		}
	}
	if password != nil {
		if err := c.authenticate(user, password); err != nil {
			return err
		}
	}
	if !c.in.authenticated {
		return &Error{Code: "NOAUTH",
			Message: "HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH " +
				"<user> <pass> option can be used to authenticate the client and select the RESP protocol version at " +
				"the same time"}
	}
	if name != nil {
		c.name = string(name)
	}
	c.out.proto = int(proto)
	c.out.writeReply(Map{"server", "redis", "version", redisVersion, "proto", proto, "id", c.client.ID, "mode",
		"standalone",
		"role", "master", "modules", Array{}})
	return nil
}

// printable reports whether a name consists of visible ASCII characters, so that CLIENT LIST stays parseable.
func printable(name []byte) bool {
	for _, b := range name {
		if b < '!' || b > '~' {
			return false
		}
	}
	return true
}
