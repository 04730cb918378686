package resp

import (
	"unsafe"

	"github.com/causalstore/causalstore/sidecar/front"
)

// What one connection takes of the memory that all clients have together: see front.Client.

// heldMemory is what a connection takes beside its buffers.
type heldMemory struct {
	values int // bytes of values that the command in progress writes or replies with
	queue  int // bytes of the transaction that is executed
}

// bytes returns the memory of the buffers of r.
func (r *reader) bytes() int {
	return cap(r.buf) + cap(r.text) + cap(r.args)*int(unsafe.Sizeof([]byte(nil))) +
		cap(r.cur.spans)*int(unsafe.Sizeof(span{}))
}

// takes returns the memory of the connection.
func (c *connection) takes() int64 {
	n := front.ConnectionBytes + c.in.bytes() + cap(c.out.buf) + c.pending.bytes + c.updates.bytes + c.ahead.bytes +
		c.held.values + c.transaction.bytes + c.held.queue
	if c.below != nil {
		n += cap(c.below.ahead) + tlsBytes
	}
	return int64(n)
}

// account accounts for the present memory of the connection.
func (c *connection) account() { c.client.Account(c.takes()) }

// hold accounts for values that the command in progress writes or replies with.
func (c *connection) hold(bytes int) {
	c.held.values = bytes
	c.account()
}

// makeRoom accounts for a buffer before it is allocated, and waits for memory; not for the first buffer, which every
// command needs. It returns false if this connection was evicted. It must not be called during a command.
func (c *connection) makeRoom(bytes int) bool {
	if bytes > 0 {
		c.client.Account(c.takes() + int64(bytes))
	}
	if bytes <= readBytes {
		return !c.client.IsEvicted()
	}
	return c.client.AwaitMemory()
}
