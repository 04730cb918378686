package resp

import (
	"fmt"
	"net"
	"runtime/debug"
	"strings"
	"time"
)

// connection serves one client. It is used by one goroutine only, except for cut and finish.
type connection struct {
	server *Server
	socket net.Conn
	id     int64
	opened time.Time

	in  *reader
	out writer

	session    Session // nil until a command needs the store
	pipeliner  Pipeliner
	prefetcher Prefetcher
	puts       puts
	announced  announced

	authenticated bool
	quitting      bool
	// noReply and skipNext are CLIENT REPLY OFF and SKIP; skipping is the command that SKIP was meant for.
	noReply, skipNext, skipping bool

	name               string
	libName, libVer    string
	lastCommand        string
	commands, failures int64 // not yet added to the server's
}

func newConnection(s *Server, socket net.Conn, id int64) *connection {
	c := &connection{server: s, socket: socket, id: id, opened: s.options.Clock(), in: newReader(&s.options.Limits)}
	c.out = writer{send: c.send, proto: 2}
	c.authenticate(s.options.Password == "")
	return c
}

func (c *connection) authenticate(ok bool) {
	c.authenticated = ok
	c.in.trusted = ok
}

// serve runs until the client leaves, the stream is malformed or the server stops. A panic ends it, and nothing else.
func (c *connection) serve() {
	defer c.close()
	defer func() {
		if r := recover(); r != nil {
			c.server.stats.panics.Add(1)
			if m := c.server.options.Metrics; m != nil {
				m.Panicked()
			}
			c.server.options.Logger.Error("a command panicked; its connection is closed", "client", c.socket.RemoteAddr(),
				"command", c.lastCommand, "panic", fmt.Sprint(r), "stack", string(debug.Stack()))
			// The commands before it were executed: their replies must not be lost with it.
			c.out.abandon()
			c.out.flush()
		}
	}()
	for !c.quitting && c.out.err == nil {
		args, err := c.in.next()
		switch {
		case err != nil:
			c.malformed(err)
		case args == nil && c.in.excess.limit == withinLimits:
			// Nothing more to execute: what was collected goes out before this waits for the client. A reply that does not go out
			// at once lets commands in, and the client may be waiting for their replies.
			had := c.in.buffered()
			c.settle()
			c.out.flush()
			c.report()
			if c.in.buffered() == had && !c.fill() {
				return
			}
		default:
			c.execute(args)
		}
	}
	c.settle()
	c.out.flush()
}

func (c *connection) malformed(err error) {
	c.server.stats.protocolErrors.Add(1)
	if m := c.server.options.Metrics; m != nil {
		m.ProtocolError()
	}
	c.settle()
	c.out.begin()
	c.out.fail(asReply(err))
	c.out.end()
	c.quitting = true
}

// execute runs one command and makes its reply.
func (c *connection) execute(args [][]byte) {
	cmd, err := c.admit(args)
	if cmd == nil || cmd.traits&blind == 0 {
		c.settle()
	}
	c.out.begin()
	failed := false
	if err != nil {
		failed = true
		c.out.fail(err)
	} else {
		failed = c.run(cmd, args)
	}
	c.out.end()

	c.skipping, c.skipNext = c.skipNext, false
	c.out.mute = c.noReply || c.skipping
	c.commands++
	if failed {
		c.failures++
	}
}

// run calls the handler and reports whether it failed.
func (c *connection) run(cmd *command, args [][]byte) (failed bool) {
	c.lastCommand = cmd.name
	m := c.server.options.Metrics
	var start time.Time
	if m != nil {
		start = c.server.options.Clock()
	}
	var err error
	if cmd.traits&store != 0 {
		err = c.open()
	}
	if err == nil {
		err = cmd.run(c, args)
	}
	if err != nil {
		c.settle()
		c.out.fail(asReply(err))
	}
	if m != nil {
		m.CommandDone(cmd.name, c.server.options.Clock().Sub(start).Seconds(), err != nil)
	}
	return err != nil
}

// open makes the session, once.
func (c *connection) open() error {
	if c.session != nil {
		return nil
	}
	session, err := c.server.options.Backend.NewSession(c.socket.RemoteAddr())
	if err != nil {
		return err
	}
	c.session = session
	c.pipeliner, _ = session.(Pipeliner)
	c.prefetcher, _ = session.(Prefetcher)
	return nil
}

// admit finds the command and checks, in Redis' order, all that needs no execution.
func (c *connection) admit(args [][]byte) (*command, *Error) {
	if c.in.excess.limit != withinLimits {
		return nil, c.overLimit(args)
	}
	cmd, err := lookup(args)
	if err != nil {
		return nil, err
	}
	if !c.authenticated && cmd.traits&open == 0 {
		return nil, errNoAuth
	}
	limit := c.server.options.Limits.MaxKeyBytes
	if cmd.keys == oneKey {
		if len(args[1]) > limit {
			return nil, errTooLong("key", len(args[1]), limit)
		}
		return cmd, nil
	}
	cmd.keys.positions(len(args), func(i int) bool {
		if len(args[i]) > limit {
			err = errTooLong("key", len(args[i]), limit)
		}
		return err == nil
	})
	if err != nil {
		return nil, err
	}
	return cmd, nil
}

// overLimit says which limit the command was over that the reader did not keep.
func (c *connection) overLimit(args [][]byte) *Error {
	over, lim := c.in.excess, &c.server.options.Limits
	c.in.excess = excess{}
	switch over.limit {
	case overArgs:
		return Errorf("ERR", "command has %d arguments, more than the limit of %d", over.n, lim.MaxArgs)
	case overCommand:
		return Errorf("ERR", "command is longer than the limit of %d bytes; split it", lim.MaxCommandBytes)
	}
	if len(args) > 0 {
		// The arguments after the long one are not counted here, so a key given from the end is found only if it is the last so far.
		if cmd := byName[strings.ToLower(string(args[0]))]; cmd != nil && cmd.keys.isKey(over.arg, over.arg+1) {
			return errTooLong("key", over.n, lim.MaxKeyBytes)
		}
	}
	return errTooLong("value", over.n, lim.MaxValueBytes)
}

// report adds what was counted to the server's counters, once per batch, so that connections do not contend for them.
func (c *connection) report() {
	c.server.stats.commands.Add(c.commands)
	c.server.stats.failures.Add(c.failures)
	c.commands, c.failures = 0, 0
}

// close ends the session and the socket. The session is foreign code: its panic must not pass this connection either.
func (c *connection) close() {
	defer func() {
		if r := recover(); r != nil {
			c.server.stats.panics.Add(1)
			c.server.options.Logger.Error("closing a session panicked", "panic", fmt.Sprint(r), "stack", string(debug.Stack()))
		}
	}()
	c.report()
	c.socket.Close()
	if c.session != nil {
		c.session.Close()
	}
}
