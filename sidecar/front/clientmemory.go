package front

import "sync/atomic"

// The memory of all clients together: what they have sent and what they have not read yet. Beyond Limits.MaxClientBytes
// the server closes the connection that takes most, as Redis does with maxmemory-clients, and repeats that as long as
// it helps. What an evicted connection took counts until it has ended: meanwhile no other one gets a larger buffer.

const (
	// AccountStep is the change of a connection's memory that is too small to be accounted for.
	AccountStep = 4 << 10
	// ConnectionBytes is what a connection takes without any buffer: its goroutine, its session and the state of the
	// socket.
	ConnectionBytes = 8 << 10
	// minEvictedBytes is what a connection must take to be closed: an idle one, which has no buffers, takes less.
	minEvictedBytes = 2 * ConnectionBytes
)

// clientMemory is what one connection takes. Its goroutine accounts for it; any may evict it.
type clientMemory struct {
	accounted atomic.Int64
	evicted   atomic.Bool
	// evictedBytes is what the connection took when it was evicted, until it is closed. Server.mu guards it.
	evictedBytes int64
}

// AccountedBytes returns the memory of the connection as last accounted for. Any goroutine may call it.
func (c *Client) AccountedBytes() int64 { return c.memory.accounted.Load() }

// IsEvicted reports whether the connection was closed because it took most.
func (c *Client) IsEvicted() bool { return c.memory.evicted.Load() }

// Account compares the memory of the connection with what the server knows of it, and evicts connections if it is too
// much.
func (c *Client) Account(now int64) {
	grown := now - c.memory.accounted.Load()
	if grown > -AccountStep && grown < AccountStep || c.memory.evicted.Load() {
		return
	}
	before := c.memory.accounted.Swap(now)
	s := c.server
	if total := s.clientBytes.Add(now - before); grown > 0 && total > int64(s.options.Limits.MaxClientBytes) {
		s.evictClients()
	}
}

// AwaitMemory waits until the memory of evicted connections is free if all together take too much. It returns false if
// this connection is one of them. It must not be called during a command: an evicted connection may wait for the keys
// that this one has locked.
func (c *Client) AwaitMemory() bool {
	s := c.server
	if s.clientBytes.Load() <= int64(s.options.Limits.MaxClientBytes) {
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

// ClientBytes returns the memory of all clients.
func (s *Server) ClientBytes() int64 { return s.clientBytes.Load() }

// evictClients closes the connections that take most until the others together are within the limit.
func (s *Server) evictClients() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.clientBytes.Load()-s.evictedBytes > int64(s.options.Limits.MaxClientBytes) {
		var largest *Client
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
		s.evicted.Add(1)
		if m := s.options.Metrics; m != nil {
			m.ConnectionEvicted()
		}
		s.options.Logger.Warn(
			"closing the client that takes most memory: all clients together take more than the limit clientBytes",
			"client", largest.Socket.RemoteAddr(), "bytes", largest.memory.evictedBytes, "limit",
			s.options.Limits.MaxClientBytes)
		largest.Abort()
	}
	s.memoryFreed.Broadcast() // those that wait may be among the evicted
}

// forgetMemory ends the accounting for a connection that is closed. The caller holds s.mu.
func (s *Server) forgetMemory(c *Client) {
	s.evictedBytes -= c.memory.evictedBytes
	c.memory.evictedBytes = 0
	c.memory.evicted.Store(true)
	s.clientBytes.Add(-c.memory.accounted.Swap(0))
	s.memoryFreed.Broadcast()
}
