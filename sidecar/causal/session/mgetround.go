package session

import (
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/topology"
)

// startRound asks once for every key: at a cut for the values there, else for the newest values, and from the second round on
// for newer versions only.
func (s *Sidecar) startRound(now causal.Now, c *call) {
	m := c.mget
	first := m.replies == nil
	if first {
		m.replies = make([]keyReply, len(c.op.Keys))
	}
	s.dropRequests(m.requests)
	m.requests, m.targets, m.missing, m.changed = m.requests[:0], m.targets[:0], len(c.op.Keys), false
	m.rounds++
	s.stats.MGetRounds++
	c.retryAt = now.Mono
	seen := max(s.mustSee(c.session, false), m.greatestHLC()) // what the round before found counts as seen
	for i, k := range c.op.Keys {
		g := causal.Get{Key: k, Cut: m.cut, Seen: seen}
		if !first && m.cut == 0 {
			g.VersionOnly, g.Known = true, m.replies[i].record.Version
		}
		s.requestKey(now, c, i, g, first && m.ring == topology.NoRing)
	}
}

// requestKey asks the ring of the MGET for a key, or without one, the nearest copy: the cache if it may be used, else the
// nearest ring.
func (s *Sidecar) requestKey(now causal.Now, c *call, i int, g causal.Get, mayUseCache bool) {
	m := c.mget
	ring := m.ring
	if ring == topology.NoRing {
		ring, _ = s.routes.Nearest(now, m.slots[i], s.readable)
	}
	owner := s.cfg.Topology.Owner(ring, m.slots[i])
	target, timeout := owner, s.routes.Timeout(owner.DC)
	if mayUseCache {
		if cache, ok := s.cacheOf(now, g.Key); ok {
			target, timeout = cache, timeout+cacheMargin
		}
	}
	c.retryAt = max(c.retryAt, now.Mono+int64(timeout))
	g.ID = s.requests.add(c, i)
	m.requests, m.targets = append(m.requests, g.ID), append(m.targets, target)
	s.Send(g.Message(s.cfg.Self, target))
}

// handleKeyReply takes the reply for one key.
func (s *Sidecar) handleKeyReply(now causal.Now, c *call, i int, from topology.Node, r *causal.GetReply) {
	m := c.mget
	if m.missing == 0 {
		return
	}
	switch {
	case r.Err == causal.ErrNotFound && from.Part == topology.Cache: // it has no version for the cut
		s.requestKey(now, c, i, causal.Get{Key: c.op.Keys[i], Cut: m.cut}, false)
		return
	case r.Err == causal.ErrCutTooOld: // the middleman has dropped the versions at the cut
		s.stats.Retries++
		s.readLatest(now, c)
		return
	case r.Err != causal.OK:
		if r.Err == causal.ErrDataLost && from.Part == topology.Middleman {
			s.routes.NoteDataLost(now, from)
		}
		m.failed = true
		c.retryAt = now.Mono + int64(unusableDelay)
		return
	}
	previous := &m.replies[i].record
	if r.VersionOnly {
		r.Record.Value = previous.Value
	} else if r.Record.Version != previous.Version {
		m.changed = true
	}
	m.replies[i] = keyReply{record: r.Record, status: r.Status, ring: r.Ring, hit: r.Hit}
	if m.missing--; m.missing == 0 {
		s.finishRound(now, c)
	}
}
