package session

import (
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// startWait answers when the session's newest put is in the ring that was asked for, or complete.
func (s *Sidecar) startWait(c *call) {
	c.own = c.session.own.incomplete[c.session.own.last.Version]
	if c.own == nil {
		s.finish(c, Result{})
		return
	}
	s.blocked = append(s.blocked, c)
}

// tryWait finishes an OpWait whose put has arrived, and reports whether it did.
func (s *Sidecar) tryWait(c *call) bool {
	v := c.own.version
	arrived := c.op.Ring != topology.NoRing && s.stability.ProcessedIn(c.op.Ring, v)
	if c.session.own.incomplete[v] != nil && !arrived {
		return false
	}
	s.finish(c, Result{})
	return true
}

// retryBlocked lets the blocked calls go on that can.
func (s *Sidecar) retryBlocked(now causal.Now) {
	kept := s.blocked[:0]
	for _, c := range s.blocked {
		if !c.finished && !s.retry(now, c) {
			kept = append(kept, c)
		}
	}
	clear(s.blocked[len(kept):])
	s.blocked = kept
}

// retry reports whether a blocked call is blocked no longer.
func (s *Sidecar) retry(now causal.Now, c *call) bool {
	switch c.op.Kind {
	case OpWait:
		return s.tryWait(c)
	case OpResume:
		return s.tryResume(now, c)
	case OpMGet:
		return s.tryForcedCut(now, c)
	}
	return true
}
