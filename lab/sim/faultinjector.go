package sim

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/member"
	"github.com/causalstore/causalstore/sidecar/causal/process"
	"github.com/causalstore/causalstore/sidecar/causal/shard"
	"github.com/causalstore/causalstore/topology"
)

// faultWeights is the relative frequency of each fault.
type faultWeights [injectedFaultEnd]int

// faultInjector injects faults at random times until heal is called.
type faultInjector struct {
	w         *World
	every     time.Duration
	weights   faultWeights
	total     int
	stopped   bool
	crashable []*node
	disks     []*node
	byPart    [topology.Cache + 1][]*node
	// shardMembers are the processes of shards that have a register.
	shardMembers []*node
	scaler       *scaler
	copies       map[*node]*content // of storages of middlemen, from earlier
	logLost      bool               // a leader has lost its log; one is enough
	damages      int                // how often the shards of all rings were damaged
}

func newFaultInjector(w *World, every time.Duration, ws faultWeights) *faultInjector {
	c := &faultInjector{w: w, every: every, weights: ws, copies: map[*node]*content{}}
	for _, x := range ws {
		c.total += x
	}
	for _, n := range w.order {
		c.addTarget(n)
	}
	return c
}

// addTarget makes a node a target of faults.
func (c *faultInjector) addTarget(n *node) {
	if n.id.Part != topology.Sidecar {
		c.crashable = append(c.crashable, n)
		c.byPart[n.id.Part] = append(c.byPart[n.id.Part], n)
		if n.id.Part == topology.Middleman && n.id.Member != 0 {
			c.shardMembers = append(c.shardMembers, n)
		}
		if n.disk != nil {
			c.disks = append(c.disks, n)
		}
	}
}

func (c *faultInjector) start() {
	if c.total > 0 && c.every > 0 {
		c.w.schedule(c.w.rng.Int64N(int64(c.every)), c.injectNext)
	}
}

// injectNext injects one fault, which ends by itself, and schedules the next.
func (c *faultInjector) injectNext() {
	if c.stopped {
		return
	}
	rng := c.w.rng
	duration := int64(50*time.Millisecond) + rng.Int64N(int64(2*time.Second))
	pick := rng.IntN(c.total)
	for h, x := range c.weights {
		if pick -= x; pick < 0 {
			injections[h](c, duration)
			break
		}
	}
	c.w.schedule(1+rng.Int64N(int64(2*c.every)), c.injectNext)
}

// injections holds the functions that inject each fault. Link faults affect single messages: see network.
var injections = [injectedFaultEnd]func(c *faultInjector, duration int64){
	Isolate: (*faultInjector).isolate, Cut: (*faultInjector).cut, Congest: (*faultInjector).congest,
	Crash: (*faultInjector).crash, Slow: (*faultInjector).slow,
	SlowDisk: (*faultInjector).slowDisk, ClockJump: (*faultInjector).clockJump, CrashDirty: (*faultInjector).crashDirty,
	CrashLate: (*faultInjector).crashLate, CrashStaged: (*faultInjector).crashStaged,
	WriteCut: (*faultInjector).writeCut, CacheCut: (*faultInjector).cacheCut, CacheLag: (*faultInjector).cacheLag,
	LateGrant: (*faultInjector).lateGrant, CacheOblivious: (*faultInjector).cacheOblivious,
	EmptyDisk: (*faultInjector).emptyDisk,
	ForgedPut: (*faultInjector).forgePut,
	RingLag:   (*faultInjector).ringLag, CrashUnheard: (*faultInjector).crashUnheard,
	LeaderCut: (*faultInjector).leaderCut, ForgedVectors: (*faultInjector).forgeVectors,
	CutRegister: (*faultInjector).cutRegister, MemberCut: (*faultInjector).cutMember,
	MemberWipe:      (*faultInjector).wipeMember,
	CrashUnanswered: (*faultInjector).crashUnanswered, HungStorage: (*faultInjector).hangStorage,
	CrashApplying: (*faultInjector).crashApplying,
	LeaveApplying: (*faultInjector).leaveApplying, LogGivenUp: (*faultInjector).giveUpLog,
	ShardLost: (*faultInjector).loseShard, OldStorage: (*faultInjector).rollBack,
	Silence: (*faultInjector).silenceOrigins, MembersLost: (*faultInjector).loseMembers,
	NearCut: (*faultInjector).nearCut, NearLag: (*faultInjector).nearLag, NearGrant: (*faultInjector).nearGrant,
	CacheRestart: (*faultInjector).restartCache,
	Exclude:      (*faultInjector).excludeDC, DamagedTwice: (*faultInjector).damageShards,
	FullStorage: (*faultInjector).fillStorage, GoneStorage: (*faultInjector).refuseStorage,
	LossFound: (*faultInjector).findLoss, FullLog: (*faultInjector).fillLog,
	HomeCut: (*faultInjector).homeCut, HomeGrant: (*faultInjector).homeGrant,
}

func (c *faultInjector) anyDC() topology.DC { return topology.DC(c.w.rng.IntN(len(c.w.topo.DCs))) }

func (c *faultInjector) anyOf(ns []*node) *node { return ns[c.w.rng.IntN(len(ns))] }

func (c *faultInjector) isolate(duration int64) {
	w, dc := c.w, c.anyDC()
	w.countFault(Isolate)
	w.net.isolate(dc, 1)
	c.later(duration, func() { w.net.isolate(dc, -1) })
}

func (c *faultInjector) cut(duration int64) {
	w, a, b := c.w, c.anyDC(), c.anyDC()
	if a == b {
		return
	}
	w.countFault(Cut)
	w.net.cut(a, b, 1)
	c.later(duration, func() { w.net.cut(a, b, -1) })
}

func (c *faultInjector) congest(duration int64) {
	w, dc, ms := c.w, c.anyDC(), c.w.rng.Int64N(600)
	w.countFault(Congest)
	w.net.congestionMs[dc] += ms
	c.later(duration, func() { w.net.congestionMs[dc] -= ms })
}

func (c *faultInjector) crash(duration int64) {
	if c.w.rng.IntN(3) == 0 {
		duration = int64(20 * time.Millisecond)
	}
	c.crashNode(c.anyOf(c.crashable), Crash, duration)
}

// crashNode crashes n and restarts it after a duration, possibly with its clock behind.
func (c *faultInjector) crashNode(n *node, h InjectedFault, duration int64) {
	if !n.isUp() {
		return
	}
	c.w.countFault(h)
	if c.logLost && n.id.Part == topology.Middleman {
		c.w.lostWrites = true // what it had of the lost log's writes, nobody sends it again
	}
	c.w.crash(n)
	if c.w.rng.IntN(3) == 0 {
		n.skewMs -= c.w.rng.Int64N(3000)
	}
	c.later(duration, func() { c.w.restart(n) })
}

func (c *faultInjector) slow(duration int64) {
	n := c.anyOf(c.w.order)
	c.w.countFault(Slow)
	n.slowBy, n.slowUntil = c.w.rng.Int64N(int64(400*time.Millisecond)), c.w.now+duration
}

func (c *faultInjector) slowDisk(duration int64) {
	c.w.countFault(SlowDisk)
	c.slowDiskOf(c.anyOf(c.disks), duration)
}

func (c *faultInjector) slowDiskOf(n *node, duration int64) {
	n.disk.slowBy, n.disk.slowUntil = c.w.rng.Int64N(int64(400*time.Millisecond)), c.w.now+duration
}

func (c *faultInjector) clockJump(int64) {
	n := c.anyOf(c.w.order)
	c.w.countFault(ClockJump)
	n.skewMs += c.w.rng.Int64N(4000) - 2000
}

// crashDirty crashes a coordinator soon after its disk has become slow: it has accepted puts that its log does not
// hold.
func (c *faultInjector) crashDirty(duration int64) {
	n := c.anyOf(c.byPart[topology.Coordinator])
	c.slowDiskOf(n, int64(time.Second))
	c.later(1+c.w.rng.Int64N(int64(400*time.Millisecond)), func() { c.crashNode(n, CrashDirty, duration/2) })
}

// crashLate restarts a coordinator at once, with its clock behind the timestamps that it has published.
func (c *faultInjector) crashLate(int64) {
	n := c.anyOf(c.byPart[topology.Coordinator])
	n.skewMs -= 200 + c.w.rng.Int64N(1500)
	c.crashNode(n, CrashLate, int64(20*time.Millisecond))
}

// crashUnanswered restarts a coordinator whose answers to the sidecars of its data center were lost for a while: some
// of the puts are complete by then.
func (c *faultInjector) crashUnanswered(duration int64) {
	n := c.anyOf(c.byPart[topology.Coordinator])
	for _, s := range c.w.order {
		if s.id.Part == topology.Sidecar && s.id.DC == n.id.DC {
			answers := pair{n.id, s.id}
			c.w.net.pairCuts[answers]++
			c.later(duration+int64(10*time.Millisecond), func() { c.w.net.pairCuts[answers]-- })
		}
	}
	c.later(duration, func() { c.crashNode(n, CrashUnanswered, int64(20*time.Millisecond)) })
}

// crashStaged restarts a middleman whose storage is slow, and partitions it from a coordinator.
func (c *faultInjector) crashStaged(duration int64) {
	mm, cc := c.anyOf(c.byPart[topology.Middleman]), c.anyWriter()
	mm.disk.slowBy, mm.disk.slowUntil = int64(100*time.Millisecond), c.w.now+int64(time.Second)
	c.later(int64(50*time.Millisecond)+c.w.rng.Int64N(int64(300*time.Millisecond)), func() {
		for _, n := range c.byPart[topology.Coordinator] { // it reaches the leader at once, and the others late
			if n == cc || cc.id.Index > 0 && n.id.DC == cc.id.DC && n.id.Index > 0 {
				c.cutPair(n, mm, duration)
			}
		}
		c.crashNode(mm, CrashStaged, int64(time.Millisecond))
	})
}

// crashUnheard restarts a middleman that another one of its ring has not heard of for a while, and that receives its
// puts late.
func (c *faultInjector) crashUnheard(duration int64) {
	mm, other := c.anyOf(c.byPart[topology.Middleman]), c.anyOf(c.byPart[topology.Middleman])
	if mm == other || c.w.topo.RingOf(mm.id.DC) != c.w.topo.RingOf(other.id.DC) {
		return
	}
	toOther := pair{mm.id, other.id}
	c.w.net.pairCuts[toOther]++
	c.later(int64(50*time.Millisecond)+c.w.rng.Int64N(int64(400*time.Millisecond)), func() {
		c.w.net.pairCuts[toOther]--
		for _, n := range c.byPart[topology.Coordinator] {
			c.cutPair(n, mm, duration)
		}
		c.crashNode(mm, CrashUnheard, int64(time.Millisecond))
	})
}

// anyWriter draws a coordinator, preferably one with incomplete writes.
func (c *faultInjector) anyWriter() *node {
	n := c.anyOf(c.byPart[topology.Coordinator])
	for range 3 {
		if m := n.coordinator(); m != nil {
			if writes, _ := m.Pending(); writes > 0 {
				break
			}
		}
		n = c.anyOf(c.byPart[topology.Coordinator])
	}
	return n
}

// cachePair draws a cache and a middleman, preferably of the same data center, which is where a cache mostly reads.
func (c *faultInjector) cachePair() (cache, mm *node, ok bool) {
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

func (c *faultInjector) cutPair(a, b *node, duration int64) {
	c.w.net.cutPair(a.id, b.id, 1)
	c.later(duration, func() { c.w.net.cutPair(a.id, b.id, -1) })
}

// writeCut partitions a coordinator from one shard, so that reads of other data centers arrive there before its puts.
func (c *faultInjector) writeCut(duration int64) {
	c.w.countFault(WriteCut)
	c.cutPair(c.anyOf(c.byPart[topology.Coordinator]), c.anyOf(c.byPart[topology.Middleman]), duration)
}

func (c *faultInjector) cacheCut(duration int64) {
	if cache, mm, ok := c.cachePair(); ok {
		c.w.countFault(CacheCut)
		c.cutPair(cache, mm, duration)
	}
}

// cacheLag delays messages to a cache, by less than a read waits.
func (c *faultInjector) cacheLag(duration int64) {
	if cache, mm, ok := c.cachePair(); ok {
		c.w.countFault(CacheLag)
		c.lagPair(mm, cache, int64(50*time.Millisecond)+c.w.rng.Int64N(int64(200*time.Millisecond)), duration)
	}
}

// ringLag delays what a middleman is told by the others of its ring.
func (c *faultInjector) ringLag(duration int64) {
	to := c.anyOf(c.byPart[topology.Middleman])
	lag := int64(50*time.Millisecond) + c.w.rng.Int64N(int64(500*time.Millisecond))
	c.w.countFault(RingLag)
	for _, from := range c.byPart[topology.Middleman] {
		if from != to && c.w.topo.RingOf(from.id.DC) == c.w.topo.RingOf(to.id.DC) {
			c.lagPair(from, to, lag, duration)
		}
	}
}

func (c *faultInjector) lagPair(from, to *node, lag, duration int64) {
	net, link := &c.w.net, pair{from.id, to.id}
	net.lag[link] += lag
	c.later(duration, func() { net.lag[link] -= lag })
}

// lateGrant delays a lease grant by a quarter of the lease or more and then partitions the cache, so that the grant is
// the last one. The delay ends soon, so that few copies have been invalidated by then.
func (c *faultInjector) lateGrant(int64) {
	cache, mm, ok := c.cachePair()
	if !ok {
		return
	}
	c.w.countFault(LateGrant)
	lease := int64(c.w.settings.Lease)
	duration := lease/6 + c.w.rng.Int64N(lease/3)
	c.lagPair(mm, cache, lease/4+c.w.rng.Int64N(lease/2), duration)
	c.later(duration, func() { c.cutPair(cache, mm, 2*lease) })
}

// cacheOblivious restarts a middleman while a cache cannot learn of it.
func (c *faultInjector) cacheOblivious(duration int64) {
	cache, mm, ok := c.cachePair()
	if !ok {
		return
	}
	c.cutPair(cache, mm, duration)
	c.later(c.w.rng.Int64N(int64(50*time.Millisecond)), func() {
		c.crashNode(mm, CacheOblivious, c.w.rng.Int64N(int64(50*time.Millisecond)))
	})
}

// emptyDisk replaces the disk of a node: of a middleman of the first ring, so that the others have the data, or of one
// leader.
func (c *faultInjector) emptyDisk(duration int64) {
	n := c.anyOf(c.byPart[topology.Middleman])
	if c.w.rng.IntN(3) == 0 && !c.logLost {
		n = c.w.nodes[c.w.topo.Leader(c.anyOf(c.byPart[topology.Coordinator]).id.DC)]
	}
	switch m := n.m.(type) {
	case *member.Coordinator:
		if !c.w.hasTrace(n.id) {
			return
		}
		c.logLost, c.w.lostWrites = true, !m.Serving().IsDrained()
	case *process.Shard:
		if c.w.topo.RingOf(n.id.DC) != 0 {
			return
		}
	default:
		return
	}
	c.crashNode(n, EmptyDisk, duration)
	n.disk = newDisk()
}

// loseShard takes the data of a middleman of the first ring, so that the others have them: all, or some, and the
// middleman has noticed. Before, the puts of one coordinator reach this ring only, or this shard and other rings, and
// acknowledgements are late. Not during a resharding of the ring.
func (c *faultInjector) loseShard(duration int64) {
	n, coordinator := c.anyOf(c.byPart[topology.Middleman]), c.anyOf(c.byPart[topology.Coordinator])
	if !c.canLose(n) {
		return
	}
	rng := c.w.rng
	within := rng.IntN(3) == 0 // the ring; else everywhere else
	for _, other := range c.byPart[topology.Middleman] {
		if other != n && within == (c.w.topo.RingOf(other.id.DC) == 0) {
			c.cutPair(coordinator, other, duration+rng.Int64N(int64(3*time.Second)))
		}
	}
	if rng.IntN(2) == 0 {
		c.lagPair(n, coordinator, int64(300*time.Millisecond)+rng.Int64N(int64(3*time.Second)),
			int64(300*time.Millisecond))
	}
	c.w.schedule(rng.Int64N(int64(300*time.Millisecond)), func() {
		if c.stopped || !c.canLose(n) {
			return
		}
		c.crashNode(n, ShardLost, duration/16)
		if rng.IntN(3) == 0 {
			c.cutPair(coordinator, n, duration)
		}
		if rng.IntN(3) > 0 {
			n.disk = newDisk()
			return
		}
		n.disk.Loss = shard.LossFound
		for _, key := range slices.Sorted(maps.Keys(n.disk.records)) {
			if rng.IntN(2) == 0 {
				delete(n.disk.records, key)
			}
		}
	})
}

func (c *faultInjector) canLose(n *node) bool {
	ring := c.w.topo.RingOf(n.id.DC)
	return ring == 0 && n.id.Member == 0 && !n.removed && n.isUp() && n.mover() == nil &&
		!c.w.topo.Resharding().Has(ring) &&
		n.topo.Map(ring) == c.w.topo.Map(ring)
}

// hasTrace reports whether a middleman knows that a first coordinator has been in use. Before, the loss of its log
// cannot be noticed.
func (w *World) hasTrace(coordinator topology.Node) bool {
	o := w.topo.OriginOf(coordinator)
	return slices.ContainsFunc(w.order, func(n *node) bool {
		if s := n.shard(); s != nil && s.Serving() != nil && s.Serving().Known().SV(o) > 0 {
			return true
		}
		return n.id.Part == topology.Middleman && n.disk.hasWritesOf(o)
	})
}

// forgePut delivers a put dated years ahead to a middleman, in the name of some coordinator.
func (c *faultInjector) forgePut(int64) {
	mm, cc := c.anyOf(c.byPart[topology.Middleman]), c.anyOf(c.byPart[topology.Coordinator])
	for i := range 100 {
		if key := fmt.Sprintf("forged%d", i); c.w.topo.Owner(c.w.topo.RingOf(mm.id.DC),
			topology.SlotOf(key)) == mm.id.Group() {
			c.w.countFault(ForgedPut)
			c.w.forgePut(mm, cc.id, key, "forged", 30*365*24*time.Hour)
			return
		}
	}
}

// forgePut delivers a put to a middleman, dated ahead of its clock, as if a coordinator had sent it.
func (w *World) forgePut(mm *node, from topology.Node, key, value string, ahead time.Duration) {
	hlc := causal.HLCAt(w.clock(mm).WallMs + ahead.Milliseconds())
	m := causal.PutAfter{Key: key, Map: w.topo.Map(w.topo.RingOf(mm.id.DC)), Previous: hlc - 1,
		Record: causal.Record{Version: causal.Version{HLC: hlc, Origin: w.topo.OriginOf(from)},
			Value: causal.Value{Data: []byte(value)}}}.Message(from, mm.id)
	w.net.deliverAt(w.now, &m, mm)
}

// later runs f after a delay, unless all faults have been healed by then.
func (c *faultInjector) later(after int64, f func()) {
	c.w.schedule(after, func() {
		if !c.stopped {
			f()
		}
	})
}

// heal ends all faults at once and injects no more.
func (c *faultInjector) heal() {
	c.stopped = true
	if c.scaler != nil {
		c.scaler.withheld = nil
	}
	c.w.net.heal()
	for _, n := range c.w.order {
		c.w.restart(n)
		n.slowUntil, n.registerCutTill = 0, 0
		if n.disk != nil {
			n.disk.slowUntil, n.disk.hungUntil, n.disk.lagUntil, n.disk.fullUntil, n.disk.brokenUntil = 0, 0, 0, 0, 0
			n.disk.logFullUntil, n.disk.logNearlyFullUntil = 0, 0
		}
	}
}

// isQuiescent reports whether every accepted write is complete.
func (w *World) isQuiescent() bool {
	if !w.hasServers() {
		return false
	}
	for _, n := range w.order {
		if c := n.coordinator(); c != nil && !c.IsDrained() {
			return false
		}
	}
	return true
}
