package sim

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal/group"
	"github.com/causalstore/causalstore/sidecar/causal/process"
	"github.com/causalstore/causalstore/topology"
)

// loseMembers makes all members of a shard of the first ring come back without logs, mostly without storages too, and
// somebody gives the shard up if it does not start over by itself. Perhaps one of them is away meanwhile, or gets the
// disk back later that it had before.
func (c *faultInjector) loseMembers(duration int64) {
	n := c.anyOf(c.byPart[topology.Middleman])
	ring := c.w.topo.RingOf(n.id.DC)
	if ring != 0 || n.id.Member == 0 || !n.isUp() || c.w.topo.Resharding().Has(ring) {
		return
	}
	rng := c.w.rng
	if !c.w.givesUp {
		c.w.givesUp = true
		c.acceptLostShards()
	}
	all := c.membersOf(n)
	away := -1
	if rng.IntN(4) == 0 {
		away = rng.IntN(len(all))
	}
	for i, m := range all {
		former := m.disk
		if i == away {
			c.crashNode(m, MembersLost, int64(14*time.Second)+rng.Int64N(int64(4*time.Second)))
			continue
		}
		c.crashNode(m, MembersLost, rng.Int64N(duration))
		if rng.IntN(3) == 0 {
			m.disk.loseLog()
			continue
		}
		if m.disk = newDisk(); rng.IntN(3) == 0 {
			c.later(int64(time.Second)+rng.Int64N(int64(12*time.Second)), func() {
				c.crashNode(m, VolumeReturned, rng.Int64N(duration))
				m.disk = former
			})
		}
	}
}

// acceptLostShards gives up every shard that can be given up, again and again. A person sees to it that a member that
// is absent is off.
func (c *faultInjector) acceptLostShards() {
	for _, n := range c.shardMembers {
		m, ok := n.m.(*process.Member)
		if !ok || c.w.topo.RingOf(n.id.DC) != 0 {
			continue
		}
		s := m.Status()
		isOff := func(name string) bool {
			return !slices.ContainsFunc(c.membersOf(n), func(o *node) bool {
				return strconv.Itoa(int(o.id.Member)) == name && o.isUp()
			})
		}
		if s.WhyNotGivenUp == nil && s.Role != group.Serving && !slices.ContainsFunc(s.Absent, func(name string) bool {
			return !isOff(name)
		}) {
			if err := m.AcceptLoss(c.w.clock(n)); err != nil {
				panic(err) // it said that it can be given up
			}
			c.w.flush(n)
		}
	}
	c.w.schedule(int64(500*time.Millisecond), c.acceptLostShards)
}

// lostShards plans a run in which all members of shards are lost.
func lostShards(p *runPlan, rng *rand.Rand) {
	backfill(p, rng)
	p.shape.shards, p.shape.shardMembers, p.set.ShardRegister = intRange{1, 2}, intRange{1, 3}, true
	p.length, p.scaleEvery = ms(6000, 24000, rng), 0
	p.faultEvery = ms(400, 3000, rng)
	p.set.RetainBytes = 1 << rng.IntN(14)
	p.faults = faultWeights{MembersLost: 6, Crash: 3, CrashStaged: 1, WriteCut: 2, MemberCut: 1, Slow: 1, SlowDisk: 1,
		CacheCut: 1}
}
