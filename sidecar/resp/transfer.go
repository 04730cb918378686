package resp

import (
	"errors"
	"fmt"
	"os"
	"time"
)

// The deadlines of sockets are compared with the clock of the operating system, so this file uses that one.
const (
	// stallProbe is how long a write may block before this looks whether the client is still sending.
	stallProbe = 20 * time.Millisecond
	// slurpProbe is how long it then waits for bytes of the client.
	slurpProbe = time.Millisecond
)

// past makes a blocked read return at once.
var past = time.Unix(1, 0)

// fill waits for bytes of the client. It reports false at the end of the stream, or once the server is stopping.
func (c *connection) fill() bool {
	if c.out.err != nil {
		return false
	}
	n, err := c.socket.Read(c.in.room())
	c.in.received(n)
	return n > 0 || err == nil
}

// send writes replies. Many clients write a whole pipeline before they read its first reply, and would never come to
// read if the sidecar did not go on taking in commands while its replies do not fit into the socket: a write that
// stalls takes turns with reading.
func (c *connection) send(b []byte) error {
	now := time.Now()
	progress := now
	for {
		if err := c.socket.SetWriteDeadline(now.Add(stallProbe)); err != nil {
			return err
		}
		n, err := c.socket.Write(b)
		if b = b[n:]; len(b) == 0 {
			return nil
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
		limit := c.server.options.Limits.WriteTimeout
		switch now = time.Now(); {
		case n > 0:
			progress = now
		case now.Sub(progress) > limit:
			return fmt.Errorf("client took no byte of its replies for %s", limit)
		}
		if err := c.slurp(); err != nil {
			return err
		}
	}
}

// slurp takes in what the client has sent, up to the limit, without waiting for more.
func (c *connection) slurp() error {
	for c.in.buffered() < c.server.options.Limits.MaxPipelineBytes {
		if err := c.socket.SetReadDeadline(time.Now().Add(slurpProbe)); err != nil {
			return err
		}
		n, err := c.socket.Read(c.in.moreRoom())
		c.in.received(n)
		if err != nil {
			break // also the end of the stream: the client may still be reading, and fill will see it again
		}
	}
	if err := c.socket.SetReadDeadline(time.Time{}); err != nil {
		return err
	}
	if c.server.stopping.Load() {
		c.finish() // it may have come between; its deadline must stay
	}
	return nil
}

// finish makes the connection end after the commands it has read. Any goroutine may call it, after stopping is set.
func (c *connection) finish() { c.socket.SetReadDeadline(past) }

// cut ends the connection at once. Any goroutine may call it.
func (c *connection) cut() { c.socket.Close() }
