package resp

import (
	"errors"
	"io"
	"sync"
	"syscall"
)

// An idle connection has no buffers: it waits until its socket can be read, and takes them then. With TLS it keeps
// them, since only the TLS connection knows whether it has received a part of a record.

// largeBytes is the size of a buffer that holds all replies until they are flushed, unless one reply is larger.
const largeBytes = 128 << 10

// buffers and largeBuffers are those that no connection uses.
var (
	buffers      = sync.Pool{New: func() any { return new([readBytes]byte) }}
	largeBuffers = sync.Pool{New: func() any { return new([largeBytes]byte) }}
)

// recycle gives a buffer back, unless it is of another size.
func recycle(b []byte) {
	switch cap(b) {
	case readBytes:
		buffers.Put((*[readBytes]byte)(b[:readBytes]))
	case largeBytes:
		largeBuffers.Put((*[largeBytes]byte)(b[:largeBytes]))
	}
}

// idleReader reads from a socket into a buffer that it takes when there is something to read.
type idleReader struct {
	socket syscall.RawConn
	try    func(fd uintptr) bool // tryRead, made once
	n      int
	err    error
}

// waitWithoutBuffers makes the connection give up its buffers while it is idle, if its socket allows that.
func (c *connection) waitWithoutBuffers() {
	socket, ok := c.client.Socket.(syscall.Conn)
	if !ok {
		return
	}
	if raw, err := socket.SyscallConn(); err == nil {
		c.idle = idleReader{socket: raw, try: c.tryRead}
	}
}

// readSocket waits for bytes and returns how many there are after those in the buffer; commit must be called next.
func (c *connection) readSocket() (int, error) {
	if c.idle.socket == nil || c.below != nil || len(c.in.buf) > 0 {
		if cap(c.out.buf) == largeBytes && len(c.out.buf) == 0 {
			recycle(c.out.buf)
			c.out.buf = nil
		}
		free := c.in.reserve()
		c.account()
		return c.socket.Read(free)
	}
	err := c.idle.socket.Read(c.idle.try)
	n := c.idle.n
	if err == nil {
		err = c.idle.err
	}
	c.idle.n, c.idle.err = 0, nil
	return n, err
}

// tryRead reads once, and gives the buffers up if there is nothing to read.
func (c *connection) tryRead(fd uintptr) bool {
	if c.in.buf == nil {
		c.in.buf = buffers.Get().(*[readBytes]byte)[:0]
	}
	if c.out.buf == nil {
		c.out.buf = buffers.Get().(*[readBytes]byte)[:0]
	}
	for {
		n, err := syscall.Read(int(fd), c.in.reserve())
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case errors.Is(err, syscall.EAGAIN):
			c.releaseBuffers()
			c.account()
			return false
		case err != nil:
			c.idle.err = err
		case n == 0:
			c.idle.err = io.EOF
		}
		c.idle.n = max(n, 0)
		c.account()
		return true
	}
}

// releaseBuffers gives up the buffers of a connection that has nothing to execute and nothing to send.
func (c *connection) releaseBuffers() {
	recycle(c.in.buf)
	recycle(c.out.buf)
	c.in.buf, c.out.buf, c.out.mark = nil, nil, 0
	if cap(c.in.args) > 64 {
		c.in.args, c.in.cur.spans = nil, nil
	}
	if cap(c.in.text) > readBytes {
		c.in.text = nil
	}
}
