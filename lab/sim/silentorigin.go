package sim

import (
	"math/rand/v2"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// silenceOrigins stops all coordinators of a data center for seconds, after they could not reach some of the middlemen:
// some of their writes are in some rings only. Others adopt these.
func (c *faultInjector) silenceOrigins(duration int64) {
	dc := c.anyDC()
	cut := int64(200*time.Millisecond) + c.w.rng.Int64N(int64(400*time.Millisecond))
	silent := int64(2500*time.Millisecond) + 2*duration
	for _, n := range c.byPart[topology.Coordinator] {
		if n.id.DC != dc {
			continue
		}
		for _, mm := range c.byPart[topology.Middleman] {
			if c.w.rng.IntN(2) == 0 {
				c.cutPair(n, mm, cut)
			}
		}
		c.later(c.w.rng.Int64N(cut), func() { c.crashNode(n, Silence, silent) })
	}
}

// silentOrigins plans a run in which the writes of silent origins are adopted.
func silentOrigins(p *runPlan, rng *rand.Rand) {
	p.shape.rings, p.shape.perRing, p.shape.rttMs = intRange{2, 3}, intRange{1, 3}, intRange{1, 10 + rng.IntN(80)}
	p.shape.shards, p.shape.coordinators, p.sessions = intRange{1, 2}, intRange{1, 2}, intRange{2, 3}
	p.set.Binding, p.set.LateAfter = causal.Dynamic, lateAfter(&p.set)
	p.keys, p.hotKeys = 3+rng.IntN(20), 3
	p.thinkTime, p.length = ms(5, 60, rng), ms(6000, 14000, rng)
	p.mix = operationMix{put: 15 + rng.IntN(35), del: rng.IntN(8), mget: rng.IntN(20), token: rng.IntN(6)}
	p.faultEvery = ms(300, 1500, rng)
	p.faults = faultWeights{Silence: 6, WriteCut: 4, Crash: 2, CrashStaged: 3, CrashUnheard: 1, RingLag: 2, CacheCut: 1,
		Cut: 1, Isolate: 1, Slow: 1, SlowDisk: 1}
	if rng.IntN(3) == 0 {
		p.faults = faultWeights{Silence: 3, WriteCut: 3, RingLag: 2}
	}
	if rng.IntN(4) == 0 {
		p.faults[ShardLost] = 2
	}
}
