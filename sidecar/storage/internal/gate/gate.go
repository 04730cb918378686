// Package gate lets calls in until it is closed, and closing waits for those inside: an engine must not be freed below one.
package gate

import "sync"

// Gate is open when made. It is not a RWMutex, because a call inside may make another one (from a function given to Scan).
type Gate struct {
	mu     sync.Mutex
	idle   sync.Cond
	inside int
	closed bool
}

// New returns an open gate.
func New() *Gate {
	g := &Gate{}
	g.idle.L = &g.mu
	return g
}

// Enter returns false if the gate is closed; if not, Leave must follow.
func (g *Gate) Enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	g.inside++
	return true
}

// Leave ends a call.
func (g *Gate) Leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.inside--; g.inside == 0 && g.closed {
		g.idle.Broadcast()
	}
}

// Close refuses new calls and waits for those inside. Only the first Close returns true.
func (g *Gate) Close() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	first := !g.closed
	g.closed = true
	for g.inside > 0 {
		g.idle.Wait()
	}
	return first
}
