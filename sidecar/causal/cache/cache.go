// Package cache is the state machine of a data center's read-through cache, or of one part of it (PROTOCOL CAC).
//
// It holds stable values only. Fills, invalidations and lease grants of one middleman come on one ordered stream; an
// entry is served only while the stream that brought it lives and its lease runs. Failure model: see package causal.
package cache

import (
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// Config configures a Cache.
type Config struct {
	Topology *topology.Topology
	Self     topology.Node
	// Incarnation differs from that of every earlier start, and should be greater.
	Incarnation uint64
	// MaxBytes bounds the memory of entries, in bytes, by an estimate.
	MaxBytes int
	// Rings are the rings to read through to: all of them, or with static binding the own one.
	Rings topology.RingSet
	// Attempts bounds the tries for one miss, over all rings.
	Attempts int
	// NearLease is how long sidecars may serve near copies without hearing from the cache, and how long the cache waits
	// after its start, for those of an earlier one. It must be well below the lease of the middlemen. 0: no sidecar has
	// ever got near copies, and none does.
	NearLease time.Duration
	// OwnerOf returns the identity behind a node, as for causal.Quota; nil: there are none.
	OwnerOf func(topology.Node) string
	Broken  causal.Mutations
}

// DefaultConfig returns the defaults for a cache of t.
func DefaultConfig(t *topology.Topology, self topology.Node) Config {
	return Config{Topology: t, Self: self, Incarnation: 1, MaxBytes: 256 << 20, Rings: t.AllRings(),
		Attempts: 2 * len(t.Rings)}
}

// Cache is the state machine of one cache.
//
// Invariant: an entry is served only while the stream that brought it lives and its lease, counted from before the
// middleman granted it, has not expired.
type Cache struct {
	causal.Outbox
	cfg     Config
	maps    causal.SlotMaps
	routes  *causal.Routes
	entries *simplelru.LRU[uint64, *entry] // by key hash; the newest version first
	bytes   int
	flights flights
	lastID  uint64 // of a flight or lease renewal
	streams map[topology.Node]*stream
	order   []*stream
	stats   Stats

	snapshot snapshotState
	known    *causal.Stability // as the leader of the data center has it
	limit    causal.TimeLimit
	near     nearCopies

	// exclusions are what it applies, and knownExclusions also what its configuration declares.
	exclusions, knownExclusions causal.Exclusions

	faultDrops []lateDrop
}

// lateDrop is an invalidation that is carried out late, for the InvalidateLate mutation.
type lateDrop struct {
	hash uint64
	at   int64
}

// Stats counts since the start.
type Stats struct {
	Hits, Misses, Joined, Inserted, Invalidated, InFlight, Unavailable, Resets uint64
	// CutsRefused counts reads at cuts that are not known to be complete.
	CutsRefused uint64
	// ClockRefused counts answers of middlemen whose timestamp is too far ahead of the clock here.
	ClockRefused uint64
	// NearCopies counts the copies that sidecars were given, NearInvalidated the invalidations that were passed on to
	// them.
	NearCopies, NearInvalidated uint64
}

// New makes an empty cache.
func New(cfg Config) *Cache {
	maps := causal.NewSlotMaps(cfg.Topology)
	cfg.Topology = maps.View()
	c := &Cache{cfg: cfg, maps: maps, routes: causal.NewRoutes(cfg.Topology, cfg.Self.DC),
		known: causal.NewStability(cfg.Topology), flights: newFlights(cfg.OwnerOf),
		streams: map[topology.Node]*stream{},
		near: nearCopies{byID: map[nearID]*nearStream{},
			quota: causal.Quota{Total: maxAllNearCopies, Each: maxNearCopiesOfOne, OwnerOf: cfg.OwnerOf}}}
	lru, err := simplelru.NewLRU(1<<40, func(hash uint64, e *entry) {
		c.bytes -= e.size()
		if c.cfg.Broken.Has(causal.NearForgetEvicted) {
			c.forgetNear(hash)
		}
	})
	if err != nil {
		panic(err) // only for a size that is not positive
	}
	c.entries = lru
	c.knownExclusions = causal.ExclusionsOf(cfg.Topology)
	return c
}

// SetTopology takes a topology that differs from the one in use in the numbers of coordinators, shards and caches only.
func (c *Cache) SetTopology(t *topology.Topology) {
	c.maps.Load(t)
	c.knownExclusions = c.knownExclusions.With(causal.ExclusionsOf(t))
	c.applySlotMaps()
}

func (c *Cache) applySlotMaps() {
	c.cfg.Topology = c.maps.View()
	c.routes.SetTopology(c.cfg.Topology)
}

// Step handles one message.
func (c *Cache) Step(now causal.Now, m *causal.Message) {
	c.started(now)
	switch c.exclusions.Check(m, c.knownExclusions, c.cfg.Broken) {
	case causal.ExclusionsRefuse:
		return
	case causal.ExclusionsNew:
		c.applyExclusions(now, m.Exclusions())
	}
	if _, switched := c.maps.Observe(m); switched {
		c.applySlotMaps()
	}
	if m.From.Part == topology.Sidecar && c.handleNear(now, m) {
		return
	}
	switch m.Kind {
	case causal.KindGet:
		c.handleGet(now, m.From, m.Get())
	case causal.KindFillReply, causal.KindLeaseGrant, causal.KindInvalidate:
		c.handleStreamMessage(now, m)
	case causal.KindStreamReset:
		c.handleStreamReset(now, m.From, m.StreamReset())
	case causal.KindLatencies:
		c.routes.Update(m.Latencies())
	case causal.KindVectors:
		c.known.Merge(m.Vectors().Entries, c.timeLimit(now))
	case causal.KindCut:
		c.prepareCut(now, min(m.CutNotice().Cut, c.known.NewestCutWithout(c.leftOut())))
	case causal.KindPing:
		c.Send(causal.Pong{ID: m.Ping().ID}.Message(c.cfg.Self, m.From))
	case causal.KindPong:
		c.routes.Suspects.Answered(now, m.From, m.Pong().ID)
	}
}

// handleNear handles what only sidecars with near copies send, and reports whether m is that.
func (c *Cache) handleNear(now causal.Now, m *causal.Message) bool {
	switch m.Kind {
	case causal.KindLease:
		c.handleNearLease(now, m.From, m.LeaseRenewal())
	case causal.KindInvalidateAck:
		c.handleNearAck(now, m.From, m.InvalidateAck())
	case causal.KindStreamReset:
		c.handleNearReset(now, m.From, m.StreamReset())
	default:
		return false
	}
	return true
}

// leftOut returns how many data centers the cuts of sessions leave out.
func (c *Cache) leftOut() int { return causal.LeftOutAtMost(len(c.cfg.Topology.DCs)) }

// timeLimit returns the greatest timestamp of another part to believe.
func (c *Cache) timeLimit(now causal.Now) causal.HLC {
	if c.cfg.Broken.Has(causal.AnyClock) {
		return causal.NoLimit
	}
	return c.limit.At(now)
}

// handleGet answers from memory, or reads through.
func (c *Cache) handleGet(now causal.Now, from topology.Node, g causal.Get) {
	if g.Cut > c.known.MinSV() && (g.Snapshot || g.Cut > c.known.CutWithout(c.leftOut()).At) {
		// What a fill for a snapshot read brings counts as stable up to the cut, and is kept for everybody. So a
		// sidecar must not say what is complete. It asks a middleman, if it is only ahead of this cache.
		c.stats.CutsRefused++
		c.reply(waiter{to: from, id: g.ID}, causal.GetReply{Err: causal.ErrNotFound})
		return
	}
	w := waiter{to: from, id: g.ID, cut: g.Cut, from: g.From(), upTo: g.UpTo(), nearMax: g.NearMax}
	if len(g.Key) > causal.MaxKeyBytes { // it is no key, and would take as much memory here
		c.reply(w, causal.GetReply{Err: causal.ErrTooLarge})
		return
	}
	if c.isStarting(now) {
		c.reply(w, causal.GetReply{Err: causal.ErrNotFound}) // it asks a middleman
		return
	}
	hash := topology.Hash(g.Key)
	if g.Snapshot {
		cut := g.Cut
		if g.At != 0 {
			cut = max(cut, min(g.At, c.known.CutWithout(c.leftOut()).At))
		}
		c.snapshot.noteReader(now, cut)
	}
	if e := c.find(now, hash, &g); e != nil {
		c.stats.Hits++
		e.from.usedAt = now.Mono
		r := causal.GetReply{Record: e.Record, Status: causal.Stable, Past: e.past, Hit: true, Ring: topology.NoRing}
		c.passOn(now, w, e, &r)
		c.reply(w, r)
		return
	}
	if g.Cut != 0 && !g.Snapshot {
		// PROTOCOL MGET: a fill brings today's value, which may be above the cut. The sidecar asks a middleman.
		c.reply(w, causal.GetReply{Err: causal.ErrNotFound})
		c.fetchForLater(now, hash, w, g.Key)
		return
	}
	c.stats.Misses++
	var room bool
	w.size = waiterBytes + len(g.Key)
	if w.holder, room = c.flights.quota.TakeSize(from, w.size); !room {
		c.reply(w, causal.GetReply{Err: causal.ErrNotFound}) // it asks a middleman
		return
	}
	key := flightKey{key: g.Key, snapshot: g.Snapshot}
	if f := c.flights.byKey[key]; f != nil {
		c.stats.Joined++
		f.waiters = append(f.waiters, w)
		return
	}
	f := newFlight(key)
	f.waiters = append(f.waiters, w)
	c.startFlight(now, f)
}

// fetchForLater fetches a key that was asked for at a cut, so that later reads find it. Up to that cut, not all need be
// complete.
func (c *Cache) fetchForLater(now causal.Now, hash uint64, w waiter, key string) {
	if e, _ := c.entries.Peek(hash); e != nil && e.key == key && e.isValid(now) && e.IsNewest() {
		return // it is above the cut
	}
	f := newFlight(flightKey{key: key, snapshot: true})
	if c.flights.byKey[f.flightKey] != nil {
		return
	}
	var room bool
	w.id, w.nearMax, w.size = 0, 0, waiterBytes+len(key)
	if !c.cfg.Broken.Has(causal.FetchIncomplete) {
		w.cut = min(w.cut, c.known.MinSV())
		w.from, w.upTo = w.cut, w.cut
	}
	if w.holder, room = c.flights.quota.TakeSize(w.to, w.size); !room {
		return
	}
	f.waiters = append(f.waiters, w)
	c.startFlight(now, f)
}

func (c *Cache) reply(w waiter, r causal.GetReply) {
	if w.id == 0 {
		return // nobody waits for it
	}
	r.ID = w.id
	c.Send(r.Message(c.cfg.Self, w.to))
}

// Tick renews leases, sends unanswered flights another way, and asks middlemen that did not answer whether they are
// back.
func (c *Cache) Tick(now causal.Now) {
	c.started(now)
	c.tickNear(now)
	c.maps.Poll(now, c.cfg.Self, c.Send)
	c.routes.Suspects.Tick(now, c.cfg.Self, c.Send)
	for _, s := range c.order {
		c.openIfDue(now, s)
		c.renewLease(now, s)
	}
	c.retryFlights(now)
	for len(c.faultDrops) > 0 && c.faultDrops[0].at <= now.Mono {
		c.entries.Remove(c.faultDrops[0].hash)
		c.faultDrops = c.faultDrops[1:]
	}
}

// NextTick returns when Tick has something to do next, if no input comes before.
func (c *Cache) NextTick(now causal.Now) int64 {
	if len(c.flights.order) > 0 || c.cfg.Broken.Any() {
		return now.Mono
	}
	next := min(c.maps.NextPoll(), c.routes.Suspects.NextTick(), c.nextNearTick(now))
	for _, s := range c.order {
		if s.isRenewed(now) {
			next = min(next, s.renewedAt+s.renewalInterval())
		}
	}
	return next
}

// LinkDown says that a middleman cannot be reached: the read-throughs that are with it go elsewhere at the next tick.
func (c *Cache) LinkDown(now causal.Now, node topology.Node) {
	if node.Part != topology.Middleman {
		return
	}
	c.routes.Suspects.Add(now, node, 0)
	for _, f := range c.flights.order {
		if f.id != 0 && f.from.mm == node {
			f.dueAt = now.Mono
		}
	}
}

// LinkUp says that a middleman can be reached again. The read-throughs that are with it are sent again; if it is not
// the one from before, it answers that it does not know the stream.
func (c *Cache) LinkUp(now causal.Now, node topology.Node) {
	c.routes.Suspects.LinkUp(now, node)
	s := c.streams[node]
	if s == nil {
		return
	}
	s.openedAt = 0 // a request to open it may be lost
	for _, f := range c.flights.order {
		if f.id != 0 && f.from == s && c.ensureOpen(now, s) && f.epoch == s.epoch {
			c.sendFill(f)
		}
	}
}

// Idle reports whether no read-through is in flight; then Tick is not urgent.
func (c *Cache) Idle() bool { return len(c.flights.byID) == 0 }

// Stats returns the counters.
func (c *Cache) Stats() Stats { return c.stats }

// Size returns the number of keys and the estimated memory of their entries, in bytes.
func (c *Cache) Size() (entries, bytes int) { return c.entries.Len(), c.bytes }

// touchInterval is how often a hit moves its entry to the front of the LRU list.
const touchInterval = int64(time.Second)
