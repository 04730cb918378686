package node

import (
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/session"
	"github.com/causalstore/causalstore/sidecar/operation"
)

// FindEach implements front.Session. Keys that their homes know are not looked for. What is not found, or not there,
// is for the home to say.
func (c *clientSession) FindEach(keys []string) {
	if len(keys) == 0 {
		return
	}
	c.startPuts() // they are on their way meanwhile
	clear(c.foundElsewhere)
	s := c.sidecar
	c.gets = c.gets[:0]
	c.keys = c.keys[:0]
	s.mu.Lock()
	before, now := len(s.queue), s.clock()
	for _, key := range keys {
		if s.stopped || !s.m.NeedsFound(now, c.id, key) {
			continue
		}
		w := s.takeIdleOp()
		w.state.Store(opPending)
		w.use(false)
		c.gets, c.keys = append(c.gets, w), append(c.keys, key)
		s.m.Do(now, session.Op{Kind: session.OpGet, ID: w.id, Session: c.id, Key: key, Level: causal.DefaultLevel,
			Elsewhere: true})
	}
	s.unlockAndSend(now, before)
	if len(c.gets) == 0 {
		return
	}
	for i := len(c.gets) - 1; i >= 0; i-- { // the last one is mostly answered last, so this goroutine sleeps once
		r := c.gets[i].wait()
		if r.Err != causal.OK {
			continue
		}
		if c.foundElsewhere == nil {
			c.foundElsewhere = map[string]*operation.Found{}
		}
		c.foundElsewhere[c.keys[i]] = &operation.Found{Version: r.Record.Version, Value: r.Record.Value, From: r.From}
	}
	s.releaseOps(c.gets, 0)
}
