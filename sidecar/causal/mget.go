package causal

import (
	"time"

	"github.com/causalstore/causalstore/sidecar/topology"
)

// multi is a causal get-transaction under way (PROTOCOL §9): what it returns is one causally consistent state.
type multi struct {
	slots []topology.Slot
	recs  []Record
	stat  []Status
	hits  []bool
	own   []*ownWrite
	reqs  []uint64
	left  int // answers to come
	cut   HLC // 0: the newest values
	ring  topology.RingID
	tried topology.RingSet
	// past is a cut that was complete when the transaction started: a value at or below it has its whole past in every
	// ring, so it cannot have seen more than the other reads.
	past    HLC
	rounds  int
	changed bool
	waitFor HLC // the ring must have every write up to here before it is read at the cut
	forced  bool
	refused bool // somebody answered with an error
}

// maxRounds is how often a transaction looks for an instant without a write in between, before it reads older versions.
const maxRounds = 4

func (s *Sidecar) mget(now Now, c *call) {
	s.stats.MGets++
	n := len(c.op.Keys)
	m := &multi{slots: make([]topology.Slot, n), own: make([]*ownWrite, n), ring: topology.NoRing}
	c.multi, c.bound = m, !s.unbound(c.s)
	for i, k := range c.op.Keys {
		m.slots[i] = topology.SlotOf(k)
		m.own[i] = c.s.own[k]
	}
	if n == 0 {
		s.finish(c, Result{})
		return
	}
	if !s.readsNewest(now, c) && s.snapshotCut(c) {
		s.stats.Snapshots++
		s.collect(now, c)
		return
	}
	s.latest(now, c)
}

// snapshotCut chooses a cut at which everything is complete and that contains all the session has seen, if there is one.
// Being unbound is not enough: a version that was marked stable on its own may be above the least SV. Own writes above the
// cut are laid over it.
func (s *Sidecar) snapshotCut(c *call) bool {
	ss := c.s
	if !s.unbound(ss) && !s.cfg.Broken.has(SnapshotBound) {
		return false
	}
	cut := s.cut
	if needed := max(ss.seen, ss.cut); cut < needed {
		cut = s.known.MinSV()
	}
	if s.cfg.Broken.has(CutBeyondSV) {
		cut = s.known.MaxSV()
	}
	if cut < max(ss.seen, ss.cut) && !s.cfg.Broken.has(CutBelowSeen) && !s.cfg.Broken.has(SnapshotBound) {
		return false
	}
	if cut == 0 {
		return false
	}
	c.multi.cut, ss.cut = cut, max(ss.cut, cut)
	return true
}

// latest starts a transaction for the newest values in one ring.
func (s *Sidecar) latest(now Now, c *call) {
	m := c.multi
	rings := s.rings(c.s)
	if rings&^m.tried != 0 {
		rings &^= m.tried
	} else {
		m.tried = 0
	}
	ring, _ := s.routes.NearestAll(now, m.slots, rings)
	m.ring, m.tried, m.cut, m.rounds, m.waitFor, m.forced, m.refused = ring, m.tried.With(ring), 0, 0, 0, false, false
	m.past = s.known.MinSV()
	m.recs = nil
	s.collect(now, c)
}

// collect asks for every key once: at a cut the nearest copy of each, else all in the ring.
func (s *Sidecar) collect(now Now, c *call) {
	m := c.multi
	first := m.recs == nil
	if first {
		n := len(c.op.Keys)
		m.recs, m.stat, m.hits = make([]Record, n), make([]Status, n), make([]bool, n)
	}
	for _, id := range m.reqs {
		delete(s.requests, id)
	}
	m.reqs, m.left, m.changed = m.reqs[:0], len(c.op.Keys), false
	m.rounds++
	s.stats.MGetRounds++
	c.dueAt = now.Mono
	seen := s.seenBy(c.s, false)
	for _, r := range m.recs {
		seen = max(seen, r.Version.HLC) // what the last round found counts as seen by this one
	}
	for i, k := range c.op.Keys {
		q := Message{Kind: KindGet, Key: k, Cut: m.cut, HLC: seen}
		if !first && m.cut == 0 {
			q.VersionOnly, q.Record.Version = true, m.recs[i].Version
		}
		s.askKey(now, c, i, q, first && m.ring == topology.NoRing)
	}
}

// askKey asks for one key of a transaction.
func (s *Sidecar) askKey(now Now, c *call, i int, q Message, mayCache bool) {
	m := c.multi
	ring := m.ring
	if ring == topology.NoRing {
		ring, _ = s.routes.Nearest(now, m.slots[i], s.home)
	}
	q.To = s.cfg.Topology.Owner(ring, m.slots[i])
	if mayCache && s.cfg.UseCache {
		if cache, ok := s.cfg.Topology.CacheFor(s.cfg.Self.DC, topology.Hash(q.Key)); ok {
			q.To = cache
		}
	}
	c.dueAt = max(c.dueAt, now.Mono+int64(s.routes.Timeout(s.cfg.Topology.Owner(ring, m.slots[i]).DC)))
	m.reqs = append(m.reqs, s.ask(c, i, q))
}

// collected takes the answer for one key.
func (s *Sidecar) collected(now Now, c *call, i int, a *Message) {
	m := c.multi
	if c.done || m.left == 0 {
		return
	}
	switch {
	case a.Err == ErrNotFound && a.From.Part == topology.Cache:
		s.askKey(now, c, i, Message{Kind: KindGet, Key: c.op.Keys[i], Cut: m.cut}, false)
		return
	case a.Err == ErrCutTooOld:
		s.restart(now, c)
		return
	case a.Err != OK:
		m.refused = true
		c.dueAt = now.Mono + int64(20*time.Millisecond)
		return
	}
	if a.VersionOnly {
		a.Record.Value = m.recs[i].Value
	} else if a.Record.Version != m.recs[i].Version {
		m.changed = true
	}
	m.recs[i], m.stat[i], m.hits[i] = a.Record, a.Status, a.Hit
	if m.left--; m.left > 0 {
		return
	}
	s.collectedAll(now, c)
}

// restart gives up the cut, which is too old for what a middleman remembers, and takes the newest values.
func (s *Sidecar) restart(now Now, c *call) {
	s.stats.Retried++
	s.latest(now, c)
}

// collectedAll decides whether the answers are one state of the store.
func (s *Sidecar) collectedAll(now Now, c *call) {
	m := c.multi
	switch {
	case m.cut != 0, len(m.recs) == 1, s.cfg.Broken.has(MGetOneRound):
		s.deliverAll(now, c)
	case m.rounds == 1 && s.allPast(m):
		s.deliverAll(now, c)
	case m.rounds > 1 && !m.changed:
		// Two rounds found the same versions: between them all of them stood at once.
		s.deliverAll(now, c)
	case m.rounds < maxRounds:
		s.collect(now, c)
	default:
		s.forceCut(now, c)
	}
}

func (s *Sidecar) allPast(m *multi) bool {
	for _, r := range m.recs {
		if r.Version.HLC > m.past {
			return false
		}
	}
	return true
}

// forceCut reads older versions: the state of the ring at the newest timestamp found, once the ring has every write up
// to there.
func (s *Sidecar) forceCut(now Now, c *call) {
	m := c.multi
	m.waitFor = max(c.s.seen, c.s.ownDone)
	for _, r := range m.recs {
		m.waitFor = max(m.waitFor, r.Version.HLC)
	}
	if !s.tryCut(now, c) {
		s.parked = append(s.parked, c)
		c.dueAt = now.Mono + int64(250*time.Millisecond) // then it looks for a quiet instant again
	}
}

func (s *Sidecar) tryCut(now Now, c *call) bool {
	m := c.multi
	if m.forced || m.waitFor == 0 {
		return true // it has gone on otherwise
	}
	if s.known.MinRV(m.ring) < m.waitFor {
		return false
	}
	m.cut, m.forced, m.recs = m.waitFor, true, nil
	s.collect(now, c)
	return true
}

// mgetOverdue tries another ring, if the session may read there, or the same cut at another copy.
func (s *Sidecar) mgetOverdue(now Now, c *call) {
	s.stats.Retried++
	for _, id := range c.multi.reqs {
		if r, ok := s.requests[id]; ok && r.c == c && c.multi.ring != topology.NoRing && !c.multi.refused {
			s.routes.TimedOut(now, s.cfg.Topology.Owner(c.multi.ring, c.multi.slots[r.i]).DC)
		}
	}
	s.latest(now, c)
}

// deliverAll takes the values into the session's past, lays own writes over them, and answers.
func (s *Sidecar) deliverAll(now Now, c *call) {
	m := c.multi
	if m.ring != topology.NoRing && !s.rings(c.s).Has(m.ring) && !s.cfg.Broken.has(TwoRings) {
		s.stats.Reread++
		s.latest(now, c)
		return
	}
	if len(m.recs) <= s.cfg.MaxBound && len(c.s.restrict)+s.binding(c) > s.cfg.MaxBound {
		c.dueAt, m.left = now.Mono+int64(20*time.Millisecond), 1 // no room for more in-flight versions: until some are lifted
		return
	}
	for i, own := range m.own {
		if own != nil && m.recs[i].Version.Less(own.version) && own.dropped {
			// The value is in the coordinator's log only; wait until it is complete and read it like any other.
			c.dueAt = now.Mono + int64(100*time.Millisecond)
			m.left = 1
			return
		}
	}
	r := Result{Records: make([]Record, len(m.recs)), Outcome: Outcome{Ring: m.ring, Source: SourceCache, Status: Stable}}
	for i, rec := range m.recs {
		if own := m.own[i]; own != nil && rec.Version.Less(own.version) {
			r.Records[i] = Record{own.version, own.value}
			s.stats.Own++
			continue
		}
		// At a snapshot cut everything is complete, whatever the middleman that answered knew.
		status := m.stat[i]
		if m.ring == topology.NoRing {
			status = Stable
		}
		s.observe(now, c.s, rec, m.slots[i], status, m.ring)
		if status == InFlight {
			r.Outcome.Status = InFlight
		}
		r.Records[i] = rec
		s.countMulti(m, i, &r.Outcome)
	}
	s.finish(c, r)
}

// binding counts the restrictions that the answers would add.
func (s *Sidecar) binding(c *call) int {
	n := 0
	for i, r := range c.multi.recs {
		if c.multi.stat[i] == InFlight && s.binds(c.s, r.Version) {
			n++
		}
	}
	return n
}

func (s *Sidecar) countMulti(m *multi, i int, o *Outcome) {
	ring := m.ring
	if ring == topology.NoRing {
		ring, _ = s.routes.Nearest(Now{}, m.slots[i], s.home)
	}
	src := s.sourceOf(m.slots[i], &Message{Hit: m.hits[i], Ring: ring})
	o.Source = max(o.Source, src)
}
