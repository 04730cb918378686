package session

import (
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/keystate"
	"github.com/causalstore/causalstore/topology"
)

// session is one causal session (PROTOCOL SES).
//
// Invariant: everything that the session has seen is complete, or processed in every ring of Sidecar.allowedRings, or
// an own write in own. So are the dependencies of what it has seen.
type session struct {
	id           uint64
	opCount      uint64 // counts operations and restrictions: it tells what came before what
	restrictions restrictions
	own          ownWrites
	seen         causal.HLC // greatest foreign HLC observed
	past         pastReads
	floor        causal.HLC // greatest HLC observed or written: the next put is above it
	local        homeReads
	localDone    causal.HLC // the greatest HLC of a complete write that was read at a home; 0: none
	mgetCut      causal.HLC // greatest HLC of a snapshot cut that an MGET has read at
	// coveredOps is the opCount of the newest acknowledged put. It names all reads before it as dependencies, so the
	// next put need not.
	coveredOps uint64
	pipeline   putPipeline
	nextDeps   []causal.Dep // room to collect them
	sentDeps   []causal.Dep // of the put that was sent last
	lockNumber uint64       // of the last try to commit at several homes
	locks      []uint64     // of those in progress, in order
	active     bool         // it is in Sidecar.active
	closed     bool
}

// newSession returns a session that has seen nothing.
func newSession(id uint64) *session {
	return &session{id: id, past: pastReads{above: map[string]causal.Version{}},
		own: ownWrites{newest: map[string]*ownWrite{}, incomplete: map[causal.Version]*ownWrite{}}}
}

// Open starts a session. The id must never have been used before.
func (s *Sidecar) Open(id uint64) { s.sessions[id] = newSession(id) }

// Close ends a session. Its unfinished operations fail: puts with ErrUnknown, all others with ErrUnavailable.
func (s *Sidecar) Close(id uint64) {
	ss := s.sessions[id]
	if ss == nil {
		return
	}
	ss.closed = true
	delete(s.sessions, id)
	for _, c := range s.calls {
		if c.session != ss || c.finished {
			continue
		}
		if c.op.Kind == OpPut {
			s.fail(c, causal.ErrUnknown)
		} else {
			s.fail(c, causal.ErrUnavailable)
		}
	}
}

// foundValue is a value that was read, as far as the past of a session is concerned.
type foundValue struct {
	record causal.Record
	slot   topology.Slot
	status causal.Status
	// unstable are the in-flight writes of a merging value.
	unstable []causal.Version
	ring     topology.RingID
	// past is the greatest HLC in the past of the value of key; 0: unknown, and key is not given.
	past causal.HLC
	key  string
}

// isOwn reports whether a value is an own write, and has nothing that others have written.
func (ss *session) isOwn(r *causal.Record) bool {
	return keystate.Identifies(r) && ss.own.contains(r.Version)
}

// addToPast adds a value that was read to what the session has seen. It returns false for an in-flight one that would
// leave no ring to read from.
func (s *Sidecar) addToPast(now causal.Now, ss *session, f foundValue) bool {
	v := f.record.Version
	if !v.Written() {
		// deleted at or below it: an own write that the deletion overtook must not be served again
		ss.seen = max(ss.seen, v.HLC)
		return true
	}
	if ss.isOwn(&f.record) {
		return true // its past is the session's own
	}
	if f.status == causal.InFlight && !s.bind(now, ss, &f) {
		return false
	}
	ss.seen = max(ss.seen, v.HLC)
	ss.floor = max(ss.floor, v.HLC)
	return true
}

// activate adds a session to those that new vectors may change.
func (s *Sidecar) activate(ss *session) {
	if !ss.active {
		ss.active = true
		s.active = append(s.active, ss)
	}
}

// applyVectors applies changed vectors, or the time at which a cut is due, to the cut, to every active session, and to
// the calls that wait for vectors.
func (s *Sidecar) applyVectors(now causal.Now) {
	s.moveCut(now)
	kept := s.active[:0]
	for _, ss := range s.active {
		if !ss.closed && s.applyVectorsTo(ss) {
			kept = append(kept, ss)
		} else {
			ss.active = false
		}
	}
	clear(s.active[len(kept):])
	s.active = kept
	s.retryBlocked(now)
}

// applyVectorsTo applies the vectors to a session, and reports whether it holds anything that vectors may change later.
func (s *Sidecar) applyVectorsTo(ss *session) bool {
	if !s.cfg.Comparison.WithoutRingSets {
		for _, r := range ss.restrictions.list {
			ss.restrictions.addRings(r, s.stability.RingsWith(r.version))
		}
	}
	if !s.cfg.Comparison.WithoutSVLifting {
		ss.restrictions.lift(func(r *restriction) bool { return s.stability.Complete(r.version) })
	}
	for w := ss.own.oldestIncomplete(); w != nil && s.stability.Complete(w.version); w = ss.own.oldestIncomplete() {
		s.completeOwnWrite(ss, w)
	}
	ss.own.trimOverlay(s.overlaidFrom())
	if len(ss.local.upTo) > 0 {
		ss.localDone = max(ss.localDone, ss.local.drop(s.stability.Complete))
	}
	return len(ss.local.upTo) > 0 || len(ss.restrictions.list) > 0 || len(ss.own.incomplete) > 0 ||
		len(ss.own.overlay) > 0
}
