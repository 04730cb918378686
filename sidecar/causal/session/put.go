package session

import (
	"cmp"
	"slices"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/topology"
)

// putPipeline holds the unanswered puts of a session. One coordinator puts them in order, so the session changes its
// coordinator only when none is in flight.
type putPipeline struct {
	coordinator topology.Node
	seq         uint64 // of the put that was sent last
	unanswered  int
	refused     []*call // those of the unanswered that a coordinator refused, or that were not sent: they go to another one
}

// remove removes a put that got its answer.
func (p *putPipeline) remove(c *call) {
	p.unanswered--
	if c.refused {
		p.refused = slices.DeleteFunc(p.refused, func(r *call) bool { return r == c })
	}
}

// startPut sends a write to the session's coordinator.
func (s *Sidecar) startPut(now causal.Now, c *call) {
	s.stats.Puts++
	c.slot = topology.SlotOf(c.op.Key)
	p := &c.session.pipeline
	if p.unanswered == 0 {
		p.coordinator, _ = s.chooseCoordinator(now, c.session)
	}
	p.unanswered++
	c.bound = !s.unbound(c.session)
	if s.shouldWait(now, c.session) {
		s.deferPut(now, c)
		return
	}
	s.sendPut(now, c)
}

// shouldWait reports whether a new put is better not sent to the session's coordinator: earlier ones wait for another one, or it
// owes an answer and another one does not. The put then waits for the outcome of those in flight.
func (s *Sidecar) shouldWait(now causal.Now, ss *session) bool {
	p := &ss.pipeline
	if len(p.refused) > 0 {
		return true
	}
	if p.unanswered == 1 || !s.coordinators.owes(now, p.coordinator) {
		return false
	}
	other, found := s.chooseCoordinator(now, ss)
	return found && !s.coordinators.owes(now, other)
}

func (s *Sidecar) sendPut(now causal.Now, c *call) {
	ss, p := c.session, &c.session.pipeline
	p.seq++
	c.target, c.refused = p.coordinator, false
	c.retryAt = now.Mono + int64(coordinatorMargin+s.routes.Timeout(c.target.DC))
	c.requestID = s.requests.add(c, 0)
	s.Send(causal.Put{ID: c.requestID, Session: ss.id, Seq: p.seq, Key: c.op.Key, Value: c.op.Value, Floor: ss.floor,
		Deps: ss.dependencies()}.Message(s.cfg.Self, c.target))
}

// dependencies returns what the next put must follow: the newest own put that is incomplete, and the in-flight versions that
// were read since the newest acknowledged put. That put names all earlier ones.
func (ss *session) dependencies() []causal.Dep {
	var deps []causal.Dep
	for _, r := range ss.restrictions.list {
		if r.opCount > ss.coveredOps {
			deps = append(deps, causal.Dep{Version: r.version, Slot: r.slot})
		}
	}
	if !ss.own.last.Version.IsZero() {
		deps = append(deps, ss.own.last)
	}
	return deps
}

// handlePutReply takes the coordinator's answer.
func (s *Sidecar) handlePutReply(now causal.Now, c *call, r causal.PutReply) {
	s.coordinators.answered(c.target)
	switch r.Err {
	case causal.OK:
		if r.Version.HLC > s.timeLimit(now) {
			// After it, the session could not write through a coordinator whose clock is right. It may take effect: unknown.
			s.stats.ClockRefused++
			s.coordinators.suspectUntil[c.target] = now.Mono + int64(coordinatorSuspicion)
			s.fail(c, causal.ErrUnknown)
			break
		}
		c.session.pipeline.remove(c)
		s.addOwnWrite(c.session, c, r.Version)
		s.finish(c, Result{Record: causal.Record{Version: r.Version}, Outcome: Outcome{Version: r.Version, Ring: topology.NoRing}})
	case causal.ErrUnavailable:
		// The coordinator joins or leaves, and has done nothing.
		s.coordinators.refused(now, c.target)
		s.deferPut(now, c)
		return
	case causal.ErrStale:
		s.fail(c, causal.ErrUnknown) // a duplicate of it may have been accepted
	default:
		s.fail(c, r.Err)
	}
	s.concludePut(now, c)
}

// deferPut puts aside a put that no coordinator has accepted. It goes to another coordinator, but the session's puts keep
// their order: not before all others that are in flight have their answer.
func (s *Sidecar) deferPut(now causal.Now, c *call) {
	c.refused, c.target = true, topology.Node{}
	c.session.pipeline.refused = append(c.session.pipeline.refused, c)
	s.resendRefused(now, c.session)
}

// concludePut is called when a put was accepted, has failed, or its outcome is unknown. Refused puts that the session issued
// before it must not take effect after it, so they fail.
func (s *Sidecar) concludePut(now causal.Now, c *call) {
	for _, r := range slices.Clone(c.session.pipeline.refused) {
		if r.opCount < c.opCount {
			s.fail(r, causal.ErrUnavailable)
		}
	}
	s.resendRefused(now, c.session)
}

// resendRefused sends the refused puts to another coordinator, once no other put of the session is in flight.
func (s *Sidecar) resendRefused(now causal.Now, ss *session) {
	p := &ss.pipeline
	if len(p.refused) == 0 || len(p.refused) < p.unanswered {
		return
	}
	puts := p.refused
	p.refused = nil
	slices.SortFunc(puts, func(a, b *call) int { return cmp.Compare(a.opCount, b.opCount) })
	var found bool
	if p.coordinator, found = s.chooseCoordinator(now, ss); !found {
		for _, c := range puts {
			s.fail(c, causal.ErrUnavailable)
		}
		return
	}
	for _, c := range puts {
		s.sendPut(now, c)
	}
}
