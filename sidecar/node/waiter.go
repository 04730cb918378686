package node

import (
	"sync/atomic"

	"github.com/causalstore/causalstore/sidecar/causal"
)

// waiter is a place for the result of one operation at a time. Most reads have theirs when start returns, so the channel is
// used only by who really has to wait.
type waiter struct {
	place  uint64 // in Sidecar.waiters
	uses   uint64
	op     uint64 // the id of the operation, until its result is there; under Host.mu
	put    bool
	result causal.Result
	state  atomic.Int32
	ready  chan struct{}
}

// The states of a waiter.
const (
	pending  int32 = iota
	awaited        // somebody sleeps at ready
	answered       // result may be taken
)

// placeBits of an operation's id are the place of its waiter; the rest counts its uses, so that no two ids are equal.
const placeBits = 24

// deliver puts the result there. It is called with Host.mu held.
func (w *waiter) deliver(r *causal.Result) {
	w.op, w.result = 0, *r
	if w.state.Swap(answered) == awaited {
		w.ready <- struct{}{}
	}
}

// done reports whether the result is there.
func (w *waiter) done() bool { return w.state.Load() == answered }

// end waits for the result.
func (w *waiter) end() causal.Result {
	if w.state.CompareAndSwap(pending, awaited) {
		<-w.ready
	}
	r := w.result
	w.result = causal.Result{}
	return r
}

// waiter makes one, or takes an idle one. It is called with the lock held.
func (s *Sidecar) waiter() *waiter {
	if n := len(s.idle); n > 0 {
		w := s.idle[n-1]
		s.idle = s.idle[:n-1]
		return w
	}
	w := &waiter{place: uint64(len(s.waiters)), ready: make(chan struct{}, 1)}
	s.waiters = append(s.waiters, w)
	return w
}

func (s *Sidecar) borrow() *waiter {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.waiter()
}

func (s *Sidecar) giveBack(w *waiter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.idle = append(s.idle, w)
}

// start begins an operation, whose result w takes.
func (s *Sidecar) start(w *waiter, op causal.Op) {
	w.state.Store(pending)
	s.mu.Lock()
	if s.stopped {
		w.deliver(&causal.Result{Err: causal.ErrUnavailable})
		s.mu.Unlock()
		return
	}
	w.uses++
	op.ID = w.uses<<placeBits | w.place
	w.op, w.put = op.ID, op.Kind == causal.OpPut
	before := len(s.queue)
	s.m.(*causal.Sidecar).Do(s.clock(), op)
	s.release(before)
}

// deliver hands results to those who wait. It is called with the lock held.
func (s *Sidecar) deliver(m *causal.Sidecar) {
	s.results = m.Results(s.results[:0])
	for i := range s.results {
		r := &s.results[i]
		if place := r.ID & (1<<placeBits - 1); place < uint64(len(s.waiters)) && s.waiters[place].op == r.ID {
			s.waiters[place].deliver(r)
		}
	}
	clear(s.results)
}
