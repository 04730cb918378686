package session

import (
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/nearcopy"
	"github.com/causalstore/causalstore/topology"
)

// Stats are counters since the start.
type Stats struct {
	// Gets, Puts and MGets count operations that were started.
	Gets, Puts, MGets uint64
	// MGetRounds counts the rounds of requests of all MGETs, SnapshotMGets the MGETs that started at a snapshot cut.
	MGetRounds, SnapshotMGets uint64
	// SettledMGets counts the MGETs that are causally consistent, and not the newest values of one instant or at one
	// cut.
	SettledMGets uint64
	// OwnReads, NearHits, HomeReads, CacheHits, LocalReads and RemoteReads count the values that were read, by Source.
	OwnReads, NearHits, HomeReads, CacheHits, LocalReads, RemoteReads uint64
	// ClockRefused counts replies, tokens and versions of puts with a timestamp too far ahead of the clock.
	ClockRefused uint64
	// BoundGets counts gets of sessions that were bound.
	BoundGets uint64
	// InFlightReads counts gets that returned an in-flight version.
	InFlightReads uint64
	// Rereads counts reads that were made again because no ring had what was found and everything that the session had
	// seen, or because an earlier get of their pipeline found something that was not known to be complete when they
	// were started.
	Rereads uint64
	// HomeRereads counts those of them at level Local that were made again because what was found elsewhere might lack
	// what the home has forgotten. HomeApart counts waits for a ring that has both what the session has seen and what a
	// value of the home depends on; HomeInFlight waits of reads for update until a write of another data center is
	// complete.
	HomeRereads, HomeApart, HomeInFlight uint64
	// Told counts how often a client that waits for an element was told by a home that it is its turn, and Looked how
	// often one has looked without that.
	Told, Looked uint64
	// Retries counts reads that were sent again because no usable reply came in time.
	Retries uint64
	// UnavailableOps counts operations that failed with ErrUnavailable, UnknownPuts puts that failed with ErrUnknown.
	UnavailableOps, UnknownPuts uint64
	// Bindings counts how often a session became bound.
	Bindings uint64
	// BoundNs is the time that sessions were bound, in nanoseconds, summed over sessions and measured at ticks.
	BoundNs uint64
}

// Level returns the level of reads that name none.
func (s *Sidecar) Level() causal.Level { return s.cfg.Level }

// Stats returns the counters.
func (s *Sidecar) Stats() Stats { return s.stats }

// NearCopies returns what is kept near.
func (s *Sidecar) NearCopies() *nearcopy.Store { return s.near }

// Stability returns the stability vectors as far as the sidecar has learned them.
func (s *Sidecar) Stability() *causal.Stability { return s.stability }

// Status is the state of one session, as CAUSAL STATUS shows it.
type Status struct {
	// Restrictions is the number of in-flight versions that bind the session; 0: it is unbound.
	Restrictions int
	// OldestRestriction is the oldest of these versions, and OldestSlot the slot of its key; 0 if there are none.
	OldestRestriction causal.Version
	OldestSlot        topology.Slot
	// Rings are the rings that the session may read from.
	Rings topology.RingSet
	// IncompleteWrites is the number of own writes that are not known to be complete.
	IncompleteWrites int
}

// Status returns the state of a session; the zero Status if it is not open.
func (s *Sidecar) Status(id uint64) Status {
	ss := s.sessions[id]
	if ss == nil {
		return Status{}
	}
	st := Status{Restrictions: len(ss.restrictions.list), Rings: s.allowedRings(ss),
		IncompleteWrites: len(ss.own.incomplete)}
	for i, r := range ss.restrictions.list {
		if i == 0 || r.version.HLC < st.OldestRestriction.HLC {
			st.OldestRestriction, st.OldestSlot = r.version, r.slot
		}
	}
	return st
}

// OwnWrite returns the version of a key that a session has written and reads from memory, if there is one.
func (s *Sidecar) OwnWrite(id uint64, key string) (causal.Version, bool) {
	if ss := s.sessions[id]; ss != nil && ss.own.newest[key] != nil {
		return ss.own.newest[key].version, true
	}
	return causal.Version{}, false
}

// EachSession calls f for every open session, in no particular order.
func (s *Sidecar) EachSession(f func(id uint64, status Status)) {
	for id := range s.sessions {
		f(id, s.Status(id))
	}
}

// UsesCuts reports whether sessions read at cuts.
func (s *Sidecar) UsesCuts() bool { return s.cuts.used }

// Cut returns the cut that sessions read at, even if it is too old to be used; 0 before there is one.
func (s *Sidecar) Cut() causal.HLC { return s.cuts.current.At }

// CutBase returns the HLC up to which reads at the cut return the newest versions.
func (s *Sidecar) CutBase() causal.HLC { return s.cutBase() }
