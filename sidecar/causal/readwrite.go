package causal

import (
	"slices"
	"time"

	"github.com/causalstore/causalstore/sidecar/topology"
)

// get reads one key (PROTOCOL §3): own write, bound ring, cache, nearest ring, in this order.
func (s *Sidecar) get(now Now, c *call) {
	s.stats.Gets++
	c.slot = topology.SlotOf(c.op.Key)
	ss := c.s
	c.bound = !s.unbound(ss)
	if c.bound {
		s.stats.Bound++
	}
	if e := ss.own[c.op.Key]; e != nil {
		if (ss.seen < e.version.HLC || s.cfg.Broken.has(OwnUnchecked)) && !(e.complete && s.readsNewest(now, c)) {
			s.serveOwn(now, c, e)
			return
		}
		// Something later than a greater concurrent write of the key may have been seen: look, and return the greater.
		c.own = e
	}
	s.route(now, c)
}

// Prefetch asks the cache for keys that a session is likely to read next. It is not a read: what comes back is dropped
// here, and only the cache remembers it.
func (s *Sidecar) Prefetch(now Now, session uint64, keys []string) {
	ss := s.sessions[session]
	if ss == nil || !s.cfg.UseCache || !s.unbound(ss) {
		return
	}
	older, cut := s.cutServes(now), HLC(0)
	if older {
		cut = s.cut
	}
	for _, k := range keys {
		if cache, ok := s.cfg.Topology.CacheFor(s.cfg.Self.DC, topology.Hash(k)); ok && ss.own[k] == nil {
			s.send(Message{Kind: KindGet, From: s.cfg.Self, To: cache, Key: k, Older: older, Cut: cut, HLC: s.seenBy(ss, older)})
		}
	}
}

// serveOwn answers with an own write.
func (s *Sidecar) serveOwn(now Now, c *call, e *ownWrite) {
	if e.dropped {
		c.own, c.target = e, e.cc
		c.dueAt = now.Mono + int64(s.routes.Timeout(e.cc.DC))
		c.req = s.ask(c, 0, Message{Kind: KindLogGet, To: e.cc, Record: Record{Version: e.version}})
		return
	}
	s.stats.Own++
	s.finish(c, Result{Record: Record{e.version, e.value}, Outcome: Outcome{Version: e.version, Source: SourceOwn, Ring: topology.NoRing}})
}

// route sends a get to where it may be read.
func (s *Sidecar) route(now Now, c *call) {
	c.tries++
	q := Message{Kind: KindGet, Key: c.op.Key}
	if !s.readsNewest(now, c) {
		q.Older, q.Cut = true, s.cut
	}
	q.HLC = s.seenBy(c.s, q.Older)
	if q.Older && c.own != nil {
		q.HLC = max(q.HLC, c.own.version.HLC)
	}
	if late, ok := s.faultKeys[c.op.Key]; ok {
		delete(s.faultKeys, c.op.Key)
		s.gotten(now, c, &late)
		return
	}
	if s.cfg.UseCache && !c.noCache && s.unbound(c.s) {
		if cache, ok := s.cfg.Topology.CacheFor(s.cfg.Self.DC, topology.Hash(c.op.Key)); ok {
			ring, _ := s.routes.Nearest(now, c.slot, s.home)
			c.ring, c.target = topology.NoRing, cache
			c.dueAt = now.Mono + int64(250*time.Millisecond+s.routes.Timeout(s.cfg.Topology.Owner(ring, c.slot).DC))
			q.To = cache
			c.req = s.ask(c, 0, q)
			return
		}
	}
	rings := s.rings(c.s)
	if rings&^c.tried != 0 {
		rings &^= c.tried
	} else {
		c.tried = 0
	}
	ring, ok := s.routes.Nearest(now, c.slot, rings)
	if !ok {
		c.dueAt = now.Mono + int64(10*time.Millisecond)
		return
	}
	c.ring, c.target = ring, s.cfg.Topology.Owner(ring, c.slot)
	c.tried = c.tried.With(ring)
	c.dueAt = now.Mono + int64(s.routes.Timeout(c.target.DC))
	q.To = c.target
	c.req = s.ask(c, 0, q)
}

// binds reports whether reading v in-flight adds a restriction.
func (s *Sidecar) binds(ss *session, v Version) bool {
	return v.Written() && !ss.mine(v) && !s.known.Complete(v) &&
		!slices.ContainsFunc(ss.restrict, func(r *restriction) bool { return r.version == v })
}

// getOverdue tries another way; the answer to the first one is no longer taken.
func (s *Sidecar) getOverdue(now Now, c *call) {
	delete(s.requests, c.req)
	s.stats.Retried++
	defer func() { c.answered = false }()
	switch c.target.Part {
	case topology.Cache:
		c.noCache = true
	case topology.Middleman:
		if !c.answered {
			s.routes.TimedOut(now, c.target.DC)
		}
	case topology.Coordinator:
		s.serveOwn(now, c, c.own)
		return
	}
	s.route(now, c)
}

// gotten takes the answer to a get.
func (s *Sidecar) gotten(now Now, c *call, m *Message) {
	if c.done {
		return
	}
	if m.Kind == KindLogReply {
		if m.Err != OK { // complete, and gone from the log: it is in every ring and out of every cache
			s.route(now, c)
			return
		}
		s.stats.Own++
		s.finish(c, Result{Record: m.Record, Outcome: Outcome{Version: m.Record.Version, Source: SourceOwn, Ring: topology.NoRing}})
		return
	}
	if m.Err != OK {
		c.answered = true
		c.dueAt = now.Mono + int64(20*time.Millisecond) // another way, after a moment
		c.noCache = c.noCache || c.target.Part == topology.Cache
		return
	}
	if c.own != nil && m.Record.Version.Less(c.own.version) {
		s.serveOwn(now, c, c.own)
		return
	}
	if m.Status == InFlight && len(c.s.restrict) >= s.cfg.MaxBound && s.binds(c.s, m.Record.Version) {
		c.answered = true
		c.dueAt = now.Mono + int64(20*time.Millisecond) // no room for one more in-flight version: until some are lifted
		return
	}
	if !s.observe(now, c.s, m.Record, c.slot, m.Status, m.Ring) {
		s.stats.Reread++
		s.route(now, c)
		return
	}
	if m.Status == InFlight {
		s.stats.InFlight++
	}
	s.finish(c, Result{Record: m.Record, Outcome: Outcome{
		Version: m.Record.Version, Source: s.sourceOf(c.slot, m), Status: m.Status, Ring: m.Ring}})
}

func (s *Sidecar) sourceOf(slot topology.Slot, m *Message) Source {
	switch {
	case m.Hit:
		s.stats.CacheHits++
		return SourceCache
	case m.Ring != topology.NoRing && s.cfg.Topology.Owner(m.Ring, slot).DC == s.cfg.Self.DC:
		s.stats.Local++
		return SourceLocal
	default:
		s.stats.Remote++
		return SourceRemote
	}
}

// lateReply drops an answer that nobody waits for any more.
func (s *Sidecar) lateReply(m *Message) {
	if s.faultKeys != nil && m.Kind == KindGetReply && m.Err == OK && m.Key != "" {
		s.faultKeys[m.Key] = *m
	}
}

// wait answers when the session's newest write is in a ring, or complete.
func (s *Sidecar) wait(c *call) {
	c.own = c.s.pending[c.s.last.Version]
	if c.own == nil {
		s.finish(c, Result{})
		return
	}
	s.parked = append(s.parked, c)
}

// unpark looks again at the calls that wait for vectors.
func (s *Sidecar) unpark(now Now) {
	parked := s.parked
	s.parked = nil
	for _, c := range parked {
		if c.done {
			continue
		}
		switch c.op.Kind {
		case OpWait:
			v := c.own.version
			if c.s.pending[v] == nil || c.op.Ring != topology.NoRing && s.known.ProcessedIn(c.op.Ring, v) {
				s.finish(c, Result{})
				continue
			}
		case OpResume:
			if s.tryResume(now, c) {
				continue
			}
		case OpMGet:
			if s.tryCut(now, c) {
				continue
			}
		}
		s.parked = append(s.parked, c)
	}
}

// count asks every shard of the nearest ring how many keys it holds.
func (s *Sidecar) count(c *call) {
	t := s.cfg.Topology
	c.multi = &multi{}
	for _, mm := range t.Members(t.RingOf(s.cfg.Self.DC)) {
		c.multi.left++
		c.multi.reqs = append(c.multi.reqs, s.ask(c, 0, Message{Kind: KindCount, To: mm}))
	}
}

func (s *Sidecar) counted(c *call, m *Message) {
	if c.done {
		return
	}
	c.total += int64(m.Seq)
	if c.multi.left--; c.multi.left == 0 {
		s.finish(c, Result{Count: c.total})
	}
}
