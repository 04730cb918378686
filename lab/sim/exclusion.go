package sim

import (
	"math/rand/v2"
	"slices"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// excludeDC excludes a data center: of which all servers have stopped, or only some, or that others cannot reach, or
// not all of them; or with which nothing is wrong. It comes back later, with its disks as they were. Nodes hear of the
// exclusion at different times, some of them late.
func (c *faultInjector) excludeDC(duration int64) {
	w, rng, dc := c.w, c.w.rng, c.anyDC()
	if len(w.topo.Rings) == 1 || c.scaler.inProgress || w.topo.Resharding() != 0 || c.scaler.divided != nil {
		return
	}
	if len(c.scaler.withheld) == 0 && rng.IntN(4) == 0 {
		c.divide(duration)
		return
	}
	w.countFault(Exclude)
	away := 2 * duration
	switch rng.IntN(5) {
	case 0:
		for _, n := range c.crashable {
			if n.id.DC == dc && !n.removed {
				c.crashNode(n, Crash, away)
			}
		}
	case 1:
		w.net.isolate(dc, 1)
		c.later(away, func() { w.net.isolate(dc, -1) })
	case 2: // its shards go on serving the sidecars everywhere
		for _, n := range c.byPart[topology.Coordinator] {
			for _, mm := range c.byPart[topology.Middleman] {
				if mm.id.DC == dc {
					c.cutPair(n, mm, away)
				}
			}
		}
	case 3: // others do not reach it, but for one data center
		friend := c.anyDC()
		for other := range w.topo.DCs {
			if other := topology.DC(other); other != dc && other != friend {
				w.net.cut(dc, other, 1)
				c.later(away, func() { w.net.cut(dc, other, -1) })
			}
		}
	}
	if rng.IntN(3) == 0 { // some node hears of it late
		n := c.anyOf(c.crashable)
		c.scaler.withheld = []*node{n}
		c.later(rng.Int64N(away), func() {
			c.scaler.withheld = nil
			c.scaler.deliver(n)
		})
	}
	c.later(rng.Int64N(duration), func() {
		if w.topo.Resharding() == 0 && !c.scaler.inProgress && c.scaler.divided == nil {
			c.scaler.exclude(dc)
		}
	})
}

// exclude delivers a topology in which a data center was excluded once more.
func (r *scaler) exclude(dc topology.DC) {
	dcs := slices.Clone(r.w.topo.DCs)
	dcs[dc].Exclusions++
	r.propagate(dcs)
}

// exclusions plans a run in which data centers are excluded.
func exclusions(p *runPlan, rng *rand.Rand) {
	p.shape.rings, p.shape.perRing, p.shape.rttMs = intRange{2, 3}, intRange{1, 2}, intRange{1, 10 + rng.IntN(80)}
	p.shape.shards, p.shape.coordinators = intRange{1, 2}, intRange{1, 2}
	p.shape.nearbyAcrossRings = rng.IntN(2) == 0
	p.sessions, p.processes = intRange{1, 2}, intRange{1, 4}
	p.set.Binding, p.set.Cache, p.set.ExclusionDelay = causal.Dynamic, rng.IntN(4) > 0, ms(0, 400, rng)
	p.keys, p.thinkTime, p.length = 3+rng.IntN(20), ms(3, 40, rng), ms(5000, 11000, rng)
	p.hotKeys = 1 + rng.IntN(p.keys)
	if p.set.Cache && p.keys < 8 {
		p.set.NearBytes, p.set.NearReads = 16<<10, 1
	}
	p.mix = operationMix{put: 15 + rng.IntN(35), del: rng.IntN(15), mget: rng.IntN(12), token: rng.IntN(8)}
	p.set.KeepMs = int64(1 + rng.IntN(600))
	p.faultEvery = ms(400, 2000, rng)
	p.faults = faultWeights{Exclude: 6, Crash: 2, CrashLate: 1, CrashStaged: 1, WriteCut: 2, Cut: 1, Isolate: 1,
		Slow: 1, CacheCut: 1, Silence: 1, LeaderCut: 1}
}
