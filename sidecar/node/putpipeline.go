package node

import (
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/session"
)

// maxPutBatch bounds the puts of a connection that are started together.
const maxPutBatch = 64

// putBatch is pipelined puts that are not started yet. They are started together, in one step of the machine and mostly
// in one frame: when one of them is awaited, when there are enough, and before the connection waits for a lock, since
// only puts in flight release theirs.
type putBatch struct {
	ops     []session.Op
	pending []*pendingOp
}

// PutAsync implements front.Session. The coordinator accepts the puts of a session in the order in which they were
// sent.
func (c *clientSession) PutAsync(key string, v causal.Value) func() error {
	w := c.sidecar.acquireOp()
	if !c.locked {
		if w.lock = c.sidecar.keyLocks.tryShare(key); w.lock == nil {
			c.startPuts()
			c.share(w, key)
		}
	}
	w.session = c
	w.state.Store(opPending)
	c.puts.ops = append(c.puts.ops, c.putOp(key, v))
	c.puts.pending = append(c.puts.pending, w)
	if len(c.puts.ops) >= maxPutBatch {
		c.startPuts()
	}
	return w.awaitPut
}

// awaitPut waits for a pipelined put.
func (c *clientSession) awaitPut(w *pendingOp) error {
	c.startPuts()
	r := w.wait()
	w.session = nil
	c.sidecar.releaseOp(w)
	return c.recordOutcome(r, "write")
}

// startPuts starts the puts of the batch.
func (c *clientSession) startPuts() {
	b := &c.puts
	if len(b.ops) == 0 {
		return
	}
	c.sidecar.startPuts(b.pending, b.ops)
	b.ops, b.pending = causal.Recycle(b.ops), causal.Recycle(b.pending)
}

// startPuts starts puts, whose results ws receive.
func (s *Sidecar) startPuts(ws []*pendingOp, ops []session.Op) {
	s.mu.Lock()
	if s.stopped {
		for _, w := range ws {
			w.complete(&session.Result{Err: causal.ErrUnavailable})
		}
		s.mu.Unlock()
		return
	}
	before, now := len(s.queue), s.clock()
	for i, w := range ws {
		w.use(true)
		ops[i].ID = w.id
		s.m.Do(now, ops[i])
	}
	s.unlockAndSend(now, before)
}
