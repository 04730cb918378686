package session

import (
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/keystate"
	"github.com/causalstore/causalstore/topology"
)

// maxKeysInFlight bounds the requests of an MGET that wait for their reply. A round of more keys sends the others when
// half of them are answered, so that the operations of other sessions are not queued behind all of it.
const maxKeysInFlight = 2048

// keyRound asks for keys of an MGET once each.
type keyRound struct {
	keys     []int           // indexes in Op.Keys
	requests []uint64        // by index in Op.Keys: the request that waits for its reply; 0: none
	targets  []topology.Node // of these requests
	sent     int             // of keys
	answered int
	changed  bool       // it found a version other than the one known
	newest   causal.HLC // the greatest of the written versions among those
}

// inFlight returns the number of requests that wait for their reply.
func (r *keyRound) inFlight() int { return r.sent - r.answered }

func (m *mget) allKeys() []int {
	keys := make([]int, len(m.slots))
	for i := range keys {
		keys[i] = i
	}
	return keys
}

// startRound asks for keys: for the values at the cut or the newest ones; where a version is known, for others only.
func (s *Sidecar) startRound(now causal.Now, c *call, keys []int) {
	m := c.mget
	if m.replies == nil {
		m.replies = make([]keyReply, len(c.op.Keys))
	}
	s.dropRequests(m.round.requests)
	clear(m.round.requests)
	m.round = keyRound{keys: keys, requests: m.round.requests, targets: m.round.targets}
	m.rounds++
	s.stats.MGetRounds++
	c.retryAt, c.wait = now.Mono, 0
	s.continueRound(now, c)
}

// continueRound sends the next requests of a round if few are in flight.
func (s *Sidecar) continueRound(now causal.Now, c *call) {
	m := c.mget
	r := &m.round
	if r.sent == len(r.keys) || m.failed || r.inFlight() > maxKeysInFlight/2 {
		return
	}
	seen := s.mgetMustSee(c)
	for r.sent < len(r.keys) && r.inFlight() < maxKeysInFlight {
		i := r.keys[r.sent]
		r.sent++
		if m.ring == topology.NoRing && s.takeNear(now, c, i) {
			r.answered++
			continue
		}
		s.requestKey(now, c, i, c.roundRequest(i, seen), m.ring == topology.NoRing)
	}
	if r.answered == len(r.keys) {
		m.reader.finishRound(s, now, c)
	}
}

// roundRequest returns what the round in progress asks for a key.
func (c *call) roundRequest(i int, seen causal.HLC) causal.Get {
	g := causal.Get{Key: c.op.Keys[i], Cut: c.mget.roundCut(), Seen: seen}
	if known := &c.mget.replies[i].record; !known.Version.IsZero() && keystate.Identifies(known) {
		g.VersionOnly, g.Known = true, known.Version
	}
	return g
}

// roundCut returns the cut that the round in progress reads at; 0: the newest values.
func (m *mget) roundCut() causal.HLC {
	if m.phase == mgetCollects {
		return 0
	}
	return m.cut
}

// mgetMustSee returns the HLC that the requests of a round name as seen: what earlier rounds found in-flight counts. At
// a cut at or below which the ring has everything, nothing has to be waited for.
func (s *Sidecar) mgetMustSee(c *call) causal.HLC {
	m := c.mget
	switch m.phase {
	case mgetCollects:
		return max(s.mustSee(c.session), m.greatestInFlight())
	case mgetSettles:
		return min(m.cut, m.greatestInFlight())
	}
	return 0
}

// requestKey asks the ring of the MGET for a key, or without one, the nearest copy: the cache if it may be used, else
// the nearest ring.
func (s *Sidecar) requestKey(now causal.Now, c *call, i int, g causal.Get, mayUseCache bool) {
	m := c.mget
	ring := m.ring
	if ring == topology.NoRing {
		ring, _ = s.routes.Nearest(now, m.slots[i], s.readable)
	}
	owner := s.cfg.Topology.Owner(ring, m.slots[i])
	target, timeout := owner, s.routes.Timeout(owner.DC)
	if cache, ok := s.cacheOf(now, g.Key, mayUseCache); ok {
		target, timeout = cache, timeout+cacheMargin
	}
	c.retryAt, c.wait = max(c.retryAt, now.Mono+int64(timeout)), max(c.wait, int64(timeout))
	g.ID = s.requests.add(c, i)
	if c.window != nil && target.Part == topology.Cache && !g.VersionOnly {
		g.NearMax = s.near.Wanted(now, g.Key)
	}
	m.round.requests[i], m.round.targets[i] = g.ID, target
	s.Send(g.Message(s.cfg.Self, target))
}

// handleKeyReply takes the reply for one key.
func (s *Sidecar) handleKeyReply(now causal.Now, c *call, i int, from topology.Node, r *causal.GetReply) {
	m := c.mget
	m.round.requests[i] = 0
	switch {
	case r.Err == causal.ErrNotFound && from.Part == topology.Cache: // it has no version for the cut
		s.requestKey(now, c, i, causal.Get{Key: c.op.Keys[i], Cut: m.cut}, false)
		return
	case r.Err == causal.ErrCutTooOld: // the middleman has dropped the versions at the cut
		s.stats.Retries++
		c.level.restartMGet(s, now, c)
		return
	case r.Err != causal.OK:
		if r.Err == causal.ErrDataLost && from.Part == topology.Middleman {
			s.routes.NoteDataLost(now, from)
		}
		m.failed = true
		c.retryAt = now.Mono + int64(unusableDelay)
		return
	}
	if !s.cfg.Types.Accepts(&r.Record.Value) {
		s.fail(c, causal.ErrType)
		return
	}
	if !s.keepReply(m, i, r) {
		s.fail(c, causal.ErrBusy)
		return
	}
	m.round.answered++
	if m.round.answered == len(m.round.keys) {
		m.reader.finishRound(s, now, c)
		return
	}
	s.continueRound(now, c)
}

// takeNear takes the near copy of a key of an MGET that is current at its cut; without a cut, among the newest
// versions.
func (s *Sidecar) takeNear(now causal.Now, c *call, i int) bool {
	s.keyBytes = append(s.keyBytes[:0], c.op.Keys[i]...)
	rec, ok := s.findNear(now, s.keyBytes, c.mget.cut)
	if ok {
		known := &c.mget.replies[i]
		c.mget.round.changed = c.mget.round.changed || !keystate.Same(rec, &known.record)
		*known = keyReply{record: *rec, status: causal.Stable, ring: topology.NoRing, near: true}
		c.mget.noteUnstable(i, nil)
	}
	return ok
}

// mgetNear answers an MGET of an unbound session from near copies if there are some of all of its keys now
// (PROTOCOL NEAR-9). With those of some keys, it must not begin: what a ring says of the others may depend on newer
// versions of these.
func (s *Sidecar) mgetNear(now causal.Now, c *call) bool {
	m := c.mget
	if s.cfg.MaxNearBytes == 0 || !s.unbound(c.session) { // it may be bound since it has asked the home
		return false
	}
	m.cut = 0 // of an earlier attempt
	m.replies = make([]keyReply, len(m.slots))
	var missing []int
	for i := range m.slots {
		if m.own[i] == nil && s.takeNear(now, c, i) {
			continue
		}
		if !s.cfg.Broken.Has(causal.NearMGetMixed) {
			m.replies = nil
			return false
		}
		missing = append(missing, i)
	}
	if len(missing) > 0 {
		s.mixNear(now, c, missing)
		return true
	}
	s.deliver(now, c)
	return true
}

// mixNear reads from a ring what there are no near copies of, for the mutation NearMGetMixed.
func (s *Sidecar) mixNear(now causal.Now, c *call, missing []int) {
	m := c.mget
	m.ring, _ = s.routes.NearestAll(now, m.slots, s.mgetRings(c))
	m.mixed = true
	m.starts++
	s.startRound(now, c, missing)
}

// keepReply stores the reply for one key. It returns false if the values of all MGETs in progress would exceed their
// bound.
func (s *Sidecar) keepReply(m *mget, i int, r *causal.GetReply) bool {
	previous := &m.replies[i].record
	if r.VersionOnly {
		r.Record.Value = previous.Value
	} else if v := r.Record.Version; !keystate.Same(&r.Record, previous) {
		m.round.changed = true
		if v.Written() {
			m.round.newest = max(m.round.newest, v.HLC)
		}
	}
	grown := r.Record.Value.Size() - previous.Value.Size()
	if grown > 0 && s.mgetBytes+grown > s.cfg.MaxMGetBytes {
		return false
	}
	m.bytes += grown
	s.mgetBytes += grown
	m.replies[i] = keyReply{record: r.Record, status: r.Status, ring: r.Ring, hit: r.Hit}
	m.noteUnstable(i, r.Unstable)
	return true
}

// noteUnstable keeps what of the value of a key is in-flight, if it merges.
func (m *mget) noteUnstable(i int, unstable []causal.Version) {
	if m.unstable == nil && len(unstable) == 0 {
		return
	}
	if m.unstable == nil {
		m.unstable = map[int][]causal.Version{}
	}
	m.unstable[i] = unstable
}

// forgetReplies drops the values that an MGET has read.
func (s *Sidecar) forgetReplies(m *mget) {
	s.mgetBytes -= m.bytes
	m.replies, m.bytes = nil, 0
}
