package session

import (
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/operation"
)

// Operations that the home of a key executes (PROTOCOL HOM). They are puts in everything: in their order, in what they
// follow, in how they are sent again. Their answer has the value that was written, and with it what that depends on.

// isOperation reports whether a call asks the home to execute an operation.
func (c *call) isOperation() bool { return c.op.Kind == OpPut && c.op.Value.Type == causal.Operation }

// mayShip reports whether an operation may be sent to the home: the session has seen nothing that only some rings have,
// and what the operation follows was sent.
func (s *Sidecar) mayShip(c *call) bool {
	p := &c.session.pipeline
	_, follows, _ := operation.Parse(c.op.Value)
	p.unsent = follows && p.unsent || !c.level.asksHome() || !s.unbound(c.session)
	return !p.unsent
}

// takeOutcome adds what an operation has written to the past of its session. It was executed on what others have
// written, and follows all that the home had accepted.
func (s *Sidecar) takeOutcome(now causal.Now, c *call, r *causal.PutReply) {
	s.takeOver(now, c.session, &causal.HomeReply{Record: causal.Record{Version: r.Version}, Past: r.Past})
}

// handleUnwritten takes the answer to an operation that has written nothing: what it was executed on, which its session
// has read.
func (s *Sidecar) handleUnwritten(now causal.Now, c *call, r causal.HomeReply) {
	s.coordinators.answered(c.target)
	switch {
	case r.Err != causal.OK:
		s.fail(c, r.Err)
	case max(r.Record.Version.HLC, r.Past, r.From) > s.timeLimit(now):
		s.stats.ClockRefused++
		s.fail(c, causal.ErrClock)
	case !s.takeOver(now, c.session, &r):
		s.fail(c, causal.ErrConflict)
	default:
		c.session.pipeline.remove(c)
		s.finish(c, Result{Record: r.Record, Unwritten: true, Outcome: Outcome{Version: r.Record.Version,
			Source: SourceHome}})
	}
	s.concludePut(now, c)
}
