package sim

import (
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/topology"
)

// weights is how often each harm is chosen, relative to the others.
type weights [harmEnd]int

// chaos hurts the deployment at random moments until it is told to stop.
type chaos struct {
	w         *World
	every     time.Duration
	weights   weights
	total     int
	stopped   bool
	crashable []*node
	disks     []*node
	byPart    [topology.Cache + 1][]*node
}

func newChaos(w *World, every time.Duration, ws weights) *chaos {
	c := &chaos{w: w, every: every, weights: ws}
	for _, x := range ws {
		c.total += x
	}
	for _, n := range w.order {
		c.adopt(n)
	}
	return c
}

// adopt makes a node one that may be hurt.
func (c *chaos) adopt(n *node) {
	if n.id.Part != topology.Sidecar {
		c.crashable = append(c.crashable, n)
		c.byPart[n.id.Part] = append(c.byPart[n.id.Part], n)
		if n.disk != nil {
			c.disks = append(c.disks, n)
		}
	}
}

func (c *chaos) start() {
	if c.total > 0 && c.every > 0 {
		c.w.after(c.w.rng.Int64N(int64(c.every)), c.strike)
	}
}

// strike does one kind of harm, which undoes itself after a while.
func (c *chaos) strike() {
	if c.stopped {
		return
	}
	rng := c.w.rng
	while := int64(50*time.Millisecond) + rng.Int64N(int64(2*time.Second))
	pick := rng.IntN(c.total)
	for h, x := range c.weights {
		if pick -= x; pick < 0 {
			strikes[h](c, while)
			break
		}
	}
	c.w.after(1+rng.Int64N(int64(2*c.every)), c.strike)
}

// strikes are the harms by kind. Those of links happen to single messages: see network.
var strikes = [harmEnd]func(c *chaos, while int64){
	Isolate: (*chaos).isolate, Cut: (*chaos).cut, Congest: (*chaos).congest, Crash: (*chaos).crash, Slow: (*chaos).slow,
	SlowDisk: (*chaos).slowDisk, ClockJump: (*chaos).clockJump, CrashDirty: (*chaos).crashDirty,
	CrashLate: (*chaos).crashLate, CrashStaged: (*chaos).crashStaged, WriteCut: (*chaos).writeCut, CacheCut: (*chaos).cacheCut, CacheLag: (*chaos).cacheLag, LateGrant: (*chaos).lateGrant, CacheOblivious: (*chaos).cacheOblivious,
}

func (c *chaos) anyDC() topology.DC { return topology.DC(c.w.rng.IntN(len(c.w.topo.DCs))) }

func (c *chaos) anyOf(ns []*node) *node { return ns[c.w.rng.IntN(len(ns))] }

func (c *chaos) isolate(while int64) {
	w, dc := c.w, c.anyDC()
	w.harm(Isolate)
	w.net.isolate(dc, 1)
	c.later(while, func() { w.net.isolate(dc, -1) })
}

func (c *chaos) cut(while int64) {
	w, a, b := c.w, c.anyDC(), c.anyDC()
	if a == b {
		return
	}
	w.harm(Cut)
	w.net.cut(a, b, 1)
	c.later(while, func() { w.net.cut(a, b, -1) })
}

func (c *chaos) congest(while int64) {
	w, dc, ms := c.w, c.anyDC(), c.w.rng.Int64N(600)
	w.harm(Congest)
	w.net.congestionMs[dc] += ms
	c.later(while, func() { w.net.congestionMs[dc] -= ms })
}

func (c *chaos) crash(while int64) {
	if c.w.rng.IntN(3) == 0 {
		while = int64(20 * time.Millisecond)
	}
	c.crashNode(c.anyOf(c.crashable), Crash, while)
}

// crashNode stops n for a while; its clock may come back wrong.
func (c *chaos) crashNode(n *node, h Harm, while int64) {
	if !n.up() {
		return
	}
	c.w.harm(h)
	c.w.crash(n)
	if c.w.rng.IntN(3) == 0 {
		n.skewMs -= c.w.rng.Int64N(3000)
	}
	c.later(while, func() { c.w.restart(n) })
}

func (c *chaos) slow(while int64) {
	n := c.anyOf(c.w.order)
	c.w.harm(Slow)
	n.slow, n.slowTil = c.w.rng.Int64N(int64(400*time.Millisecond)), c.w.now+while
}

func (c *chaos) slowDisk(while int64) {
	c.w.harm(SlowDisk)
	c.slowDiskOf(c.anyOf(c.disks), while)
}

func (c *chaos) slowDiskOf(n *node, while int64) {
	n.disk.slow, n.disk.slowTil = c.w.rng.Int64N(int64(400*time.Millisecond)), c.w.now+while
}

func (c *chaos) clockJump(int64) {
	n := c.anyOf(c.w.order)
	c.w.harm(ClockJump)
	n.skewMs += c.w.rng.Int64N(4000) - 2000
}

// crashDirty stops a coordinator soon after its disk has become slow: puts are taken in that the log does not hold.
func (c *chaos) crashDirty(while int64) {
	n := c.anyOf(c.byPart[topology.Coordinator])
	c.slowDiskOf(n, int64(time.Second))
	c.later(1+c.w.rng.Int64N(int64(400*time.Millisecond)), func() { c.crashNode(n, CrashDirty, while/2) })
}

// crashLate restarts a coordinator at once, with a clock that stands before what it has published.
func (c *chaos) crashLate(int64) {
	n := c.anyOf(c.byPart[topology.Coordinator])
	n.skewMs -= 200 + c.w.rng.Int64N(1500)
	c.crashNode(n, CrashLate, int64(20*time.Millisecond))
}

// crashStaged restarts a middleman whose storage is slow, and cuts it off from a coordinator.
func (c *chaos) crashStaged(while int64) {
	mm, cc := c.anyOf(c.byPart[topology.Middleman]), c.anyWriter()
	mm.disk.slow, mm.disk.slowTil = int64(100*time.Millisecond), c.w.now+int64(time.Second)
	c.later(int64(50*time.Millisecond)+c.w.rng.Int64N(int64(300*time.Millisecond)), func() {
		for _, n := range c.byPart[topology.Coordinator] { // it hears the leader at once, and the others late
			if n == cc || cc.id.Index > 0 && n.id.DC == cc.id.DC && n.id.Index > 0 {
				c.cutPair(n, mm, while)
			}
		}
		c.crashNode(mm, CrashStaged, int64(time.Millisecond))
	})
}

// anyWriter draws a coordinator, more often than not one that has something under way.
func (c *chaos) anyWriter() *node {
	n := c.anyOf(c.byPart[topology.Coordinator])
	for range 3 {
		if m, ok := n.m.(*causal.Coordinator); ok {
			if writes, _ := m.Pending(); writes > 0 {
				break
			}
		}
		n = c.anyOf(c.byPart[topology.Coordinator])
	}
	return n
}

// cachePair draws a cache and a middleman, of the same DC more often than not, since there a cache mostly reads.
func (c *chaos) cachePair() (cache, mm *node, ok bool) {
	if len(c.byPart[topology.Cache]) == 0 {
		return nil, nil, false
	}
	cache, mm = c.anyOf(c.byPart[topology.Cache]), c.anyOf(c.byPart[topology.Middleman])
	for range 3 {
		if mm.id.DC != cache.id.DC {
			mm = c.anyOf(c.byPart[topology.Middleman])
		}
	}
	return cache, mm, true
}

func (c *chaos) cutPair(a, b *node, while int64) {
	c.w.net.cutPair(a.id, b.id, 1)
	c.later(while, func() { c.w.net.cutPair(a.id, b.id, -1) })
}

// writeCut keeps the puts of a coordinator from one shard: reads of other data centres get there before them.
func (c *chaos) writeCut(while int64) {
	c.w.harm(WriteCut)
	c.cutPair(c.anyOf(c.byPart[topology.Coordinator]), c.anyOf(c.byPart[topology.Middleman]), while)
}

func (c *chaos) cacheCut(while int64) {
	if cache, mm, ok := c.cachePair(); ok {
		c.w.harm(CacheCut)
		c.cutPair(cache, mm, while)
	}
}

// cacheLag delays the way to a cache, by less than a read waits.
func (c *chaos) cacheLag(while int64) {
	if cache, mm, ok := c.cachePair(); ok {
		c.w.harm(CacheLag)
		c.lagPair(cache, mm, int64(50*time.Millisecond)+c.w.rng.Int64N(int64(200*time.Millisecond)), while)
	}
}

func (c *chaos) lagPair(cache, mm *node, lag, while int64) {
	net, way := &c.w.net, pair{mm.id, cache.id}
	net.lag[way] += lag
	c.later(while, func() { net.lag[way] -= lag })
}

// lateGrant delays a lease grant by a good part of the lease and then cuts the way, so that it is the last one. The delay
// is short, so that few copies are gone when the way is cut.
func (c *chaos) lateGrant(int64) {
	cache, mm, ok := c.cachePair()
	if !ok {
		return
	}
	c.w.harm(LateGrant)
	lease := int64(c.w.set.Lease)
	while := lease/6 + c.w.rng.Int64N(lease/3)
	c.lagPair(cache, mm, lease/4+c.w.rng.Int64N(lease/2), while)
	c.later(while, func() { c.cutPair(cache, mm, 2*lease) })
}

// cacheOblivious restarts a middleman behind the back of a cache.
func (c *chaos) cacheOblivious(while int64) {
	cache, mm, ok := c.cachePair()
	if !ok {
		return
	}
	c.cutPair(cache, mm, while)
	c.later(c.w.rng.Int64N(int64(50*time.Millisecond)), func() {
		c.crashNode(mm, CacheOblivious, c.w.rng.Int64N(int64(50*time.Millisecond)))
	})
}

// later goes on with a harm, or ends it, unless all has been healed by then.
func (c *chaos) later(after int64, f func()) {
	c.w.after(after, func() {
		if !c.stopped {
			f()
		}
	})
}

// heal ends all harm at once.
func (c *chaos) heal() {
	c.stopped = true
	c.w.net.heal()
	for _, n := range c.w.order {
		c.w.restart(n)
		n.slowTil = 0
		if n.disk != nil {
			n.disk.slowTil = 0
		}
	}
}

// quiescent reports whether every accepted write is complete.
func (w *World) quiescent() bool {
	for _, n := range w.order {
		if c, ok := n.m.(*causal.Coordinator); ok && !c.Drained() {
			return false
		}
	}
	return true
}
