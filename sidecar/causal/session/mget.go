package session

import (
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/topology"
)

const (
	// maxRounds is how many rounds an MGET reads in search of an instant without a write, before it reads at a forced cut.
	maxRounds = 4
	// forcedCutPatience is how long an MGET waits until the ring has every write up to its forced cut, before it starts again.
	forcedCutPatience = 250 * time.Millisecond
	// evictedDelay is the wait before an MGET of an own write whose value was evicted starts again.
	evictedDelay = 100 * time.Millisecond
)

// mget is a read of several keys in progress (PROTOCOL §9). What it returns is one causally consistent state.
type mget struct {
	slots   []topology.Slot // by index in Op.Keys, as all slices here
	own     []*ownWrite     // own writes when it started
	replies []keyReply      // of the round in progress, or before; nil before the first round

	requests []uint64        // of the round in progress
	targets  []topology.Node // of the requests
	missing  int             // replies
	rounds   int             // started since the last start
	changed  bool            // the round in progress found a version that the round before did not
	failed   bool            // some node replied with an error

	// ring is where the newest values are read, all in one ring. topology.NoRing: each key is read at the nearest copy, at cut.
	ring  topology.RingID
	tried topology.RingSet
	// cut is what is read at; 0: the newest values.
	cut causal.HLC
	// completeCut is a cut that was complete when the search for the newest values started. Every ring has the whole past of
	// a value at or below it, so such a value depends on nothing that the other reads have missed.
	completeCut causal.HLC
	// forcedCut is the cut to read at once the ring has every write up to it; 0: none. forced is set once it is used.
	forcedCut causal.HLC
	forced    bool
}

// keyReply is what a read of one key returned.
type keyReply struct {
	record causal.Record
	status causal.Status
	ring   topology.RingID
	hit    bool
}

// allAtOrBelow reports whether all versions that were read are at or below a cut.
func (m *mget) allAtOrBelow(cut causal.HLC) bool {
	for i := range m.replies {
		if m.replies[i].record.Version.HLC > cut {
			return false
		}
	}
	return true
}

// greatestHLC returns the greatest HLC that was read.
func (m *mget) greatestHLC() (greatest causal.HLC) {
	for i := range m.replies {
		greatest = max(greatest, m.replies[i].record.Version.HLC)
	}
	return greatest
}

// startMGet reads the keys at a snapshot cut if the session may, else the newest values in one ring.
func (s *Sidecar) startMGet(now causal.Now, c *call) {
	s.stats.MGets++
	n := len(c.op.Keys)
	m := &mget{slots: make([]topology.Slot, n), own: make([]*ownWrite, n), ring: topology.NoRing}
	c.mget, c.bound = m, !s.unbound(c.session)
	for i, k := range c.op.Keys {
		m.slots[i] = topology.SlotOf(k)
		m.own[i] = c.session.own.newest[k]
	}
	if n == 0 {
		s.finish(c, Result{})
		return
	}
	if !s.readsLatest(now, c) && s.chooseSnapshotCut(c) {
		s.stats.SnapshotMGets++
		s.startRound(now, c)
		return
	}
	s.readLatest(now, c)
}

// chooseSnapshotCut chooses a cut at which everything is complete and that includes all that the session has seen, if there is
// one. That the session is unbound is not enough: a version may be known to be stable on its own, and be above the least SV.
// Own writes above the cut are overlaid.
func (s *Sidecar) chooseSnapshotCut(c *call) bool {
	ss, broken := c.session, &s.cfg.Broken
	if !s.unbound(ss) && !broken.Has(causal.SnapshotBound) {
		return false
	}
	seen := max(ss.seen, ss.mgetCut)
	cut := s.cuts.current
	if cut < seen {
		cut = s.stability.MinSV()
	}
	if broken.Has(causal.CutBeyondSV) {
		cut = s.stability.MaxSV()
	}
	if cut < seen && !broken.Has(causal.CutBelowSeen) && !broken.Has(causal.SnapshotBound) {
		return false
	}
	if cut == 0 {
		return false
	}
	c.mget.cut, ss.mgetCut = cut, max(ss.mgetCut, cut)
	return true
}

// readLatest starts to read the newest values, in the nearest allowed ring that was not tried yet.
func (s *Sidecar) readLatest(now causal.Now, c *call) {
	m := c.mget
	rings := s.allowedRings(c.session)
	if rings&^m.tried != 0 {
		rings &^= m.tried
	} else {
		m.tried = 0
	}
	ring, _ := s.routes.NearestAll(now, m.slots, rings)
	m.ring, m.tried = ring, m.tried.With(ring)
	m.cut, m.completeCut, m.forcedCut, m.forced = 0, s.stability.MinSV(), 0, false
	m.replies, m.rounds, m.failed = nil, 0, false
	s.startRound(now, c)
}

// finishRound decides whether the replies of a round are one state of the store.
func (s *Sidecar) finishRound(now causal.Now, c *call) {
	m := c.mget
	switch {
	case m.cut != 0, len(m.replies) == 1, s.cfg.Broken.Has(causal.MGetOneRound):
		s.deliver(now, c)
	case m.rounds == 1 && m.allAtOrBelow(m.completeCut):
		s.deliver(now, c)
	case m.rounds > 1 && !m.changed:
		s.deliver(now, c) // all versions were the newest at one instant between the two rounds
	case m.rounds < maxRounds:
		s.startRound(now, c)
	default:
		s.forceCut(now, c)
	}
}

// forceCut reads older versions: those at the greatest timestamp found, once the ring has every write up to there.
func (s *Sidecar) forceCut(now causal.Now, c *call) {
	m := c.mget
	m.forcedCut = max(c.session.seen, c.session.own.completeUpTo, m.greatestHLC())
	if !s.tryForcedCut(now, c) {
		s.blocked = append(s.blocked, c)
		c.retryAt = now.Mono + int64(forcedCutPatience)
	}
}

// tryForcedCut starts to read at the forced cut if the ring has every write up to it. It returns false if the call must wait
// for the ring.
func (s *Sidecar) tryForcedCut(now causal.Now, c *call) bool {
	m := c.mget
	if m.forced || m.forcedCut == 0 {
		return true // it was started again in the meantime
	}
	if s.stability.MinRV(m.ring) < m.forcedCut {
		return false
	}
	m.cut, m.forced, m.replies = m.forcedCut, true, nil
	s.startRound(now, c)
	return true
}

// retryMGet starts again, in another ring if the session may read there.
func (s *Sidecar) retryMGet(now causal.Now, c *call) {
	m := c.mget
	if !m.failed {
		for i, id := range m.requests {
			if _, unanswered := s.requests.byID[id]; unanswered {
				s.timedOut(now, m.targets[i])
			}
		}
	}
	s.stats.Retries++
	s.readLatest(now, c)
}

// deliver adds the values to the session's past, overlays own writes, and answers.
func (s *Sidecar) deliver(now causal.Now, c *call) {
	m, ss := c.mget, c.session
	if m.ring != topology.NoRing && !s.allowedRings(ss).Has(m.ring) && !s.cfg.Broken.Has(causal.TwoRings) {
		s.stats.Rereads++ // another operation of the session has bound it to other rings
		s.readLatest(now, c)
		return
	}
	if len(m.replies) <= s.cfg.MaxRestrictions && len(ss.restrictions.list)+s.newRestrictions(c) > s.cfg.MaxRestrictions {
		c.retryAt = now.Mono + int64(unusableDelay) // start again when restrictions may have been lifted
		return
	}
	for i, w := range m.own {
		if w != nil && w.evicted && m.replies[i].record.Version.Less(w.version) {
			c.retryAt = now.Mono + int64(evictedDelay) // start again when the write may be complete, to be read from a ring
			return
		}
	}
	r := Result{Records: make([]causal.Record, len(m.replies)), Outcome: Outcome{Ring: m.ring, Source: SourceCache, Status: causal.Stable}}
	for i := range m.replies {
		reply := &m.replies[i]
		if w := m.own[i]; w != nil && reply.record.Version.Less(w.version) {
			r.Records[i] = causal.Record{Version: w.version, Value: w.value}
			s.stats.OwnReads++
			continue
		}
		status := reply.status
		if m.ring == topology.NoRing {
			status = causal.Stable // everything at a snapshot cut is, though a middleman may not know it yet
		}
		// It cannot be refused: all values are from one ring, which is allowed.
		s.observe(now, ss, reply.record.Version, m.slots[i], status, m.ring)
		r.Records[i] = reply.record
		r.Outcome.Status = min(r.Outcome.Status, status)
		r.Outcome.Source = max(r.Outcome.Source, s.sourceOf(m.slots[i], reply.ring, reply.hit))
	}
	s.finish(c, r)
}

// newRestrictions counts the restrictions that the replies would add.
func (s *Sidecar) newRestrictions(c *call) (n int) {
	for i := range c.mget.replies {
		r := &c.mget.replies[i]
		if r.status == causal.InFlight && s.wouldRestrict(c.session, r.record.Version) {
			n++
		}
	}
	return n
}
