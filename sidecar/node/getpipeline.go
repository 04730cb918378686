package node

import (
	"context"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/session"
	"github.com/causalstore/causalstore/sidecar/resp"
)

// GetEach implements resp.PipelinedReader. A transaction of this sidecar may begin meanwhile, and write some of the keys between the reads of
// two: then all are read again, each before the transaction or after it.
func (c *clientSession) GetEach(ctx context.Context, keys []string, results []resp.GetResult) {
	locks := &c.sidecar.keyLocks
	begun := locks.begun.Load()
	if c.locked || locks.transactions.Load() > 0 || !c.getTogether(keys, results) || locks.begun.Load() != begun {
		for i, key := range keys {
			results[i].Value, results[i].Err = c.Get(ctx, key)
		}
	}
}

// getTogether reads keys with one step of the machine. It returns false if the sidecar is stopped.
func (c *clientSession) getTogether(keys []string, results []resp.GetResult) bool {
	for len(c.gets) < len(keys) {
		c.gets = append(c.gets, nil)
	}
	if !c.sidecar.startGets(c.gets[:len(keys)], c.id, keys) {
		return false
	}
	for i := len(keys) - 1; i >= 0; i-- { // the last one is mostly answered last, so this goroutine sleeps once
		r := c.gets[i].wait()
		results[i].Value, results[i].Err = r.Record.Value, nil
		if r.Err != causal.OK {
			results[i].Err = clientError(r.Err, "read")
		}
		if i == len(keys)-1 {
			c.lastOutcome = r.Outcome
		}
	}
	c.sidecar.releaseOps(c.gets[:len(keys)])
	return true
}

// startGets starts pipelined gets of a session, and sets ws to what receives their results. It returns false if the sidecar is stopped.
func (s *Sidecar) startGets(ws []*pendingOp, id uint64, keys []string) bool {
	s.mu.Lock()
	if s.stopped {
		s.mu.Unlock()
		return false
	}
	s.gets = s.gets[:0]
	for i, key := range keys {
		w := s.takeIdleOp()
		w.state.Store(opPending)
		w.use(false)
		ws[i] = w
		s.gets = append(s.gets, session.Op{Kind: session.OpGet, ID: w.id, Session: id, Key: key})
	}
	before, now := len(s.queue), s.clock()
	s.m.DoGets(now, s.gets)
	s.gets = causal.Recycle(s.gets)
	s.unlockAndSend(now, before)
	return true
}

// releaseOps makes pending operations idle.
func (s *Sidecar) releaseOps(ws []*pendingOp) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.idleOps = append(s.idleOps, ws...)
	clear(ws)
}
