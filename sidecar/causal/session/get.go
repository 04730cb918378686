package session

import (
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/keystate"
	"github.com/causalstore/causalstore/topology"
)

const (
	// cacheMargin is how much longer than a shard behind it a cache may take to answer.
	cacheMargin = 250 * time.Millisecond
	// noRingDelay is the wait before the next attempt if there was no ring to ask.
	noRingDelay = 10 * time.Millisecond
	// unusableDelay is the wait before the next attempt if the reply could not be used: an error, or no room for one
	// more restriction.
	unusableDelay = 20 * time.Millisecond
)

// startGet reads one key (PROTOCOL SES): from the own writes, else through the cache if the level of the get allows
// copies, else from the nearest ring that it allows.
func (s *Sidecar) startGet(now causal.Now, c *call) {
	s.countGet(c)
	s.begin(now, c)
}

// begin looks for a key where the level of a get does.
func (s *Sidecar) begin(now causal.Now, c *call) {
	if c.level.asksHome() && !s.readsFromMemory(c) {
		s.startAtHome(now, c)
		return
	}
	c.home = nil
	if !c.level.asksHome() && !(c.pipeline != nil && s.cfg.Broken.Has(causal.LocalLeftOnce)) {
		s.leaveHome(now, c.session)
	}
	s.locate(now, c)
}

// readsFromMemory carries out the mutation LocalFromMemory.
func (s *Sidecar) readsFromMemory(c *call) bool {
	w := c.session.own.newest[c.op.Key]
	if !s.cfg.Broken.Has(causal.LocalFromMemory) || w == nil || w.evicted || w.complete || c.op.ForUpdate {
		return false
	}
	own := w.record()
	return keystate.Hides(&own, max(c.session.seen, c.session.local.newest()))
}

func (s *Sidecar) countGet(c *call) {
	s.stats.Gets++
	c.slot = topology.SlotOf(c.op.Key)
	c.bound = !s.unbound(c.session)
	if c.bound {
		s.stats.BoundGets++
	}
}

// locate reads a key from where the session may read it now.
func (s *Sidecar) locate(now causal.Now, c *call) {
	ss := c.session
	if w := ss.own.newest[c.op.Key]; w != nil {
		own := w.record()
		newest := keystate.Hides(&own, max(ss.seen, ss.local.newest())) || s.cfg.Broken.Has(causal.OwnUnchecked)
		if newest && (!w.complete || c.level.overlays(s, now)) {
			s.serveOwnWrite(now, c, w)
			return
		}
		// The session may have seen a greater concurrent write of the key, or what depends on one, or its own write is
		// a part of the value only. So look, and return what becomes of the two.
		c.own = w
	}
	s.sendGet(now, c)
}

// serveOwnWrite answers a get with an own write. An evicted value is read from the coordinator's log first.
func (s *Sidecar) serveOwnWrite(now causal.Now, c *call, w *ownWrite) {
	if w.evicted {
		c.own, c.target = w, w.coordinator
		c.retryAt = now.Mono + int64(s.routes.Timeout(w.coordinator.DC))
		s.Send(causal.LogGet{ID: s.ask(c), Version: w.version}.Message(s.cfg.Self, c.target))
		return
	}
	s.finishOwnRead(c, causal.Record{Version: w.version, Value: w.value})
}

func (s *Sidecar) finishOwnRead(c *call, r causal.Record) {
	s.stats.OwnReads++
	s.finish(c, Result{Record: r, Outcome: Outcome{Version: r.Version, Source: SourceOwn, Ring: topology.NoRing}})
}

// sendGet sends a get to the cache if it may use that, else to the nearest allowed ring that was not tried yet.
func (s *Sidecar) sendGet(now causal.Now, c *call) {
	if late, ok := s.lateReplies[c.op.Key]; ok {
		delete(s.lateReplies, c.op.Key)
		s.handleGetReply(now, c, &late)
		return
	}
	rings, copies := c.level.sources(s, c.session)
	if cache, ok := s.cacheOf(now, c.op.Key, copies); ok && !c.skipCache {
		ring, _ := s.routes.Nearest(now, c.slot, s.readable) // that the cache reads from on a miss
		c.target = cache
		s.requestGet(now, c, cacheMargin+s.routes.Timeout(s.cfg.Topology.Owner(ring, c.slot).DC))
		return
	}
	if rings&^c.tried != 0 {
		rings &^= c.tried
	} else {
		c.tried = 0
	}
	ring, ok := s.routes.Nearest(now, c.slot, rings)
	if !ok {
		c.lost, c.retryAt = true, now.Mono+int64(noRingDelay)
		return
	}
	c.target, c.tried = s.cfg.Topology.Owner(ring, c.slot), c.tried.With(ring)
	s.requestGet(now, c, s.routes.Timeout(c.target.DC))
}

// requestGet sends the request of a get to its target, which may take a time to answer.
func (s *Sidecar) requestGet(now causal.Now, c *call, wait time.Duration) {
	c.near, c.lost = false, false
	c.wait, c.retryAt = int64(wait), now.Mono+int64(wait)
	g, near := c.level.get(s, now, c)
	g.ID, g.Key = s.ask(c), c.op.Key
	if c.pipeline != nil {
		c.covers = c.level.covers(s, now)
	}
	if c.target.Part == topology.Cache || s.cfg.Broken.Has(causal.NearBound) {
		s.keyBytes = append(s.keyBytes[:0], g.Key...)
		if rec, ok := s.near.Find(now, s.keyBytes, topology.HashBytes(s.keyBytes), near); ok {
			s.requests.drop(c.requestID)
			c.near = true
			s.takeGetReply(now, c, &causal.GetReply{ID: g.ID, Key: g.Key, Record: *rec, Status: causal.Stable,
				Hit: true, Ring: topology.NoRing})
			return
		}
	}
	if c.target.Part == topology.Cache {
		g.NearMax = s.near.Wanted(now, g.Key)
	}
	s.Send(g.Message(s.cfg.Self, c.target))
}

// cacheOf returns the cache that may hold a key, if copies may be read; false if there is none, or if it does not
// answer.
func (s *Sidecar) cacheOf(now causal.Now, key string, copies bool) (topology.Node, bool) {
	if !copies {
		return topology.Node{}, false
	}
	return s.cacheAt(now, topology.Hash(key))
}

// cacheAt is cacheOf for the hash of a key.
func (s *Sidecar) cacheAt(now causal.Now, hash uint64) (topology.Node, bool) {
	if !s.cfg.UseCache {
		return topology.Node{}, false
	}
	cache, ok := s.cfg.Topology.CacheFor(s.cfg.Self.DC, hash)
	return cache, ok && !s.routes.Suspects.Has(now, cache)
}

// retryGet gives up the request in flight and tries another way, unless the answer is only late.
func (s *Sidecar) retryGet(now causal.Now, c *call) {
	if c.early != nil || c.pipeline != nil && !c.started { // it waits for others, and not for an answer
		c.retryAt = causal.Never
		return
	}
	if !c.replied && c.target.Part != topology.Coordinator && s.waits(now, c) {
		return
	}
	s.requests.drop(c.requestID)
	s.stats.Retries++
	replied := c.replied
	c.replied = false
	switch c.target.Part {
	case topology.Cache:
		c.skipCache = true
	case topology.Middleman:
		if !replied && s.routes.OutOfReach(now, c.slot, s.readable) {
			s.fail(c, causal.ErrUnavailable)
			return
		}
	case topology.Coordinator:
		s.serveOwnWrite(now, c, c.own)
		return
	}
	s.sendGet(now, c)
}

// timedOut records that a cache or a middleman does not answer.
func (s *Sidecar) timedOut(now causal.Now, n topology.Node) {
	if n.Part == topology.Cache {
		s.avoidCache(now, n)
	} else {
		s.routes.TimedOut(now, n)
	}
}

// avoidCache makes reads go round a cache until it answers a ping. The gets that are with it go elsewhere at the next
// tick: a cache answers from memory, so if it owes one answer it probably owes all.
func (s *Sidecar) avoidCache(now causal.Now, cache topology.Node) {
	if !s.routes.Suspects.Add(now, cache, 0) {
		return
	}
	for _, c := range s.calls {
		if !c.finished && c.target == cache && c.op.Kind == OpGet {
			c.lost, c.retryAt = true, now.Mono
		}
	}
}

// retryLater tries another way after a moment: the target is alive, but its reply cannot be used.
func (s *Sidecar) retryLater(now causal.Now, c *call) {
	c.replied = true
	c.retryAt = now.Mono + int64(unusableDelay)
}

// takeGetReply takes the reply of a cache or a middleman when it arrives.
func (s *Sidecar) takeGetReply(now causal.Now, c *call, r *causal.GetReply) {
	if r.Err == causal.OK && c.pipeline != nil && !s.holdAhead(c, r.Record.Value.Size()) {
		s.refuseAhead(c)
		return
	}
	if r.Err == causal.OK && c.isBehind() {
		reply := *r
		c.hold(&reply)
		return
	}
	s.handleGetReply(now, c, r)
}

// handleGetReply takes the reply of a cache or a middleman to a get whose turn it is.
func (s *Sidecar) handleGetReply(now causal.Now, c *call, r *causal.GetReply) {
	ss := c.session
	switch {
	case r.Err == causal.ErrDataLost && c.target.Part == topology.Middleman:
		s.routes.NoteDataLost(now, c.target)
		if rings, _ := c.level.sources(s, ss); rings&^c.tried == 0 {
			s.retryLater(now, c)
			return
		}
		c.replied = true
		s.retryGet(now, c)
		return
	case r.Err == causal.ErrNotFound && c.target.Part == topology.Cache: // it cannot answer this read, or not yet
		c.skipCache = true
		s.sendGet(now, c)
		return
	case r.Err != causal.OK:
		s.retryLater(now, c)
		c.skipCache = c.skipCache || c.target.Part == topology.Cache
		return
	case !s.cfg.Types.Accepts(&r.Record.Value):
		s.fail(c, causal.ErrType)
		return
	case c.own != nil && c.own.isIncomplete():
		s.awaitOwnWrite(now, c)
		return
	case c.home != nil:
		s.takeFound(now, c, r)
		return
	}
	s.finishGet(now, c, r)
}

// finishGet answers a get with what was found in a copy or in a ring, if the session may see it.
func (s *Sidecar) finishGet(now causal.Now, c *call, r *causal.GetReply) {
	ss := c.session
	rec := r.Record
	if c.own != nil {
		own, isOwn := c.own.record(), false
		if rec, isOwn = keystate.Overlay(s.cfg.Types, &r.Record, &own); isOwn {
			s.serveOwnWrite(now, c, c.own)
			return
		}
	}
	found := foundValue{record: r.Record, slot: c.slot, status: r.Status, unstable: r.Unstable, ring: r.Ring,
		past: r.Past, key: c.op.Key}
	if r.Status == causal.InFlight {
		if ss.past.hasRead(c.op.Key, &r.Record) {
			found.status = causal.Stable // it was complete when the session read it before
		} else if n := c.level.restrictions(s, ss, found); n > 0 &&
			ss.inPast()+n > s.cfg.MaxRestrictions {
			s.retryFound(now, c) // until a restriction is lifted
			return
		}
	}
	if !c.level.observe(s, now, ss, found) {
		s.stats.Rereads++
		if c.home != nil {
			c.home.found = nil
		}
		s.sendGet(now, c)
		return
	}
	if found.status == causal.InFlight {
		s.stats.InFlightReads++
	}
	from := causal.HLC(0)
	if c.home != nil {
		from = max(c.home.reply.From, min(c.home.from, c.home.complete))
		s.keepLease(now, c.home.askedAt, &c.home.reply)
	}
	s.finish(c,
		Result{Record: rec, From: from, Outcome: Outcome{Version: rec.Version, Source: s.sourceOfGet(c, r),
			Status: found.status, Ring: r.Ring}})
}

// retryFound is retryLater for what was found, which is then looked for again.
func (s *Sidecar) retryFound(now causal.Now, c *call) {
	if c.home != nil {
		c.home.found = nil
	}
	s.retryLater(now, c)
}

// awaitOwnWrite makes a get wait for an own write that is a part of the value, and of which the value was evicted: once
// it is complete, it is read from a ring.
func (s *Sidecar) awaitOwnWrite(now causal.Now, c *call) {
	if !c.own.forgotten {
		s.retryLater(now, c)
		return
	}
	c.own = nil
	s.locate(now, c)
}

// handleLogReply takes the value of an own write that was evicted.
func (s *Sidecar) handleLogReply(now causal.Now, c *call, r causal.LogReply) {
	if r.Err != causal.OK {
		s.sendGet(now, c) // the log no longer holds it: it is complete, so every ring has it
		return
	}
	s.finishOwnRead(c, r.Record)
}

// sourceOfGet returns where the value of a get was read, and counts it.
func (s *Sidecar) sourceOfGet(c *call, r *causal.GetReply) Source {
	if c.near {
		s.stats.NearHits++
		return SourceNear
	}
	return s.sourceOf(c.slot, r.Ring, r.Hit)
}

// sourceOfKey returns where a value of an MGET was read, and counts it.
func (s *Sidecar) sourceOfKey(slot topology.Slot, r *keyReply) Source {
	if r.near {
		s.stats.NearHits++
		return SourceNear
	}
	return s.sourceOf(slot, r.ring, r.hit)
}

// sourceOf returns where a value was read, and counts it.
func (s *Sidecar) sourceOf(slot topology.Slot, ring topology.RingID, hit bool) Source {
	switch {
	case hit:
		s.stats.CacheHits++
		return SourceCache
	case ring != topology.NoRing && s.cfg.Topology.Owner(ring, slot).DC == s.cfg.Self.DC:
		s.stats.LocalReads++
		return SourceLocal
	default:
		s.stats.RemoteReads++
		return SourceRemote
	}
}

// keepLateReply remembers a reply that came too late, for the mutation LateReply.
func (s *Sidecar) keepLateReply(r causal.GetReply) {
	if r.Err == causal.OK && r.Key != "" {
		s.lateReplies[r.Key] = r
	}
}
