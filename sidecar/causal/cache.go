package causal

import (
	"slices"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/causalstore/causalstore/sidecar/topology"
)

// CacheConfig is what a cache is told at its start.
type CacheConfig struct {
	Topology *topology.Topology
	Self     topology.Node
	// Incarnation is greater than that of earlier starts, or at least not equal to one.
	Incarnation uint64
	MaxBytes    int
	// Rings are the rings to read through to: all of them, or with static binding the own one.
	Rings topology.RingSet
	// Attempts bounds the tries for one miss, over all rings.
	Attempts int
	Broken   Faults
}

// DefaultCacheConfig returns the defaults for a cache of t.
func DefaultCacheConfig(t *topology.Topology, self topology.Node) CacheConfig {
	return CacheConfig{Topology: t, Self: self, Incarnation: 1, MaxBytes: 256 << 20, Rings: t.AllRings(), Attempts: 2 * len(t.Rings)}
}

// entryOverhead is what an entry costs beside its key and value, in bytes.
const entryOverhead = 190

// entry is one cached value; only stable ones are.
type entry struct {
	key   string
	rec   Record
	from  *source
	epoch uint64 // of the stream that brought it
	// next is the HLC of the version that came after it, or 0 while it is the newest: it is the newest one at or below
	// every HLC from its own up to there.
	next HLC
	prev *entry // the version before, which sessions may read at a cut
	used bool   // since it came
	// touchedAt is when it was last moved to the front.
	touchedAt int64
}

// newestUpTo reports whether no version at or below h came after this one.
func (e *entry) newestUpTo(h HLC) bool { return e.rec.Version.HLC <= h && (e.next == 0 || h < e.next) }

// flight is one read-through that is under way; whoever wants the same key joins it.
type flight struct {
	flightKey
	slot    topology.Slot
	id      uint64
	from    *source
	epoch   uint64
	waiters []waiter
	cut     HLC // it is for those that will read there as well
	early   int // waiters[:early] had asked before the request was sent
	tried   topology.RingSet
	tries   int
	dueAt   int64
}

type flightKey struct {
	key   string
	older bool
}

type waiter struct {
	to        topology.Node
	id        uint64
	cut, seen HLC // with Older
}

// Cache is the read-through cache of a DC, or one part of it (PROTOCOL §6).
//
// Invariant: an entry is served only while the stream that brought it lives and its lease, counted from before the
// middleman granted it, has not run out.
type Cache struct {
	outbox
	cfg     CacheConfig
	maps    mapping
	routes  *Routes
	lru     *simplelru.LRU[uint64, *entry]
	bytes   int
	flights map[flightKey]*flight
	byID    map[uint64]*flight
	order   []*flight
	nextID  uint64
	sources map[topology.Node]*source
	sorted  []*source
	stats   CacheStats

	cut        HLC      // the newest that is announced
	outdated   []uint64 // hashes of used entries that are not the newest, to be fetched for the next cut
	olderUntil int64    // sessions read at cuts
	reading    HLC      // the newest cut that was read at

	faultDrops []faultDrop
}

type faultDrop struct {
	hash uint64
	at   int64
}

// CacheStats counts since the start.
type CacheStats struct {
	Hits, Misses, Joined, Inserted, Invalidated, InFlight, Unavailable, Resets uint64
}

// NewCache makes an empty cache.
func NewCache(cfg CacheConfig) *Cache {
	maps := newMapping(cfg.Topology)
	cfg.Topology = maps.view
	c := &Cache{cfg: cfg, maps: maps, routes: NewRoutes(cfg.Topology, cfg.Self.DC), flights: map[flightKey]*flight{},
		byID: map[uint64]*flight{}, sources: map[topology.Node]*source{}}
	lru, err := simplelru.NewLRU(1<<40, func(_ uint64, e *entry) { c.bytes -= e.size() })
	if err != nil {
		panic(err) // only for a size that is not positive
	}
	c.lru = lru
	return c
}

func (e *entry) size() int {
	n := len(e.key) + e.rec.Value.Size() + entryOverhead
	if e.prev != nil {
		n += e.prev.size()
	}
	return n
}

func (e *entry) valid(now Now) bool { return e.epoch == e.from.epoch && now.Mono < e.from.leaseUntil }

// Step takes one message.
func (c *Cache) Step(now Now, m *Message) {
	if _, switched := c.maps.heard(m); switched {
		c.useMap()
	}
	switch m.Kind {
	case KindGet:
		c.get(now, m)
	case KindFillReply, KindLeaseGrant, KindInvalidate:
		c.onStream(now, m)
	case KindStreamReset:
		c.streamReset(now, m)
	case KindLatencies:
		c.routes.Update(m.Latencies)
	case KindCut:
		c.refresh(now, m.Cut)
	}
}

// get answers from memory or reads through.
func (c *Cache) get(now Now, m *Message) {
	e := c.lookup(now, topology.Hash(m.Key))
	w := waiter{m.From, m.ID, m.Cut, m.HLC}
	if m.Older {
		c.olderUntil, c.reading = now.Mono+olderWanted, max(c.reading, m.Cut)
	}
	if e = c.find(now, e, m); e != nil {
		c.stats.Hits++
		e.from.usedAt = now.Mono
		if !e.used {
			e.used = true
			c.toRefresh(topology.Hash(m.Key), e)
		}
		c.reply(w, Message{Record: e.rec, Status: Stable, Hit: true, Ring: topology.NoRing})
		return
	}
	if m.Cut != 0 && !m.Older {
		// PROTOCOL §9: a value above the cut is a miss, and no fill of today's value answers it.
		c.reply(w, Message{Err: ErrNotFound})
		return
	}
	c.stats.Misses++
	key := flightKey{m.Key, m.Older}
	if f := c.flights[key]; f != nil {
		c.stats.Joined++
		f.waiters = append(f.waiters, w)
		return
	}
	f := newFlight(key)
	f.waiters = append(f.waiters, w)
	c.depart(now, f)
}

func newFlight(k flightKey) *flight { return &flight{flightKey: k, slot: topology.SlotOf(k.key)} }

// depart sends a new flight.
func (c *Cache) depart(now Now, f *flight) {
	c.flights[f.flightKey] = f
	c.order = append(c.order, f)
	c.launch(now, f)
}

// touchEvery is how often a hit moves its entry to the front of those that are kept longest.
const touchEvery = int64(time.Second)

func (c *Cache) lookup(now Now, hash uint64) *entry {
	e, _ := c.lru.Peek(hash)
	if e != nil && now.Mono-e.touchedAt >= touchEvery {
		e.touchedAt = now.Mono
		c.lru.Get(hash)
	}
	return e
}

// find returns that of an entry and the one before which answers a get, or nil.
func (c *Cache) find(now Now, e *entry, m *Message) *entry {
	for ; e != nil; e = e.prev {
		if e.key == m.Key && e.valid(now) && c.serves(e, m) {
			return e
		}
	}
	return nil
}

// serves reports whether a valid entry answers a get.
func (c *Cache) serves(e *entry, m *Message) bool {
	switch {
	case m.Older && c.cfg.Broken.has(OlderUnchecked):
		return true
	case m.Older:
		return e.newestUpTo(max(m.Cut, m.HLC))
	case m.Cut != 0:
		return e.newestUpTo(m.Cut)
	}
	return e.next == 0
}

func (c *Cache) reply(w waiter, m Message) {
	m.Kind, m.From, m.To, m.ID = KindGetReply, c.cfg.Self, w.to, w.id
	c.send(m)
}

// launch sends a flight to the nearest ring that has not been tried, or to any once all have.
func (c *Cache) launch(now Now, f *flight) {
	delete(c.byID, f.id)
	if f.tries >= c.cfg.Attempts {
		c.stats.Unavailable++
		c.land(f, Message{Err: ErrUnavailable}, len(f.waiters))
		return
	}
	rings := c.cfg.Rings &^ f.tried
	if rings == 0 {
		f.tried, rings = 0, c.cfg.Rings
	}
	ring, _ := c.routes.Nearest(now, f.slot, rings)
	f.tried = f.tried.With(ring)
	f.tries++
	f.from = c.sourceOf(c.cfg.Topology.Owner(ring, f.slot))
	c.nextID++
	f.id, f.early = c.nextID, len(f.waiters)
	f.dueAt = now.Mono + int64(c.routes.Timeout(f.from.mm.DC))
	c.byID[f.id] = f
	c.ask(now, f)
}

// ask sends the request of a flight, if the stream is open; else it goes out when it opens.
func (c *Cache) ask(now Now, f *flight) {
	s := f.from
	s.usedAt = now.Mono
	if !c.ensureOpen(now, s) {
		f.epoch = 0
		return
	}
	f.epoch = s.epoch
	c.sendFill(f)
}

func (c *Cache) sendFill(f *flight) {
	m := Message{Kind: KindFill, From: c.cfg.Self, To: f.from.mm, ID: f.id, Key: f.key, Epoch: f.epoch, Older: f.older}
	if f.older {
		m.Cut = f.cut
		for _, w := range f.waiters[:f.early] {
			m.Cut, m.HLC = max(m.Cut, w.cut), max(m.HLC, w.seen)
		}
	}
	c.send(m)
}

// land answers the first n waiters of a flight, and ends it if these were all.
func (c *Cache) land(f *flight, m Message, n int) {
	for _, w := range f.waiters[:n] {
		c.reply(w, m)
	}
	f.waiters = f.waiters[n:]
	if len(f.waiters) == 0 {
		delete(c.flights, f.flightKey)
		delete(c.byID, f.id)
		f.id = 0
	}
}

// filled takes the answer to a flight.
func (c *Cache) filled(now Now, s *source, m *Message) {
	f := c.byID[m.ID]
	if f == nil || f.from != s || f.key != m.Key {
		return
	}
	if m.Err != OK {
		c.launch(now, f)
		return
	}
	answer := Message{Record: m.Record, Status: m.Status, Ring: m.Ring}
	fillable := m.Status == Stable || c.cfg.Broken.has(CacheInFlight)
	if fillable && now.Mono < s.leaseUntil {
		// The copy is registered, so nothing newer can have become complete before this arrived, but for what it is older
		// than: all who wait and have not seen that may have it.
		c.insert(now, f.key, m, s)
		n := len(f.waiters)
		if m.Cut != 0 && !c.cfg.Broken.has(OlderUnchecked) {
			n = f.sort(func(w waiter) bool { return max(w.cut, w.seen) < m.Cut })
		}
		c.landAndLaunch(now, f, answer, n)
		return
	}
	if m.Status == InFlight {
		c.stats.InFlight++
	}
	// Not registered: only those who asked before it was read may have it. A later one may have seen something newer.
	n := f.early
	if c.cfg.Broken.has(ShareInFlight) {
		n = len(f.waiters)
	}
	c.landAndLaunch(now, f, answer, n)
}

// landAndLaunch answers the first n waiters of a flight, and sends it again for the rest.
func (c *Cache) landAndLaunch(now Now, f *flight, m Message, n int) {
	c.land(f, m, n)
	if len(f.waiters) > 0 {
		f.tries, f.tried = 0, 0
		c.launch(now, f)
	}
}

// sort puts the waiters for which first holds before the others, and returns their number.
func (f *flight) sort(first func(waiter) bool) int {
	rest := slices.DeleteFunc(slices.Clone(f.waiters), first)
	f.waiters = append(slices.DeleteFunc(f.waiters, func(w waiter) bool { return !first(w) }), rest...)
	return len(f.waiters) - len(rest)
}

// insert keeps the answer to a fill.
func (c *Cache) insert(now Now, key string, m *Message, s *source) {
	e := &entry{key: key, rec: m.Record, from: s, epoch: s.epoch, next: m.Cut, touchedAt: now.Mono}
	hash := topology.Hash(key)
	head, _ := c.lru.Peek(hash)
	if head != nil {
		c.bytes -= head.size()
		if head.key != key {
			head = nil
		}
	}
	head = c.place(now, head, e)
	c.lru.Add(hash, head)
	c.bytes += head.size()
	c.toRefresh(hash, e)
	c.stats.Inserted++
	for c.bytes > c.cfg.MaxBytes && c.lru.Len() > 0 {
		c.lru.RemoveOldest()
	}
}

// Tick renews leases and sends flights that were not answered another way.
func (c *Cache) Tick(now Now) {
	c.maps.ask(now, c.cfg.Self, c.send)
	for _, s := range c.sorted {
		c.renew(now, s)
	}
	kept := c.order[:0]
	for _, f := range c.order {
		if f.id == 0 {
			continue
		}
		kept = append(kept, f)
		if now.Mono >= f.dueAt {
			c.routes.TimedOut(now, f.from.mm.DC)
			c.launch(now, f)
		}
	}
	clear(c.order[len(kept):])
	c.order = kept
	for len(c.faultDrops) > 0 && c.faultDrops[0].at <= now.Mono {
		c.lru.Remove(c.faultDrops[0].hash)
		c.faultDrops = c.faultDrops[1:]
	}
}

// Idle reports whether no read-through is under way; then Tick is not urgent.
func (c *Cache) Idle() bool { return len(c.byID) == 0 }

// Stats returns the counters.
func (c *Cache) Stats() CacheStats { return c.stats }

// Size returns the number of entries and the bytes they are accounted with.
func (c *Cache) Size() (entries, bytes int) { return c.lru.Len(), c.bytes }
