package resp

import (
	"sync/atomic"
	"unsafe"
)

// The memory of all clients together: what they have sent and what they have not read yet. Beyond Limits.MaxClientBytes the
// server closes the connection that takes most, as Redis does with maxmemory-clients, and repeats that as long as it helps.

const (
	// accountStep is the change of a connection's memory that is too small to be accounted for.
	accountStep = 4 << 10
	// minEvictedBytes is what a connection must take to be closed. The buffers of an ordinary one are smaller.
	minEvictedBytes = 64 << 10
)

// clientMemory is what one connection takes. Its goroutine accounts for it; any may evict it.
type clientMemory struct {
	accounted atomic.Int64
	evicted   atomic.Bool
	held      int // bytes of values that the command in progress replies with
}

// bytes returns the memory of the buffers of r.
func (r *reader) bytes() int {
	return cap(r.buf) + cap(r.text) + cap(r.args)*int(unsafe.Sizeof([]byte(nil))) + cap(r.cur.spans)*int(unsafe.Sizeof(span{}))
}

// account compares the memory of the connection with what the server knows of it, and evicts connections if it is too much.
func (c *connection) account() {
	now := int64(c.in.bytes() + cap(c.out.buf) + c.pending.bytes + c.ahead.bytes + c.memory.held)
	if c.below != nil {
		now += int64(cap(c.below.ahead) + tlsBytes)
	}
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

// hold accounts for values that the command in progress replies with.
func (c *connection) hold(bytes int) {
	c.memory.held = bytes
	c.account()
}

// evictClients closes the connections that take most until all together are within the limit.
func (s *Server) evictClients() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.clientBytes.Load() > int64(s.options.Limits.MaxClientBytes) {
		var largest *connection
		for c := range s.connections {
			if !c.memory.evicted.Load() && (largest == nil || c.memory.accounted.Load() > largest.memory.accounted.Load()) {
				largest = c
			}
		}
		if largest == nil || largest.memory.accounted.Load() < minEvictedBytes {
			return
		}
		largest.memory.evicted.Store(true)
		bytes := largest.memory.accounted.Swap(0)
		s.clientBytes.Add(-bytes)
		s.stats.evicted.Add(1)
		if m := s.options.Metrics; m != nil {
			m.ConnectionEvicted()
		}
		s.options.Logger.Warn("closing the client that takes most memory: all clients together take more than the limit clientBytes",
			"client", largest.socket.RemoteAddr(), "bytes", bytes, "limit", s.options.Limits.MaxClientBytes)
		largest.abort()
	}
}

// forgetMemory ends the accounting for a connection that is closed. The caller holds s.mu.
func (s *Server) forgetMemory(c *connection) {
	c.memory.evicted.Store(true)
	s.clientBytes.Add(-c.memory.accounted.Swap(0))
}
