package resp

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"
)

// Socket deadlines refer to the clock of the operating system, so this file uses time.Now instead of Options.Clock.
const (
	// writeProbe is how long a write may block before send checks whether the client is still sending.
	writeProbe = 20 * time.Millisecond
	// readProbe is how long that check waits for bytes.
	readProbe = time.Millisecond
)

// receive waits for bytes from the client. It returns false at the end of the stream, or when the connection is to
// close because the server is stopping.
func (c *connection) receive() bool {
	if c.out.err != nil {
		return false
	}
	c.in.compact()
	if !c.makeRoom(c.in.growth()) {
		return false
	}
	n, err := c.readSocket()
	if n == 0 && errors.Is(err, os.ErrDeadlineExceeded) && c.server.IsStopping() {
		n, err = c.receiveLast()
	}
	c.in.commit(n)
	c.counters.received += int64(n)
	return n > 0 || err == nil
}

// receiveLast receives what a client has sent before it could know that the server is stopping: the rest of a command,
// for which Shutdown bounds the wait, and once what has arrived since.
func (c *connection) receiveLast() (int, error) {
	deadline := time.Time{}
	if !c.in.midCommand() {
		if c.receivedLast {
			return 0, os.ErrDeadlineExceeded
		}
		c.receivedLast = true
		deadline = time.Now().Add(readProbe)
	}
	if err := c.socket.SetReadDeadline(deadline); err != nil {
		return 0, err
	}
	n, err := c.socket.Read(c.in.reserve())
	c.client.StopReading()
	return n, err
}

// lingerTimeout is how long a connection that the server ends waits for the client to close it.
const lingerTimeout = 200 * time.Millisecond

// linger ends the connection in a way that the client still gets all replies: if the socket were closed while the
// client sends, the kernel would reset the connection, and drop replies that the client has not read yet.
func (c *connection) linger() {
	half, ok := c.socket.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil || c.socket.SetReadDeadline(time.Now().Add(lingerTimeout)) != nil {
		return
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(c.socket, 1<<20)) // until the client closes, or for lingerTimeout
}

// send writes replies.
func (c *connection) send(b []byte) error {
	c.counters.sent += int64(len(b))
	if len(b) >= noCopyBytes && c.held.values == 0 && !c.out.owns(b) { // a value that waits for a slow client
		c.hold(len(b))
		defer c.hold(0)
	}
	if c.below == nil {
		_, err := c.write(b)
		return err
	}
	_, err := c.socket.Write(b) // which calls write
	return err
}

// write writes to the socket itself. Many clients write a whole pipeline before they read its first reply. They would
// never start reading if the sidecar stopped receiving while its replies do not fit into the socket, so a blocked write
// alternates with reads.
func (c *connection) write(b []byte) (written int, err error) {
	if c.direct != nil { // mostly all of it fits
		if written = c.direct.write(b); written == len(b) {
			return written, nil
		}
		b = b[written:]
		defer c.client.Socket.SetWriteDeadline(time.Time{}) // else the next direct write would fail
	}
	now := time.Now()
	progress := now
	for {
		if err := c.client.Socket.SetWriteDeadline(now.Add(writeProbe)); err != nil {
			return written, err
		}
		n, err := c.client.Socket.Write(b)
		written += n
		if b = b[n:]; len(b) == 0 {
			return written, nil
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return written, err
		}
		limit := c.server.options.Limits.WriteTimeout
		switch now = time.Now(); {
		case n > 0:
			progress = now
		case now.Sub(progress) > limit:
			return written, fmt.Errorf("client read none of its replies for %s", limit)
		}
		if err := c.receiveWhileBlocked(); err != nil {
			return written, err
		}
	}
}

// receiveWhileBlocked receives what the client has sent, up to MaxPipelineBytes, without waiting for more.
func (c *connection) receiveWhileBlocked() error {
	receive, ahead := c.whileExecuting()
	for ahead() < c.server.options.Limits.MaxPipelineBytes {
		if err := c.client.Socket.SetReadDeadline(time.Now().Add(readProbe)); err != nil {
			return err
		}
		if receive() != nil {
			break // also at the end of the stream: the client may still be reading, and receive will see the end again
		}
	}
	if err := c.client.Socket.SetReadDeadline(time.Time{}); err != nil {
		return err
	}
	if c.server.IsStopping() {
		c.client.StopReading() // Shutdown may have called it meanwhile, and its read deadline must stay
	}
	return nil
}

// whileExecuting returns how to receive once while a command executes, and how much was received ahead.
func (c *connection) whileExecuting() (receive func() error, ahead func() int) {
	if c.below != nil {
		return c.below.receive, func() int { return c.in.buffered() + len(c.below.ahead) }
	}
	return c.receiveOnce, c.in.buffered
}

// receiveOnce receives from the socket itself while a command executes.
func (c *connection) receiveOnce() error {
	c.client.Account(c.takes() + int64(c.in.growth()))
	if c.client.IsEvicted() {
		return net.ErrClosed
	}
	n, err := c.client.Socket.Read(c.in.reserveKeepingArgs())
	c.in.commit(n)
	c.counters.received += int64(n)
	return err
}
