package resp

import (
	"errors"
	"fmt"
	"net"
	"runtime/debug"
	"strings"
	"time"

	"github.com/causalstore/causalstore/sidecar/front"
)

// connection serves one client. One goroutine at a time uses it, except for shown and wait.
type connection struct {
	server *Server
	client *front.Client
	socket net.Conn    // with TLS, if the listener is for it
	below  *ciphertext // the socket below TLS; nil without

	in   *reader
	out  writer
	held heldMemory
	idle idleReader

	session databaseSession // without a Session until a command needs the store
	pending pendingPuts
	updates pendingUpdates
	ahead   readAhead
	timed   timedCommands
	direct  *directWriter // nil: the socket offers none

	database    int // that SELECT has chosen
	transaction transaction
	executing   bool // the commands of a transaction: EXEC holds the locks of their keys

	shown    shownState // to other connections
	wait     waitState  // others may end it
	quitting bool
	// receivedLast is set once the connection has received for the last time, because the server is stopping.
	receivedLast bool
	// replyOff and skipNextReply are set by CLIENT REPLY OFF and SKIP. skipThisReply is set during the command after
	// SKIP.
	replyOff, skipNextReply, skipThisReply bool

	name            string
	libName, libVer string
	lastCommand     string
	counters        connectionCounters // not yet added to server.stats
}

func newConnection(s *Server, client *front.Client) *connection {
	c := &connection{server: s, client: client, socket: client.Socket, in: newReader(&s.options.Limits)}
	c.out = writer{send: c.send, proto: 2}
	c.waitWithoutBuffers()
	c.direct = newDirectWriter(client.Socket)
	c.in.authenticated = client.User() != nil
	if client.UsesTLS() {
		c.secure()
	}
	c.showState()
	return c
}

// Serve runs until the client disconnects, the stream is malformed or the server stops. A panic closes only this
// connection.
func (c *connection) Serve() {
	defer c.close()
	defer func() {
		if r := recover(); r != nil {
			c.server.stats.panics.Add(1)
			if m := c.server.options.Metrics; m != nil {
				m.Panicked()
			}
			c.server.options.Logger.Error("panic in a command, closing its connection", "client", c.socket.RemoteAddr(),
				"command", c.lastCommand, "panic", fmt.Sprint(r), "stack", string(debug.Stack()))
			// The commands before the panic were executed, so their replies must still be sent.
			c.out.discardReply()
			c.out.flush()
		}
	}()
	if c.client.UsesTLS() && !c.handshake() {
		return
	}
	for !c.quitting && c.out.err == nil {
		args, err := c.in.next()
		switch {
		case err != nil:
			c.rejectMalformed(err)
		case args == nil && c.in.excess.limit == withinLimits:
			// Nothing is left to execute: send the replies before waiting for the client. While a reply is blocked,
			// flush receives more commands, and the client may be waiting for their replies.
			before := c.in.buffered()
			c.awaitWrites()
			c.flushCounters() // before the client has its replies
			c.out.flush()
			c.showState()
			if c.in.buffered() == before && !c.receive() {
				return
			}
		default:
			c.execute(args)
		}
	}
	c.awaitWrites()
	c.out.flush()
}

func (c *connection) rejectMalformed(err error) {
	if errors.Is(err, errTLS) {
		c.rejectProtocol(
			"a client with TLS on the port without TLS; it needs the port of listen.redisTLS, or a URL with redis://",
			nil)
		defer c.linger() // the client has sent more, and is to get the answer
		defer c.out.flush()
	} else {
		c.server.stats.protocolErrors.Add(1)
		if m := c.server.options.Metrics; m != nil {
			m.ProtocolError()
		}
	}
	c.awaitWrites()
	c.out.beginReply()
	c.out.writeError(toError(err))
	c.out.endReply()
	c.quitting = true
}

// execute runs one command and writes its reply.
func (c *connection) execute(args [][]byte) {
	if len(args) > 0 && isHTTP(args[0]) {
		c.rejectHTTP()
		return
	}
	cmd, err := c.admit(args)
	if cmd == nil || cmd.traits&pipelinedWrite == 0 {
		c.awaitWrites()
	}
	if err != nil || cmd.traits&readAheadOf == 0 {
		c.ahead.drop()
	}
	c.out.beginReply()
	failed := false
	switch {
	case err != nil:
		failed = true
		c.noteRejected(args)
		if len(args) > 0 && equalFold(args[0], "exec") {
			err = c.abortExec(err)
		}
		c.transaction.broken = c.transaction.open
		c.out.writeError(err)
	case c.transaction.open && cmd.traits&immediate == 0:
		failed = c.enqueue(cmd, args)
	default:
		failed = c.run(cmd, args)
	}
	c.out.endReply()

	c.skipThisReply, c.skipNextReply = c.skipNextReply, false
	c.out.mute = c.replyOff || c.skipThisReply
	c.counters.commands++
	if failed {
		c.counters.failures++
	}
}

// run calls the handler of a command and reports whether it failed.
func (c *connection) run(cmd *command, args [][]byte) (failed bool) {
	c.lastCommand = cmd.name
	if cmd.writes {
		c.counters.writes++
	}
	c.startTiming(cmd)
	var err error
	if cmd.traits&needsSession != 0 {
		err = c.ensureSession()
	}
	if err == nil {
		err = cmd.run(c, args)
	}
	if err != nil {
		c.awaitWrites()
		c.out.writeError(toError(err))
	}
	c.timed.count++
	if err != nil {
		c.timed.failed++
	}
	if c.ahead.isEmpty() {
		c.reportTimed()
	}
	return err != nil
}

// timedCommands are commands of one name that were timed together: one, or GETs that were read together.
type timedCommands struct {
	cmd           *command
	count, failed int
	since         time.Time
}

// startTiming reads the clock for a command, unless its value was read with that of a command before.
func (c *connection) startTiming(cmd *command) {
	if cmd.traits&readAheadOf != 0 && !c.ahead.isEmpty() {
		return
	}
	c.reportTimed()
	c.timed.cmd = cmd
	c.timed.since = c.server.options.Clock()
}

// reportTimed reports what was timed and not reported yet.
func (c *connection) reportTimed() {
	if t := &c.timed; t.count > 0 {
		took := c.server.options.Clock().Sub(t.since)
		c.server.stats.commandsDone(t.cmd, t.count, t.failed, took)
		if m := c.server.options.Metrics; m != nil {
			m.CommandsDone(t.cmd.name, t.count, t.failed, took.Seconds())
		}
		t.count, t.failed = 0, 0
	}
}

// ensureSession creates the session unless there is one.
func (c *connection) ensureSession() error {
	if c.session.Session != nil {
		return nil
	}
	session, err := c.server.options.Backend.NewSession()
	if err != nil {
		return err
	}
	c.session = databaseSession{Session: session, connection: c}
	return nil
}

// admit looks up the command and performs, in Redis' order, all checks that precede execution.
func (c *connection) admit(args [][]byte) (*command, *Error) {
	if c.in.excess.limit != withinLimits {
		return nil, c.overLimit(args)
	}
	cmd, err := lookup(args)
	if err != nil {
		if refused := refusalOf(args); refused != nil {
			err = refused
			if !c.in.authenticated {
				err = errNoAuth
			}
		}
		return nil, err
	}
	if !c.in.authenticated && cmd.traits&beforeAuth == 0 {
		return nil, errNoAuth
	}
	limit := c.server.options.Limits.MaxKeyBytes
	if cmd.keys == oneKey {
		if len(args[1]) > limit {
			return nil, errTooLong("key", len(args[1]), limit)
		}
		return cmd, nil
	}
	cmd.keys.forEach(args, func(i int) bool {
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

// overLimit returns the error for a command that the reader dropped because it exceeds a limit.
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
		// The number of arguments after the long one is unknown, so a key range that is counted from the end is taken
		// to reach this argument.
		if cmd := byName[strings.ToLower(string(args[0]))]; cmd != nil && cmd.keys.isKey(over.arg, over.arg+1) {
			return errTooLong("key", over.n, lim.MaxKeyBytes)
		}
	}
	return errTooLong("value", over.n, lim.MaxValueBytes)
}

// close closes the socket and the session. A panic in Session.Close must not affect other connections either.
func (c *connection) close() {
	defer func() {
		if r := recover(); r != nil {
			c.server.stats.panics.Add(1)
			c.server.options.Logger.Error("panic while closing a session", "panic", fmt.Sprint(r), "stack",
				string(debug.Stack()))
		}
	}()
	c.reportTimed()
	c.flushCounters()
	if c.server.IsStopping() {
		c.linger()
	}
	if c.out.err != nil {
		c.client.Abort() // TLS would send an alert
	}
	c.socket.Close()
	if c.session.Session != nil {
		c.session.Close()
	}
}
