package resp

import (
	"sync/atomic"
	"unsafe"
)

// The memory of all clients together: what they have sent and what they have not read yet. Beyond Limits.MaxClientBytes
// the server closes the connection that takes most, as Redis does with maxmemory-clients, and repeats that as long as
// it helps. What an evicted connection took counts until it has ended: meanwhile no other one gets a larger buffer.

const (
	// accountStep is the change of a connection's memory that is too small to be accounted for.
	accountStep = 4 << 10
	// connectionBytes is what a connection takes without any buffer: its goroutine, its session and the state of the
	// socket.
	connectionBytes = 8 << 10
	// minEvictedBytes is what a connection must take to be closed: an idle one, which has no buffers, takes less.
	minEvictedBytes = 2 * connectionBytes
)

// clientMemory is what one connection takes. Its goroutine accounts for it; any may evict it.
type clientMemory struct {
	accounted atomic.Int64
	evicted   atomic.Bool
	held      int // bytes of values that the command in progress writes or replies with
	queue     int // bytes of the transaction that is executed
	// evictedBytes is what the connection took when it was evicted, until it is closed. Server.mu guards it.
	evictedBytes int64
}

// bytes returns the memory of the buffers of r.
func (r *reader) bytes() int {
	return cap(r.buf) + cap(r.text) + cap(r.args)*int(unsafe.Sizeof([]byte(nil))) +
		cap(r.cur.spans)*int(unsafe.Sizeof(span{}))
}

// takes returns the memory of the connection.
func (c *connection) takes() int64 {
	n := connectionBytes + c.in.bytes() + cap(c.out.buf) + c.pending.bytes + c.updates.bytes + c.ahead.bytes +
		c.memory.held + c.transaction.bytes + c.memory.queue
	if c.below != nil {
		n += cap(c.below.ahead) + tlsBytes
	}
	return int64(n)
}

// account compares the memory of the connection with what the server knows of it, and evicts connections if it is too
// much.
func (c *connection) account() { c.charge(c.takes()) }

func (c *connection) charge(now int64) {
	grown := now - c.memory.accounted.Load()
	if grown > -accountStep && grown < accountStep || c.memory.evicted.Load() {
		return
	}
	before := c.memory.accounted.Swap(now)
	s := c.server
	if total := s.clientBytes.Add(now - before); grown > 0 && total > int64(s.options.Limits.MaxClientBytes) {
		s.evictClients()
	}
}

// hold accounts for values that the command in progress writes or replies with.
func (c *connection) hold(bytes int) {
	c.memory.held = bytes
	c.account()
}

// makeRoom accounts for a buffer before it is allocated, and waits until the memory of evicted connections is free if
// all together take too much; not for the first buffer, which every command needs. It returns false if this connection
// is one of them. It must not be called during a command: an evicted connection may wait for the keys that this one has
// locked.
func (c *connection) makeRoom(bytes int) bool {
	s := c.server
	if bytes > 0 {
		c.charge(c.takes() + int64(bytes))
	}
	if bytes <= readBytes || s.clientBytes.Load() <= int64(s.options.Limits.MaxClientBytes) {
		return !c.memory.evicted.Load()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.clientBytes.Load() > int64(s.options.Limits.MaxClientBytes) && s.evictedBytes > 0 &&
		!c.memory.evicted.Load() {
		s.memoryFreed.Wait() // an evicted connection ends with its command, which has a time-out
	}
	return !c.memory.evicted.Load()
}

// evictClients closes the connections that take most until the others together are within the limit.
func (s *Server) evictClients() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.clientBytes.Load()-s.evictedBytes > int64(s.options.Limits.MaxClientBytes) {
		var largest *connection
		for c := range s.connections {
			if !c.memory.evicted.Load() && (largest == nil ||
				c.memory.accounted.Load() > largest.memory.accounted.Load()) {
				largest = c
			}
		}
		if largest == nil || largest.memory.accounted.Load() < minEvictedBytes {
			return
		}
		largest.memory.evicted.Store(true)
		largest.memory.evictedBytes = largest.memory.accounted.Load()
		s.evictedBytes += largest.memory.evictedBytes
		s.stats.evicted.Add(1)
		if m := s.options.Metrics; m != nil {
			m.ConnectionEvicted()
		}
		s.options.Logger.Warn(
			"closing the client that takes most memory: all clients together take more than the limit clientBytes",
			"client", largest.socket.RemoteAddr(), "bytes", largest.memory.evictedBytes, "limit",
			s.options.Limits.MaxClientBytes)
		largest.abort()
	}
	s.memoryFreed.Broadcast() // those that wait may be among the evicted
}

// forgetMemory ends the accounting for a connection that is closed. The caller holds s.mu.
func (s *Server) forgetMemory(c *connection) {
	s.evictedBytes -= c.memory.evictedBytes
	c.memory.evictedBytes = 0
	c.memory.evicted.Store(true)
	s.clientBytes.Add(-c.memory.accounted.Swap(0))
	s.memoryFreed.Broadcast()
}
