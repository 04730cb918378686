// Package gate counts the calls that run inside a component, so that closing the component can refuse new calls and
// wait for running ones before it frees their resources.
package gate

import "sync/atomic"

// Gate is open until it is closed. A call that is inside may enter again, as callbacks do: a RWMutex would deadlock
// there, and a WaitGroup must not be incremented from zero while another goroutine waits for it.
type Gate struct {
	inside atomic.Int64
	closed atomic.Bool
	idle   chan struct{} // holds at most one token, which makes Close check inside again
	empty  chan struct{} // closed when the gate is closed and no call is inside
}

// New returns an open gate.
func New() *Gate {
	return &Gate{idle: make(chan struct{}, 1), empty: make(chan struct{})}
}

// Enter reports whether the gate is open. If it is, the caller must call Leave.
func (g *Gate) Enter() bool {
	g.inside.Add(1)
	if g.closed.Load() {
		g.Leave()
		return false
	}
	return true
}

// Leave ends a call for which Enter returned true.
func (g *Gate) Leave() {
	if g.inside.Add(-1) == 0 && g.closed.Load() {
		select {
		case g.idle <- struct{}{}:
		default:
		}
	}
}

// Close refuses new calls and waits until no call is inside. It reports whether it was the first.
func (g *Gate) Close() bool {
	if g.closed.Swap(true) {
		<-g.empty
		return false
	}
	for g.inside.Load() != 0 {
		<-g.idle
	}
	close(g.empty)
	return true
}

// IsClosed reports whether Close has been called.
func (g *Gate) IsClosed() bool { return g.closed.Load() }
