package causal

import "github.com/causalstore/causalstore/sidecar/topology"

// SidecarStats counts since the start.
type SidecarStats struct {
	Gets, Puts, MGets, MGetRounds, Snapshots               uint64
	Own, CacheHits, Local, Remote                          uint64
	Bound, InFlight, Reread, Retried, Unavailable, Unknown uint64
	// Bindings counts how often a session became bound; BoundNs is the time that sessions were, taken at ticks.
	Bindings, BoundNs uint64
}

// Stats returns the counters.
func (s *Sidecar) Stats() SidecarStats { return s.stats }

// Known returns the vectors as this sidecar has them.
func (s *Sidecar) Known() *Stability { return s.known }

// Latest returns how the newest finished operation of a session was answered.
func (s *Sidecar) Latest(id uint64) Outcome {
	if ss := s.sessions[id]; ss != nil {
		return ss.latest
	}
	return Outcome{}
}

// SessionStatus is what CAUSAL STATUS tells.
type SessionStatus struct {
	Bound      int              // in-flight versions that it has read
	Rings      topology.RingSet // that it may read
	Incomplete int              // own writes
}

// Status returns what a session is bound to.
func (s *Sidecar) Status(id uint64) SessionStatus {
	ss := s.sessions[id]
	if ss == nil {
		return SessionStatus{}
	}
	return SessionStatus{Bound: len(ss.restrict), Rings: s.rings(ss), Incomplete: len(ss.pending)}
}

// Sessions calls f for every session.
func (s *Sidecar) Sessions(f func(id uint64, status SessionStatus)) {
	for id := range s.sessions {
		f(id, s.Status(id))
	}
}

// Cut returns the newest cut that sessions read at in mode Snapshot, or did last; 0 before there is one.
func (s *Sidecar) Cut() HLC { return s.cut }
