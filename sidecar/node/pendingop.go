package node

import (
	"sync/atomic"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/session"
)

// pendingOp receives the result of one operation at a time and is reused. Most reads have their result when startOp
// returns, so that the channel is used only if a goroutine has to wait.
type pendingOp struct {
	index    uint64 // in Sidecar.ops
	uses     uint64
	id       uint64 // the operation's id until it is complete, then 0; under host.mu
	put      bool
	awaitPut func() error // waits for the result of a pipelined put, of the session
	session  *clientSession
	lock     *keyLock // of a plain write, which shares it until its result is there; else nil
	result   session.Result
	state    atomic.Int32
	ready    chan struct{}
}

// The states of a pendingOp.
const (
	opPending int32 = iota
	opAwaited       // a goroutine waits at ready
	opDone          // the result is there
)

// indexBits is how many bits of an operation's id are the index of its pendingOp. The others count its uses, so that
// ids are unique.
const indexBits = 24

// complete stores the result and wakes the goroutine that waits for it. The caller holds host.mu.
func (w *pendingOp) complete(r *session.Result) {
	w.id, w.result = 0, *r
	if w.lock != nil {
		w.lock.unshare()
		w.lock = nil
	}
	if w.state.Swap(opDone) == opAwaited {
		w.ready <- struct{}{}
	}
}

// wait waits for the result and returns it.
func (w *pendingOp) wait() session.Result {
	if w.state.CompareAndSwap(opPending, opAwaited) {
		<-w.ready
	}
	r := w.result
	w.result = session.Result{}
	return r
}

// takeIdleOp returns an idle pendingOp, or a new one. The caller holds the lock.
func (s *Sidecar) takeIdleOp() *pendingOp {
	if n := len(s.idleOps); n > 0 {
		w := s.idleOps[n-1]
		s.idleOps = s.idleOps[:n-1]
		return w
	}
	w := &pendingOp{index: uint64(len(s.ops)), ready: make(chan struct{}, 1)}
	w.awaitPut = func() error { return w.session.awaitPut(w) }
	s.ops = append(s.ops, w)
	return w
}

func (s *Sidecar) acquireOp() *pendingOp {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.takeIdleOp()
}

func (s *Sidecar) releaseOp(w *pendingOp) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.idleOps = append(s.idleOps, w)
}

// use gives w the id of a new operation. The caller holds the lock.
func (w *pendingOp) use(put bool) {
	w.uses++
	w.id, w.put = w.uses<<indexBits|w.index, put
}

// startOp starts an operation, whose result w receives.
func (s *Sidecar) startOp(w *pendingOp, op session.Op) {
	w.state.Store(opPending)
	s.mu.Lock()
	if s.stopped {
		w.complete(&session.Result{Err: causal.ErrUnavailable})
		s.mu.Unlock()
		return
	}
	w.use(op.Kind == session.OpPut)
	op.ID = w.id
	before, now := len(s.queue), s.clock()
	s.m.Do(now, op)
	s.unlockAndSend(now, before)
}

// deliverResults completes operations with the machine's results. The caller holds the lock.
func (s *Sidecar) deliverResults(m *session.Sidecar) {
	s.results = m.TakeResults(s.results[:0])
	for i := range s.results {
		r := &s.results[i]
		if index := r.ID & (1<<indexBits - 1); index < uint64(len(s.ops)) && s.ops[index].id == r.ID {
			s.ops[index].complete(r)
		}
	}
	s.results = causal.Recycle(s.results)
}
