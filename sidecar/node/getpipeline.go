package node

import (
	"context"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/session"
	"github.com/causalstore/causalstore/sidecar/front"
)

// GetEach implements front.Session. A transaction of this sidecar may begin meanwhile, and write some of the keys
// between the reads of two: then all are read again, each before the transaction or after it. A session that holds the
// keys reads the newest versions.
func (c *clientSession) GetEach(ctx context.Context, keys [][]byte, results []front.GetResult) int {
	locks := &c.sidecar.keyLocks
	begun := locks.begun.Load()
	if c.locked || locks.transactions.Load() == 0 {
		if n, ok := c.getTogether(keys, results); ok && (c.locked || locks.begun.Load() == begun) {
			if n > 0 {
				return n
			}
			keys = keys[:1]
		}
	}
	for i, key := range keys {
		r, err := c.GetRecord(ctx, string(key))
		results[i] = front.GetResult{Value: r.Value, Version: r.Version, Err: err}
	}
	return len(keys)
}

// getTogether reads keys: those at the head that near copies answer, and then the others with one step of the machine.
// It returns how many it has read before their values took too much memory, and false if they must be read one by one.
func (c *clientSession) getTogether(keys [][]byte, results []front.GetResult) (int, bool) {
	n := c.getNear(keys, results)
	if n == len(keys) {
		return n, true
	}
	if len(keys) == 1 {
		return 0, false
	}
	keys, results = keys[n:], results[n:]
	for len(c.gets) < len(keys) {
		c.gets = append(c.gets, nil)
	}
	if !c.sidecar.startGets(c.gets[:len(keys)], c.id, c.copyKeys(keys), c.level()) {
		return 0, false
	}
	read, ahead := len(keys), 0
	for i := len(keys) - 1; i >= 0; i-- { // the last one is mostly answered last, so this goroutine sleeps once
		r := c.gets[i].wait()
		ahead += r.Ahead
		results[i] = front.GetResult{Value: r.Record.Value, Version: r.Record.Version}
		switch r.Err {
		case causal.OK:
		case causal.ErrBusy:
			read = i
		default:
			results[i].Err = c.sidecar.errorOf(&r, "read")
		}
		if i == len(keys)-1 {
			c.lastOutcome = r.Outcome
		}
	}
	clear(results[read:len(keys)]) // they are read again after this one, or the client would see them in another order
	c.sidecar.releaseOps(c.gets[:len(keys)], ahead)
	return n + read, true
}

// getNear answers the gets at the head of a pipeline that near copies answer, under one lock and without a step of the
// machine. It returns their number.
func (c *clientSession) getNear(keys [][]byte, results []front.GetResult) (n int) {
	s := c.sidecar
	if !s.hasNear {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return 0
	}
	now := s.clock()
	for n < len(keys) {
		r, ok := s.m.GetNear(now, c.id, keys[n], c.level())
		if !ok {
			break
		}
		results[n] = front.GetResult{Value: r.Value, Version: r.Version}
		if n++; n == len(keys) {
			c.lastOutcome = session.NearOutcome(r.Version)
		}
	}
	s.scheduleTick(now) // leases of copies that are read are renewed
	return n
}

// copyKeys returns keys that stay valid. Together they are one string.
func (c *clientSession) copyKeys(keys [][]byte) []string {
	c.keyText, c.keys = c.keyText[:0], c.keys[:0]
	for _, key := range keys {
		c.keyText = append(c.keyText, key...)
	}
	for text := string(c.keyText); len(keys) > 0; keys = keys[1:] {
		c.keys = append(c.keys, text[:len(keys[0])])
		text = text[len(keys[0]):]
	}
	if cap(c.keyText) > maxKeyText {
		c.keyText = nil
	}
	return c.keys
}

// maxKeyText is how many bytes a session keeps for the keys of later pipelines.
const maxKeyText = 16 << 10

// startGets starts pipelined gets of a session, and sets ws to what receives their results. It returns false if the
// sidecar is stopped.
func (s *Sidecar) startGets(ws []*pendingOp, id uint64, keys []string, level causal.Level) bool {
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
		s.gets = append(s.gets, session.Op{Kind: session.OpGet, ID: w.id, Session: id, Key: key, Level: level})
	}
	before, now := len(s.queue), s.clock()
	s.m.DoGets(now, s.gets)
	s.gets = causal.Recycle(s.gets)
	s.unlockAndSend(now, before)
	return true
}

// releaseOps makes pending operations idle, whose values count ahead bytes.
func (s *Sidecar) releaseOps(ws []*pendingOp, ahead int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.m.ReleaseAhead(ahead)
	s.idleOps = append(s.idleOps, ws...)
	clear(ws)
}
