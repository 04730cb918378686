package session

import (
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/keystate"
	"github.com/causalstore/causalstore/topology"
)

const (
	// maxRounds is how many rounds an MGET reads in search of an instant without a write, before it reads at a forced
	// cut.
	maxRounds = 4
	// maxRoundsAgain is maxRounds of an MGET that had to start again: it has taken long enough.
	maxRoundsAgain = 2
	// maxCutRounds is how many rounds an MGET reads at a snapshot cut without a data center that is late.
	maxCutRounds = 3
	// forcedCutPatience is how long an MGET waits until the ring has every write up to its forced cut, before it
	// settles below it. If the ring lags by more than that, it does not wait at all.
	forcedCutPatience = 500 * time.Millisecond
	// evictedDelay is the wait before an MGET of an own write whose value was evicted starts again.
	evictedDelay = 100 * time.Millisecond
	// keysPerTimeout is for how many keys of an MGET the read timeout is meant. One of more keys has as much more time.
	keysPerTimeout = 16384
	// mgetKeyBytes is about what each key of an MGET in progress takes beside its value.
	mgetKeyBytes = 512
)

// mget is a read of several keys in progress (PROTOCOL MGET). What it returns is one causally consistent state.
type mget struct {
	slots   []topology.Slot // by index in Op.Keys, as all slices here
	own     []*ownWrite     // own writes when it started
	replies []keyReply      // the newest ones; nil before the first round
	// unstable are the in-flight writes of merging values in replies.
	unstable map[int][]causal.Version
	reader   level // that decides what a round has found
	round    keyRound
	atHome   homeKeys
	apart    WaitsFor // why it has started again at the homes; WaitsForReader: it has not
	starts   int      // of the search for the newest values
	rounds   int      // started since the last start
	bytes    int      // of the values in replies
	keys     int      // bytes of all keys, without the values
	phase    mgetPhase
	failed   bool // some node replied with an error
	mixed    bool // near copies and a ring answer, for the mutation NearMGetMixed

	// ring is where the newest values are read, all in one ring. topology.NoRing: each key is read at the nearest copy,
	// at cut.
	ring  topology.RingID
	tried topology.RingSet
	// cut is what is read at, or will be; 0: the newest values.
	cut causal.HLC
	// settlesAt is the cut that merging values are settled at; 0: none are.
	settlesAt causal.HLC
	// covers is the snapshot cut that it reads at, and least the lowest that it may.
	covers causal.Cut
	least  causal.HLC
	// completeCut is a cut that was complete when the search for the newest values started. Every ring has the whole
	// past of a value at or below it, so such a value depends on nothing that the other reads have missed.
	completeCut causal.HLC
}

// mgetPhase is what the rounds of an MGET read.
type mgetPhase uint8

const (
	mgetCollects  mgetPhase = iota // the newest values, until two rounds find the same
	mgetAwaitsCut                  // nothing: it waits until the ring has every write up to the cut
	mgetReadsCut                   // the values at a cut at or below which the ring has everything
	mgetSettles                    // what the values found may depend on (settle)
)

// keyReply is what a read of one key returned.
type keyReply struct {
	record causal.Record
	status causal.Status
	ring   topology.RingID
	hit    bool
	near   bool
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

// greatestWritten returns the greatest HLC of the written versions that were read.
func (m *mget) greatestWritten() (greatest causal.HLC) {
	for i := range m.replies {
		if v := m.replies[i].record.Version; v.Written() {
			greatest = max(greatest, v.HLC)
		}
	}
	return greatest
}

// greatestInFlight returns the greatest HLC of the in-flight versions that were read. What a stable one depends on is
// in every ring; what an in-flight one depends on may be staged.
func (m *mget) greatestInFlight() (greatest causal.HLC) {
	for i := range m.replies {
		if r := &m.replies[i]; r.status == causal.InFlight {
			greatest = max(greatest, r.record.Version.HLC)
		}
	}
	return greatest
}

// startMGet reads the keys as the level of the operation does.
func (s *Sidecar) startMGet(now causal.Now, c *call) {
	s.stats.MGets++
	n := len(c.op.Keys)
	if s.mgetBytes > 0 && s.mgetBytes+n*mgetKeyBytes > s.cfg.MaxMGetBytes {
		s.fail(c, causal.ErrBusy)
		return
	}
	m := &mget{keys: n * mgetKeyBytes, slots: make([]topology.Slot, n), own: make([]*ownWrite, n),
		ring: topology.NoRing}
	m.round.requests, m.round.targets = make([]uint64, n), make([]topology.Node, n)
	c.mget, c.bound = m, !s.unbound(c.session)
	s.mgetBytes += m.keys
	for i, k := range c.op.Keys {
		m.slots[i] = topology.SlotOf(k)
		m.own[i] = c.session.own.newest[k]
	}
	if n == 0 {
		s.finish(c, Result{})
		return
	}
	c.level.startMGet(s, now, c)
}

// mgetRings returns the rings in which an MGET may read the newest values.
func (s *Sidecar) mgetRings(c *call) topology.RingSet {
	rings, _ := c.level.sources(s, c.session)
	return rings
}

// readLatest starts to read the newest values, in the nearest allowed ring that was not tried yet.
func (s *Sidecar) readLatest(now causal.Now, c *call) {
	m := c.mget
	rings := s.mgetRings(c)
	if rings == 0 { // what the session has read at the home is in no ring yet
		m.failed, c.retryAt = true, now.Mono+int64(noRingDelay)
		return
	}
	if rings&^m.tried != 0 {
		rings &^= m.tried
	} else {
		m.tried = 0
	}
	m.starts++
	ring, _ := s.routes.NearestAll(now, m.slots, rings)
	m.ring, m.tried = ring, m.tried.With(ring)
	m.phase, m.cut, m.completeCut, m.rounds, m.failed = mgetCollects, 0, s.stability.MinSV(), 0, false
	m.settlesAt, m.reader = 0, latest{}
	s.forgetReplies(m)
	s.startRound(now, c, m.allKeys())
}

// forceCut reads older versions: those at the greatest timestamp found, if the ring soon has every write up to there.
func (s *Sidecar) forceCut(now causal.Now, c *call) {
	m := c.mget
	m.phase, m.cut = mgetAwaitsCut, max(c.session.seen, c.session.own.completeUpTo, m.greatestWritten())
	switch lag := m.cut.WallMs() - s.stability.MinRV(m.ring).WallMs(); {
	case s.tryForcedCut(now, c):
	case lag > forcedCutPatience.Milliseconds() || m.starts > 1:
		s.startSettling(now, c) // some origin does not reach the ring, or its coordinator is away
	default:
		s.blocked = append(s.blocked, c)
		c.retryAt = now.Mono + int64(forcedCutPatience)
	}
}

// tryForcedCut starts to read at the forced cut if the ring has every write up to it. It returns false if the call must
// wait for the ring.
func (s *Sidecar) tryForcedCut(now causal.Now, c *call) bool {
	m := c.mget
	if m.phase != mgetAwaitsCut {
		return true // it goes on otherwise
	}
	if s.stability.MinRV(m.ring) < m.cut {
		return false
	}
	m.phase = mgetReadsCut
	s.startRound(now, c, m.allKeys())
	return true
}

// retryMGet goes on without the ring's reaching the forced cut, or starts again, in another ring if the session may
// read there; but not while the answers are only late.
func (s *Sidecar) retryMGet(now causal.Now, c *call) {
	m := c.mget
	if m.phase == mgetAwaitsCut {
		s.startSettling(now, c)
		return
	}
	if !m.failed && s.mgetWaits(now, c) {
		return
	}
	s.stats.Retries++
	c.level.restartMGet(s, now, c)
}

// mgetWaits reports whether an MGET that is late goes on waiting for the nodes that it has asked, which are slow. It
// fails one that no other shard can answer.
func (s *Sidecar) mgetWaits(now causal.Now, c *call) bool {
	r := &c.mget.round
	var slow topology.Node
	keys, silent := 0, false
	for i, id := range r.requests {
		if id == 0 {
			continue
		}
		keys++
		if s.noteLate(now, r.targets[i], c.wait) {
			silent = true
		} else {
			slow = r.targets[i]
		}
		if s.routes.OutOfReach(now, c.mget.slots[i], s.readable) {
			s.fail(c, causal.ErrUnavailable)
			return true
		}
	}
	if keys == 0 || silent || s.readers.of(slow).takeMove(now, c.wait, keys) {
		return false
	}
	c.retryAt = s.readers.nextLook(now, slow, c.wait)
	return true
}

// deliver adds the values to the session's past, overlays own writes, and answers.
func (s *Sidecar) deliver(now causal.Now, c *call) {
	m, ss := c.mget, c.session
	if m.ring != topology.NoRing && !s.mgetRings(c).Has(m.ring) && !s.cfg.Broken.Has(causal.TwoRings) {
		s.stats.Rereads++ // another operation of the session has bound it to other rings
		c.level.restartMGet(s, now, c)
		return
	}
	if s.restrictionsOf(c) > s.cfg.MaxRestrictions-ss.inPast() {
		s.startAgainAfter(now, c, unusableDelay) // when restrictions may have been lifted
		return
	}
	for i, w := range m.own {
		if w != nil && w.evicted && m.awaitsOwn(i) {
			s.startAgainAfter(now, c, evictedDelay) // when the write may be complete, to be read from a ring
			return
		}
	}
	if c.level.asksHome() && (c.op.ForUpdate && s.awaitsComplete(now, c) || !s.tellShown(now, c)) {
		return
	}
	if m.ring == topology.NoRing {
		ss.mgetCut = max(ss.mgetCut, m.cut)
	}
	r := Result{Records: make([]causal.Record, len(m.replies)),
		Outcome: Outcome{Ring: m.ring, Source: SourceOwn, Status: causal.Stable}}
	for i := range m.replies {
		r.Records[i] = m.replies[i].record
		if c.op.ForUpdate && c.level.asksHome() {
			r.Froms = append(r.Froms, m.fromOf(i))
		}
		o := s.showKey(now, c, i, &r.Records[i])
		if o.Source != SourceOwn {
			r.Outcome.Status = min(r.Outcome.Status, o.Status)
		}
		r.Outcome.Source = max(r.Outcome.Source, o.Source)
		if c.window != nil {
			if c.level.asksHome() {
				s.keepLease(now, m.atHome.askedAt, &m.atHome.replies[i])
			}
			o.Version = r.Records[i].Version
			c.window.outcomes[i] = o
		}
	}
	s.finish(c, r)
}

// showKey adds what was read of a key to the session's past, and makes rec the value to show: what was found, an own
// write, or what the home has.
func (s *Sidecar) showKey(now causal.Now, c *call, i int, rec *causal.Record) Outcome {
	m := c.mget
	if c.level.asksHome() && m.mergesAt(i) {
		return s.showRows(now, c, i, rec)
	}
	if c.level.asksHome() && m.takesFromHome(i) {
		s.stats.HomeReads++
		top := &m.atHome.replies[i]
		*rec = top.Record
		status := causal.InFlight
		if top.Complete {
			status = causal.Stable
		}
		return Outcome{Source: SourceHome, Status: status, Ring: topology.NoRing}
	}
	reply := &m.replies[i]
	if w := m.own[i]; w != nil {
		own, isOwn := w.record(), false
		if *rec, isOwn = keystate.Overlay(s.cfg.Types, &reply.record, &own); isOwn {
			s.stats.OwnReads++
			return Outcome{Source: SourceOwn, Ring: topology.NoRing}
		}
	}
	status := s.shownStatus(m, reply)
	// It cannot be refused: all values are from one ring, which is allowed.
	c.level.observe(s, now, c.session, foundValue{record: reply.record, slot: m.slots[i], status: status,
		unstable: m.unstable[i], ring: m.ring})
	return Outcome{Source: s.sourceOfKey(m.slots[i], reply), Status: status, Ring: m.ring}
}

// shownStatus returns the status of a value that was found.
func (s *Sidecar) shownStatus(m *mget, r *keyReply) causal.Status {
	if m.ring == topology.NoRing {
		// near copies are, and what the snapshot cut covers, though a middleman may not know it yet
		return causal.Stable
	}
	return r.status
}

// awaitsOwn reports whether the answer for a key lacks the own write, of which the value was evicted. One that is a
// part of the value is in no answer that was asked for before it was complete.
func (m *mget) awaitsOwn(i int) bool {
	w := m.own[i]
	if w.isIncomplete() {
		if w.forgotten {
			m.own[i] = nil
		}
		return true
	}
	own := w.record()
	return keystate.Newer(&own, &m.replies[i].record)
}

// startAgainAfter lets an MGET start again after a delay, which is longer for one of many keys.
func (s *Sidecar) startAgainAfter(now causal.Now, c *call, delay time.Duration) {
	c.retryAt = now.Mono + int64(delay)*int64(1+len(c.op.Keys)/maxKeysInFlight)
}

// restrictionsOf counts the restrictions that the replies would add, and stops above the bound.
func (s *Sidecar) restrictionsOf(c *call) (n int) {
	for i := range c.mget.replies {
		r := &c.mget.replies[i]
		n += c.level.restrictions(s, c.session, foundValue{record: r.record, status: r.status,
			unstable: c.mget.unstable[i]})
		if n > s.cfg.MaxRestrictions {
			break
		}
	}
	return n
}
