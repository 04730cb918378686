package node

import (
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/session"
	"github.com/causalstore/causalstore/sidecar/operation"
	"github.com/causalstore/causalstore/sidecar/value"
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
	return c.putAsync(c.putOp(key, v)).awaitPut
}

// putAsync adds a put to the batch.
func (c *clientSession) putAsync(op session.Op) *pendingOp {
	w := c.sidecar.acquireOp()
	if !c.tryShare(w, op.Key) {
		c.startPuts()
		c.share(w, op.Key)
	}
	c.addPut(w, op)
	return w
}

// tryShare is share if that need not wait, and returns false otherwise.
func (c *clientSession) tryShare(w *pendingOp, key string) bool {
	if c.locked {
		return true
	}
	w.lock = c.sidecar.keyLocks.tryShare(key)
	return w.lock != nil
}

func (c *clientSession) addPut(w *pendingOp, op session.Op) {
	w.session = c
	w.state.Store(opPending)
	c.puts.ops = append(c.puts.ops, op)
	c.puts.pending = append(c.puts.pending, w)
	if len(c.puts.ops) >= maxPutBatch {
		c.startPuts()
	}
}

// awaitPut waits for a pipelined put.
func (c *clientSession) awaitPut(w *pendingOp) error {
	return c.recordOutcome(c.awaitResult(w), "write")
}

// awaitResult waits for the result of a put of the batch.
func (c *clientSession) awaitResult(w *pendingOp) session.Result {
	c.startPuts()
	r := w.wait()
	w.session = nil
	c.sidecar.releaseOp(w)
	return r
}

// ExecuteAsync implements front.Session. Operations that follow one another are started in one step: other connections
// may share the session, and theirs would be taken for what is followed.
func (c *clientSession) ExecuteAsync(key string, o operation.Operation,
	follows bool) func() (operation.Outcome, bool, error) {
	if o.Found = c.foundElsewhere[key]; o.Found != nil {
		delete(c.foundElsewhere, key) // a later operation of the key goes on from this one
	}
	op := session.Op{Kind: session.OpPut, Session: c.id, Key: key, Value: o.Value(follows)}
	if o.Found != nil {
		op.From = o.Found.From
	}
	var wait *pendingOp
	if follows {
		if wait = c.followUp(op); wait == nil {
			return nil
		}
	} else {
		c.startPuts()
		wait = c.putAsync(op)
	}
	return func() (operation.Outcome, bool, error) {
		r := c.awaitResult(wait)
		switch {
		case r.Err == causal.ErrConflict, r.Err == causal.ErrType:
			return operation.Outcome{}, false, nil
		case r.Err != causal.OK:
			return operation.Outcome{}, true, c.recordOutcome(r, "write")
		case !r.Unwritten:
			next := value.WrittenText(r.Record.Value)
			return operation.Outcome{Next: next, Writes: true}, true, c.recordOutcome(r, "write")
		}
		outcome := unwrittenOutcome(&o, value.TextOf(r.Record.Value), c.sidecar.clock().WallMs)
		return outcome, !outcome.Writes, c.recordOutcome(r, "read")
	}
}

// unwrittenOutcome returns what an operation has done that has written nothing when the home has executed it on a
// value. Whether that had expired there may be different from what it is here and now.
func unwrittenOutcome(o *operation.Operation, on causal.Value, nowMs int64) operation.Outcome {
	outcome := o.Apply(on, nowMs)
	for _, atMs := range [...]int64{on.ExpireAtMs, on.ExpireAtMs + 1} {
		if !outcome.Writes {
			break
		}
		outcome = o.Apply(on, atMs)
	}
	return outcome
}

// followUp adds an operation to the batch that has the one that it follows, or returns nil.
func (c *clientSession) followUp(op session.Op) *pendingOp {
	w := c.sidecar.acquireOp()
	if len(c.puts.ops) == 0 || !c.tryShare(w, op.Key) {
		c.sidecar.releaseOp(w)
		return nil
	}
	c.addPut(w, op)
	return w
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
