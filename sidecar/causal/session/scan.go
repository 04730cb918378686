package session

import (
	"slices"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// ScanPosition is where a scan of all keys is (PROTOCOL SCAN): it goes through the homes of the data center, at a level
// that asks them, and then through the shards of one ring. The zero ScanPosition is before the first key.
type ScanPosition struct {
	Home  int // how many homes have named their keys, while Map is 0
	Ring  topology.RingID
	Map   topology.MapID // of the ring; 0: no shard of it was asked
	Shard int            // index in Topology.RingMiddlemen
	After string         // what the home or the shard has told where to continue
	Place uint64         // the number under which it remembers that
	Done  bool           // all have named all their keys
	// own are the keys of own writes that were named with the first page of the shard: they may have come into its
	// storage since, and are not named again. A cursor does not have them.
	own []string
}

// startScan names keys. Together, the calls of a scan name every key that the session knew to exist when the scan
// began, and that has not been deleted since; the caller reads the keys to learn which exist. The session may have
// written some of them, and not every ring has them yet: the first call for their shard adds these.
func (s *Sidecar) startScan(now causal.Now, c *call) {
	if c.op.Cursor != 0 {
		position, ok := s.positionOf(c.op.Cursor)
		if !ok {
			s.finish(c, Result{Err: causal.ErrNotFound})
			return
		}
		c.op.Scan = position
	}
	c.scan = c.op.Scan
	s.sendScan(now, c)
}

// homesToScan returns the homes that a scan asks, before any shard.
func (s *Sidecar) homesToScan(c *call) []topology.Node {
	if !c.level.asksHome() || s.cfg.Broken.Has(causal.ScanWithoutHome) {
		return nil
	}
	homes := make([]topology.Node, s.homeCount())
	for i := range homes {
		homes[i] = topology.Node{DC: s.cfg.Self.DC, Part: topology.Coordinator, Index: uint64(i)}
	}
	return homes
}

// requestScan asks the target of a scan.
func (s *Sidecar) requestScan(c *call, request causal.Scan) {
	p := &c.scan
	request.ID, request.Limit, request.After = s.ask(c), uint64(c.op.Limit), p.After
	if p.After == "" {
		request.Place = p.Place
	}
	s.Send(request.Message(s.cfg.Self, c.target))
}

// handleScanAtHome takes the keys that a home has named.
func (s *Sidecar) handleScanAtHome(now causal.Now, c *call, r causal.ScanReply) {
	switch r.Err {
	case causal.OK:
		next := c.scan
		if next.After, next.Place = r.Next, r.Place; r.Next == "" {
			next.Home++
		}
		s.finish(c, Result{Keys: distinct(slices.Clone(r.Keys)), Scan: next, Outcome: Outcome{Source: SourceHome,
			Ring: topology.NoRing}})
	case causal.ErrNotFound:
		s.finish(c, Result{Err: r.Err})
	default:
		c.target, c.retryAt = topology.Node{}, now.Mono+int64(homeBusy)
	}
}

// sendScan asks the shard that is next.
func (s *Sidecar) sendScan(now causal.Now, c *call) {
	p, t := &c.scan, s.cfg.Topology
	if homes := s.homesToScan(c); p.Map == 0 && p.Home < len(homes) {
		c.target, c.retryAt = homes[p.Home], now.Mono+int64(homeRetry)
		s.requestScan(c, causal.Scan{Seen: c.session.local.at(s.cfg.Topology.OriginOf(c.target)),
			Homes: uint64(len(homes))})
		return
	}
	rings, _ := c.level.sources(s, c.session)
	if s.cfg.Broken.Has(causal.ScanAnyRing) {
		rings = s.readable
	}
	if c.op.Scan.Map == 0 {
		ring, ok := s.routes.NearestAll(now, s.slotOfEachShard(), rings)
		if !ok {
			c.retryAt = now.Mono + int64(noRingDelay)
			return
		}
		*p = ScanPosition{Home: p.Home, Ring: ring, Map: t.Map(ring)}
	}
	switch {
	case p.Map != t.Map(p.Ring), p.Shard >= len(t.RingMiddlemen(p.Ring)):
		s.finish(c, Result{Err: causal.ErrNotFound})
		return
	case !rings.Has(p.Ring):
		c.retryAt = now.Mono + int64(noRingDelay) // until the ring has what the session has seen meanwhile
		return
	}
	c.target = t.RingMiddlemen(p.Ring)[p.Shard]
	// Before the request: a write that completes meanwhile is an own write no longer, and the shard may have been asked
	// before.
	c.ownKeys = s.ownKeysOf(c)
	c.retryAt = now.Mono + int64(s.routes.Timeout(c.target.DC))
	s.requestScan(c, causal.Scan{Seen: s.mustSee(c.session), Map: p.Map})
}

// ownKeysOf returns the keys of own writes that belong to the shard that a scan is about to begin with. Those that are
// complete by now are in its storage, and its pages name them.
func (s *Sidecar) ownKeysOf(c *call) []string {
	if c.scan.After != "" || c.scan.Place != 0 {
		return nil
	}
	var keys []string
	for key := range c.session.own.newest {
		if s.cfg.Topology.Owner(c.scan.Ring, topology.SlotOf(key)) == c.target {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// slotOfEachShard returns some slots, so that each shard of every ring owns one with all likelihood; where a scan
// begins depends on it, and no more.
func (s *Sidecar) slotOfEachShard() []topology.Slot {
	slots := make([]topology.Slot, 0, topology.Slots/32)
	for slot := topology.Slot(0); slot < topology.Slots; slot += 32 {
		slots = append(slots, slot)
	}
	return slots
}

// retryScan asks again. A scan that begins may use another ring.
func (s *Sidecar) retryScan(now causal.Now, c *call) {
	s.requests.drop(c.requestID)
	if c.target.Part == topology.Middleman {
		s.timedOut(now, c.target)
		s.stats.Retries++
	}
	s.sendScan(now, c)
}

func (s *Sidecar) handleScanReply(now causal.Now, c *call, r causal.ScanReply) {
	if c.scan.Map == 0 {
		s.handleScanAtHome(now, c, r)
		return
	}
	begins := c.op.Scan.Map == 0
	switch {
	case r.Err == causal.ErrNotFound, r.Err == causal.ErrMoved && !begins:
		s.finish(c, Result{Err: causal.ErrNotFound})
		return
	case r.Err != causal.OK:
		if r.Err == causal.ErrDataLost {
			s.routes.NoteDataLost(now, c.target) // a scan that begins uses another ring
		}
		c.target, c.retryAt = topology.Node{}, now.Mono+int64(unusableDelay)
		return
	}
	next := c.scan
	if next.Map != s.cfg.Topology.Map(next.Ring) { // the shards have changed since it was asked
		s.sendScan(now, c)
		return
	}
	keys := withoutKeys(slices.Clone(r.Keys), next.own) // nobody changes what is in a message
	if !s.cfg.Broken.Has(causal.ScanWithoutOwn) {
		keys = append(keys, c.ownKeys...)
		next.own = append(next.own, c.ownKeys...)
	}
	if next.After, next.Place = r.Next, r.Place; next.After == "" {
		next.Shard++
		next.own = nil
		next.Done = next.Shard == len(s.cfg.Topology.RingMiddlemen(next.Ring))
	}
	s.finish(c, Result{Keys: distinct(keys), Scan: next, Outcome: Outcome{Ring: next.Ring}})
}

// withoutKeys returns keys without the named ones, which are sorted.
func withoutKeys(keys, named []string) []string {
	if len(named) == 0 {
		return keys
	}
	return slices.DeleteFunc(keys, func(key string) bool {
		_, is := slices.BinarySearch(named, key)
		return is
	})
}

// distinct returns each of the keys once. An own write may be in storage and pending at the shard too, and a storage
// may name a key twice in a page. Clients expect duplicates from a later page, but not in one reply.
func distinct(keys []string) []string {
	named := make(map[string]struct{}, len(keys))
	return slices.DeleteFunc(keys, func(key string) bool {
		_, again := named[key]
		named[key] = struct{}{}
		return again
	})
}
