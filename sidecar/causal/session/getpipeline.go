package session

import (
	"slices"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// getPipeline is gets of a session that a client has sent without waiting for the answers (PROTOCOL SES-10).
// They are in flight together, and are answered in order.
//
// Invariant: the answer to each is one that it could have got if it had been started after the answer to the one before
// it. A version that was complete when a get was started is in the past of whatever that get finds. So an answer that
// call.covers of those behind it covers asks nothing of them; those that were started too early for it are started
// again.
type getPipeline struct {
	calls []*call // not answered, in order
	// of how many may be in flight; it shrinks when gets have to be started again, so that few of them are in vain
	window int
	left   bool // it is in Sidecar.leftPipelines
}

// DoGets starts gets of one session that a client has sent one behind the other, as Do does. Each has a Result of its
// own.
func (s *Sidecar) DoGets(now causal.Now, ops []Op) {
	for len(ops) > 0 && s.answerNear(now, &ops[0]) {
		ops = ops[1:]
	}
	if len(ops) == 0 {
		return
	}
	if len(ops) > 1 && s.levelOf(ops[0].Level).asksHome() && !s.cfg.Broken.Has(causal.LocalGetsApart) {
		s.startWindow(now, ops)
		return
	}
	p := &getPipeline{calls: make([]*call, 0, len(ops)), window: len(ops)}
	for i := range ops {
		ss := s.sessions[ops[i].Session]
		if ss == nil {
			s.results = append(s.results, Result{ID: ops[i].ID, Err: causal.ErrUnavailable})
			continue
		}
		c := s.newCall(now, ops[i], ss)
		c.pipeline = p
		s.calls = append(s.calls, c)
		p.calls = append(p.calls, c)
		s.countGet(c)
		c.postpone()
	}
	s.advance(now, p)
	s.advancePipelines(now)
	s.reap()
}

// postpone makes a get of a pipeline wait for those before it.
func (c *call) postpone() {
	c.started, c.early, c.target = false, nil, topology.Node{}
	c.deadline, c.retryAt = causal.Never, causal.Never
}

// isBehind reports whether a get waits for the answers to others.
func (c *call) isBehind() bool { return c.pipeline != nil && c.pipeline.calls[0] != c }

// hold keeps a reply until those before it are answered.
func (c *call) hold(r *causal.GetReply) {
	c.early, c.replied = r, true
	c.deadline, c.retryAt = causal.Never, causal.Never
}

// advance starts the gets that may be in flight, and answers those whose turn it is.
func (s *Sidecar) advance(now causal.Now, p *getPipeline) {
	for left := -1; left != len(p.calls) && len(p.calls) > 0; {
		left = len(p.calls)
		s.startInWindow(now, p)
		if len(p.calls) == 0 || p.calls[0].early == nil {
			continue
		}
		c := p.calls[0]
		r := c.early
		c.early, c.replied = nil, false
		c.deadline = now.Mono + int64(s.cfg.ReadTimeout)
		s.handleGetReply(now, c, r)
	}
}

// startInWindow starts gets. One of a key with an own write is not started before its turn: what the session has seen
// by then decides whether it returns the own write. Those that MaxInFlight delays are started with the answer to one
// before them.
func (s *Sidecar) startInWindow(now causal.Now, p *getPipeline) {
	for i := 0; i < min(p.window, len(p.calls)); {
		c := p.calls[i]
		if !c.started {
			if i > 0 && (c.session.own.newest[c.op.Key] != nil || s.cfg.MaxInFlight > 0 &&
				len(s.requests.byID) >= s.cfg.MaxInFlight) {
				return
			}
			c.started, c.covers = true, c.level.covers(s, now)
			c.deadline = now.Mono + int64(s.cfg.ReadTimeout)
			s.begin(now, c)
		}
		if !c.finished {
			i++
		}
	}
}

// isPipelined reports whether a get is one of several that are in flight together, or wait for each other.
func (c *call) isPipelined() bool { return c.pipeline != nil && len(c.pipeline.calls) > 1 }

// leavePipeline takes an answered get out of its pipeline, and postpones those that were started too early for the
// answer.
func (s *Sidecar) leavePipeline(c *call, answer *causal.Record) {
	p := c.pipeline
	p.calls = slices.DeleteFunc(p.calls, func(x *call) bool { return x == c })
	again := false
	for _, x := range p.calls {
		if x.started && !s.covers(&x.covers, answer) && !s.cfg.Broken.Has(causal.PipelineUnchecked) &&
			!s.cfg.Broken.Has(causal.LocalGetsApart) {
			s.requests.drop(x.requestID)
			x.skipCache, x.tried, x.replied, x.own, x.refusedAhead = false, 0, false, nil, false
			s.ReleaseAhead(x.ahead)
			x.ahead = 0
			x.postpone()
			s.stats.Rereads++
			again = true
		}
	}
	if again {
		p.window = 1
	} else {
		p.window = min(2*p.window, cap(p.calls))
	}
	if !p.left {
		p.left = true
		s.leftPipelines = append(s.leftPipelines, p)
	}
}

// advancePipelines advances the pipelines, and windows, of which gets were answered.
func (s *Sidecar) advancePipelines(now causal.Now) {
	for len(s.leftPipelines) > 0 {
		n := len(s.leftPipelines) - 1
		p := s.leftPipelines[n]
		s.leftPipelines[n] = nil
		s.leftPipelines = s.leftPipelines[:n]
		p.left = false
		s.advance(now, p)
	}
	s.advanceWindows(now)
}

// holdAhead counts a value that a get of a pipeline has read. It returns false if all of them would exceed their bound.
func (s *Sidecar) holdAhead(c *call, bytes int) bool {
	if s.cfg.MaxAheadBytes == 0 {
		return true
	}
	grown := bytes - c.ahead
	if grown > 0 && s.aheadBytes+grown > s.cfg.MaxAheadBytes {
		return false
	}
	c.ahead += grown
	s.aheadBytes += grown
	return true
}

// ReleaseAhead ends the count of what Result.Ahead says: the client is answered, or the value counts elsewhere.
func (s *Sidecar) ReleaseAhead(bytes int) { s.aheadBytes -= bytes }

// refuseAhead fails a get of a pipeline, and those behind it: if the client reads it again, later, it has to read them
// again as well.
func (s *Sidecar) refuseAhead(c *call) {
	behind := slices.Clone(c.pipeline.calls)
	for _, x := range behind[slices.Index(behind, c):] {
		s.fail(x, causal.ErrBusy)
	}
}
