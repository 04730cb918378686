package sim

import (
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/shard"
	"github.com/causalstore/causalstore/topology"
)

// loseKeys makes the storage lack what it has in some ranges, and say so.
func (d *disk) loseKeys(missing causal.KeyRanges) {
	maps.DeleteFunc(d.records, func(key string, _ causal.Record) bool { return missing.Has(key) })
	if len(missing) > 0 {
		d.Loss, d.Missing = shard.LossPartial, missing
	}
}

// doubt makes the storage say that it has lost something, and that nothing tells what.
func (d *disk) doubt() { d.Loss, d.Missing = shard.LossFound, nil }

// acceptLoss makes the storage go on with what it has, because a person says so.
func (d *disk) acceptLoss() {
	if d.Loss != shard.LossPartial {
		d.Missing = causal.AllKeys()
	}
	d.Loss = shard.LossAccepted
}

// damageShards damages the storages of the shards of all rings that have some slot, at the same time: each lacks other
// keys, or one lacks nothing that another one lacks, and does not know that. What one ring lacks another one has, so
// nothing is to be lost.
func (c *faultInjector) damageShards(duration int64) {
	rng, slot := c.w.rng, topology.Slot(c.w.rng.IntN(topology.Slots))
	if slices.ContainsFunc(c.byPart[topology.Middleman], func(n *node) bool { return n.disk.Loss != shard.NoLoss }) {
		return // what one of them lacks, another one might have that would be damaged now
	}
	var nodes []*node
	for r := range topology.RingID(len(c.w.topo.Rings)) {
		n := c.w.nodes[c.w.topo.Owner(r, slot)]
		if n == nil || !c.canDamage(n) {
			return
		}
		nodes = append(nodes, n)
	}
	c.damages++
	rng.Shuffle(len(nodes), func(i, j int) { nodes[i], nodes[j] = nodes[j], nodes[i] })
	for _, n := range nodes {
		c.crashNode(n, DamagedTwice, rng.Int64N(duration))
	}
	switch rng.IntN(3) {
	case 0:
		c.damageDoubtful(nodes, duration)
	case 1:
		c.damageTheSame(nodes, duration)
	default:
		c.damageOthers(rng, nodes)
	}
}

// canDamage reports whether a shard has all data, and others rely on nothing that is under way.
func (c *faultInjector) canDamage(n *node) bool {
	ring := c.w.topo.RingOf(n.id.DC)
	return n.id.Member == 0 && !n.removed && n.isUp() && n.disk.Loss == shard.NoLoss && n.isServing() &&
		n.mover() == nil &&
		!c.w.topo.Resharding().Has(ring) && n.topo.Map(ring) == c.w.topo.Map(ring)
}

// damageOthers makes each shard lack other keys.
func (c *faultInjector) damageOthers(rng *rand.Rand, nodes []*node) {
	var bounds []string
	for range 2 * len(nodes) {
		bounds = append(bounds, c.anyKey())
	}
	slices.Sort(bounds)
	for i, n := range nodes {
		n.disk.loseKeys(causal.KeyRanges{}.With(causal.KeyRange{From: bounds[2*i],
			To: bounds[2*i+1] + "\x00"}).Without(c.lost(nodes[:i])))
	}
}

func (c *faultInjector) lost(nodes []*node) (all causal.KeyRanges) {
	for _, n := range nodes {
		for _, r := range n.disk.Missing {
			all = all.With(r)
		}
	}
	return all
}

// anyKey returns the name of a key.
func (c *faultInjector) anyKey() string {
	all := map[string]bool{"": true}
	for _, n := range c.byPart[topology.Middleman] {
		for key := range n.disk.records {
			all[key] = true
		}
	}
	keys := slices.Sorted(maps.Keys(all))
	return keys[c.w.rng.IntN(len(keys))]
}

// damageDoubtful makes the first shard doubt what it has, and the others lack everything. A person looks at them, and
// lets the first one go on.
func (c *faultInjector) damageDoubtful(nodes []*node, duration int64) {
	nodes[0].disk.doubt()
	for _, n := range nodes[1:] {
		if c.w.rng.IntN(2) == 0 {
			n.disk = newDisk()
		} else {
			n.disk.loseKeys(causal.AllKeys())
		}
	}
	c.afterDamage(nodes[0], duration, (*disk).acceptLoss)
}

// damageTheSame makes all shards lack the same. A person gives the first one the disk back that it had.
func (c *faultInjector) damageTheSame(nodes []*node, duration int64) {
	former := nodes[0].disk.content.copy()
	missing := causal.KeyRanges{}.With(causal.KeyRange{From: c.anyKey()})
	for _, n := range nodes {
		n.disk.loseKeys(missing)
	}
	c.afterDamage(nodes[0], duration, func(d *disk) { d.content = *former })
}

// afterDamage changes the disk of a shard after a while, if that still keeps what it has. A person sees to it also when
// no other fault happens. What was decided for this damage does not count for a later one of the same disk: there
// another shard may have what this one lacks.
func (c *faultInjector) afterDamage(n *node, duration int64, f func(*disk)) {
	was, damage := n.disk, c.damages
	c.w.schedule(int64(2*time.Second)+duration*3, func() {
		if c.damages != damage || n.disk != was || was.Loss != shard.LossFound && was.Loss != shard.LossPartial {
			return
		}
		if n.isUp() {
			if !n.hasWithdrawn() && !c.w.settings.Broken.Any() {
				return
			}
			c.w.crash(n)
			c.w.schedule(int64(100*time.Millisecond), func() { c.w.restart(n) })
		}
		f(was)
	})
}

// damage plans a run in which the shards of all rings are damaged together.
func damage(p *runPlan, rng *rand.Rand) {
	backfill(p, rng)
	p.faultEvery, p.scaleEvery = ms(200, 1200, rng), 0
	p.faults = faultWeights{DamagedTwice: 8, Crash: 2, CrashLate: 1, CrashDirty: 1, CrashStaged: 1, WriteCut: 2, Cut: 1,
		Slow: 2, SlowDisk: 1, CacheCut: 1}
}
