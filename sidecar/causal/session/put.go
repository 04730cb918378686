package session

import (
	"cmp"
	"slices"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// putPipeline holds the unanswered puts of a session. One coordinator puts them in order, so the session changes its
// coordinator only when none is in flight: also from one home to another.
type putPipeline struct {
	coordinator topology.Node
	seq         uint64 // of the put that was sent last
	unanswered  int
	inFlight    inFlightPuts
	// those of the unanswered that a coordinator refused, or that were not sent: they go to another one, or to another
	// home
	refused []*call
	// unstarted says that the newest operation was not started, and unexecuted that the last one that was, or should
	// have been, sent was not executed: those that follow it are not, either. Operations that follow one another are
	// started one after the other, so they are sent one after the other, whatever waits before them.
	unstarted, unexecuted bool
	// monotonic: when puts are sent again of which one was refused because its key is kept
	lockedUntil int64
	// monotonic: the last tick in which a put in flight was not to be sent again, nor those after it
	heldBackAt int64
}

// putState is what a call holds that is a put.
type putState struct {
	seq   uint64
	since causal.HLC // SV of the coordinator when the put was first sent to it
	// it was sent to this coordinator over an earlier link, or could not be, and perhaps to another leadership
	resent bool
	// how many more were sent over this link, to the same leadership, because the coordinator owed the answer
	copies   int
	waiting  bool  // its coordinator is away; it is sent again when that serves
	giveUpAt int64 // monotonic: until when it waits
	refused  bool  // a coordinator refused it, and it was not sent to another yet
	locked   bool  // since its key is kept for a commit of several homes
}

// inFlightPuts tells which put of a session is the oldest that was sent and has no answer.
type inFlightPuts struct {
	queue []inFlightPut // in order
	head  int           // those before it have their answer, and some behind it
}

// inFlightPut is a put that was sent. The call may have been used for another operation since.
type inFlightPut struct {
	c   *call
	seq uint64
}

func (q *inFlightPuts) add(c *call) {
	if q.head == len(q.queue) || q.head > len(q.queue)/2+maxIdlePuts {
		q.queue = slices.Delete(q.queue, 0, q.head)
		q.head = 0
	}
	q.queue = append(q.queue, inFlightPut{c, c.put.seq})
}

// maxIdlePuts is how many answered puts the queue keeps at least before it is compacted.
const maxIdlePuts = 64

// oldest returns the number of the oldest put without an answer, or next if there is none.
func (q *inFlightPuts) oldest(ss *session, next uint64) uint64 {
	for ; q.head < len(q.queue); q.head++ {
		if e := q.queue[q.head]; e.c.session == ss && e.c.put.seq == e.seq && !e.c.finished {
			return e.seq
		}
	}
	return next
}

// remove removes a put that got its answer.
func (p *putPipeline) remove(c *call) {
	p.unanswered--
	if c.put.refused {
		p.refused = slices.DeleteFunc(p.refused, func(r *call) bool { return r == c })
	}
}

// startPut sends a write to the session's coordinator.
func (s *Sidecar) startPut(now causal.Now, c *call) {
	s.stats.Puts++
	if c.op.Commit != nil {
		if err := s.refusesCommit(c); err != causal.OK {
			s.finish(c, Result{Err: err})
			return
		}
	} else if causal.CheckPut(c.op.Key, c.op.Value, 0) != nil {
		s.finish(c, Result{Err: causal.ErrTooLarge})
		return
	}
	c.slot = topology.SlotOf(c.op.Key)
	if c.isOperation() {
		if !s.startOperation(now, c) {
			s.finish(c, Result{Err: causal.ErrConflict})
			return
		}
	} else if !s.cfg.Types.Accepts(&c.op.Value) {
		s.finish(c, Result{Err: causal.ErrType})
		return
	}
	if c.op.Commit != nil && !s.hasOneHome(c.op.Commit) {
		if c.op.InOrder {
			s.finish(c, Result{Err: causal.ErrConflict})
			return
		}
		c.bound = !s.unbound(c.session)
		s.startLocked(now, c)
		return
	}
	s.enterPipeline(now, c)
}

// enterPipeline sends a put to the session's coordinator, behind those that the session has sent before.
func (s *Sidecar) enterPipeline(now causal.Now, c *call) {
	if keys := c.commit(); keys != nil {
		c.slot = topology.SlotOf(keys[0].Key) // all keys have the same home
	}
	p := &c.session.pipeline
	if p.unanswered == 0 {
		p.coordinator, _ = s.chooseCoordinator(now, c.session, c.slot)
	}
	p.unanswered++
	c.bound = !s.unbound(c.session)
	if s.shouldWait(now, c) {
		s.deferPut(now, c)
		return
	}
	s.sendPut(now, c)
}

// shouldWait reports whether a new put is better not sent to the session's coordinator: earlier ones wait for another
// one, or it owes an answer and another one does not, or it is away, or it is not the home of the key. The put then
// waits for the outcome of those in flight.
func (s *Sidecar) shouldWait(now causal.Now, c *call) bool {
	ss := c.session
	p := &ss.pipeline
	if s.awaitsPast(ss, c.slot) || len(p.refused) > 0 ||
		p.unanswered > 1 && (s.coordinators.down[p.coordinator] || !s.takes(p.coordinator, c)) {
		return true
	}
	if p.unanswered == 1 || !s.coordinators.owes(now, p.coordinator) {
		return false
	}
	other, found := s.chooseCoordinator(now, ss, c.slot)
	return found && !s.coordinators.owes(now, other)
}

// takes reports whether a coordinator, to which puts of the session go, takes this one too.
func (s *Sidecar) takes(coordinator topology.Node, c *call) bool {
	return !s.putsAtHome(c.session) || s.homeOf(c.slot) == coordinator
}

// sendPut sends a put to the session's coordinator for the first time.
func (s *Sidecar) sendPut(now causal.Now, c *call) {
	p := &c.session.pipeline
	if c.isOperation() && !p.follow(c) {
		s.fail(c, causal.ErrConflict)
		return
	}
	if s.goesElsewhere(c) {
		s.loseLocks(now, c)
		return
	}
	p.seq++
	c.target = p.coordinator
	c.put = putState{seq: p.seq, since: s.stability.SV(s.cfg.Topology.OriginOf(c.target))}
	p.inFlight.add(c)
	s.transmitPut(now, c)
}

func (s *Sidecar) transmitPut(now causal.Now, c *call) {
	c.retryAt = now.Mono + s.answerWait(c.target)
	s.ask(c)
	s.sendCopy(c)
}

// answerWait is how long a coordinator may take to answer a put, in nanoseconds.
func (s *Sidecar) answerWait(coordinator topology.Node) int64 {
	return int64(coordinatorMargin + s.routes.Timeout(coordinator.DC))
}

// sendCopy sends a put, with the request that waits for its answer.
func (s *Sidecar) sendCopy(c *call) {
	ss := c.session
	floor, deps := c.level.carries(s, ss)
	put := causal.Put{ID: c.requestID, Session: ss.id, Leadership: s.coordinators.serving[c.target], Seq: c.put.seq,
		Unanswered: ss.pipeline.inFlight.oldest(ss, c.put.seq), Resent: c.put.resent,
		Key: c.op.Key, Value: c.op.Value, Floor: floor, Deps: deps,
		Local: s.localOf(ss, c.target), Foreign: ss.seen,
		Conditional: c.op.Conditional, If: c.op.If, From: c.op.From}
	if c.isOperation() {
		put.From = ss.past.greatest([]string{c.op.Key})
	}
	if s.cfg.Broken.Has(causal.LocalPastDropped) {
		put.Local = 0
	}
	if c.put.resent || c.put.copies > 0 {
		put.Since = c.put.since
	}
	if c.op.Commit != nil {
		s.sendCommit(c, &put)
		return
	}
	s.Send(put.Message(s.cfg.Self, c.target))
}

// dependencies returns what the next put must follow: the newest own put that is incomplete, and the in-flight versions
// that were read since the newest acknowledged put. That put names all earlier ones.
//
// With several homes it names all in-flight versions of other data centers that the session has read: readers at one
// home do not hear what the put before it, at another one, has named (PROTOCOL HOM-10).
//
// The result does not change. Puts that were started together mostly have the same, and share it.
func (s *Sidecar) dependencies(ss *session) []causal.Dep {
	deps, all := ss.nextDeps[:0], s.hasSeveralHomes() && s.putsAtHome(ss) &&
		!s.cfg.Broken.Has(causal.LocalCoveredElsewhere)
	for _, r := range ss.restrictions.list {
		if r.prefix && s.hasSeveralHomes() {
			continue // what was read of it is named below
		}
		if r.opCount > ss.coveredOps || all {
			deps = append(deps, causal.Dep{Version: r.version, Slot: r.slot})
		}
	}
	for _, r := range ss.local.named {
		if r.opCount > ss.coveredOps && !s.cfg.Broken.Has(causal.LocalPastDropped) {
			deps = append(deps, r.dep)
		}
	}
	if !ss.own.last.Version.IsZero() {
		deps = append(deps, ss.own.last)
	}
	if !slices.Equal(deps, ss.sentDeps) {
		ss.sentDeps = append([]causal.Dep(nil), deps...)
	}
	ss.nextDeps = causal.Recycle(deps)
	return ss.sentDeps
}

// handlePutReply takes the coordinator's answer.
func (s *Sidecar) handlePutReply(now causal.Now, c *call, r causal.PutReply) {
	s.coordinators.answered(c.target)
	c.lacking = r.Lacking
	if r.Repeated && c.put.copies > 0 {
		s.coordinators.allowance(c.target).grow(2 * copyBytes(c))
	}
	switch r.Err {
	case causal.OK:
		if max(r.Version.HLC, r.Past) > s.timeLimit(now) {
			// After it, the session could not write through a coordinator whose clock is right. It may take effect:
			// unknown.
			s.stats.ClockRefused++
			s.coordinators.suspectUntil[c.target] = now.Mono + int64(coordinatorSuspicion)
			s.fail(c, causal.ErrUnknown)
			break
		}
		c.session.pipeline.remove(c)
		if c.op.Conditional {
			delete(s.unshipped, c.op.Key) // the home goes on from it
		}
		s.noteWritten(c, c.deadline-int64(s.cfg.PutTimeout), r.Value)
		switch {
		case c.op.Commit != nil:
			s.acknowledgeCommit(c, r.Version)
			if c.locks != nil {
				s.finishPart(now, c, r.Version)
				return
			}
		case c.isOperation():
			s.acknowledgeOperation(c, &r)
		default:
			c.level.acknowledge(s, c, r.Version)
		}
		s.finish(c, Result{Record: causal.Record{Version: r.Version, Value: r.Value},
			Outcome: Outcome{Version: r.Version, Ring: topology.NoRing}})
	case causal.ErrUnavailable:
		// The coordinator joins or leaves, and has done nothing.
		s.refusedByHome(now, c)
		s.deferPut(now, c)
		return
	case causal.ErrLocked:
		s.deferLocked(now, c)
		return
	case causal.ErrConflict, causal.ErrType:
		if c.locks != nil && !c.locks.decided && r.Err == causal.ErrConflict { // its keys are not kept any more
			s.loseLocks(now, c)
			s.concludePut(now, c)
			return
		}
		s.noteUnexecuted(now, c)
		s.fail(c, r.Err)
	case causal.ErrStale:
		err := r.Err
		if s.coordinators.serving[c.target].IsZero() {
			// a coordinator of a version without leaderships says this of what it has accepted, too
			err = causal.ErrUnknown
		}
		s.fail(c, err)
	default:
		s.fail(c, r.Err)
	}
	s.concludePut(now, c)
}

// deferPut puts aside a put that no coordinator has accepted. It goes to another coordinator, but the session's puts
// keep their order: not before all others that are in flight have their answer.
func (s *Sidecar) deferPut(now causal.Now, c *call) {
	c.put, c.target = putState{refused: true}, topology.Node{}
	c.session.pipeline.refused = append(c.session.pipeline.refused, c)
	s.resendRefused(now, c.session)
}

// concludePut is called when a put was accepted, has failed, or its outcome is unknown. Refused puts that the session
// issued before it must not take effect after it, so they fail.
func (s *Sidecar) concludePut(now causal.Now, c *call) {
	for _, r := range slices.Clone(c.session.pipeline.refused) {
		if r.opCount < c.opCount {
			s.fail(r, causal.ErrUnavailable)
		}
	}
	s.resendRefused(now, c.session)
}

// resendRefused sends the refused puts to another coordinator, once no other put of the session is in flight. While no
// coordinator can be used they wait: a link to one of another data center is opened by the first put that is sent
// there, and that put comes back.
func (s *Sidecar) resendRefused(now causal.Now, ss *session) {
	p := &ss.pipeline
	if len(p.refused) == 0 || len(p.refused) < p.unanswered {
		return
	}
	slices.SortFunc(p.refused, func(a, b *call) int { return cmp.Compare(a.opCount, b.opCount) })
	other, found := s.chooseCoordinator(now, ss, p.refused[0].slot)
	if !found || s.awaitsPast(ss, p.refused[0].slot) {
		return // the next tick tries again
	}
	if now.Mono < p.lockedUntil {
		return
	}
	if first := p.refused[0]; first.op.Commit != nil && first.locks == nil && !s.hasOneHome(first.op.Commit) {
		s.fail(first, causal.ErrMoved) // and with it those that the session issued before
		s.resendRefused(now, ss)
		return
	}
	n := 1
	for n < len(p.refused) && s.takes(other, p.refused[n]) {
		n++
	}
	puts := p.refused[:n]
	p.coordinator, p.refused = other, slices.Clone(p.refused[n:])
	for _, c := range puts {
		s.sendPut(now, c)
	}
	s.resendRefused(now, ss) // if none of them was sent
}
