package sim

import (
	"math/rand/v2"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal/shard"
	"github.com/causalstore/causalstore/topology"
)

// rollBack brings a middleman of the first ring, so that the others have the data, back with its storage as it was
// earlier. It copies the storage before: while the middleman runs, or while it is down. Now and then the same copy
// comes back more than once, or just before the middleman has heard from a coordinator.
func (c *faultInjector) rollBack(duration int64) {
	n, coordinator := c.anyOf(c.byPart[topology.Middleman]), c.anyOf(c.byPart[topology.Coordinator])
	if !c.canLose(n) || n.disk.Loss != shard.NoLoss {
		return
	}
	rng := c.w.rng
	copied := c.copies[n]
	if copied == nil || copied.State != n.disk.State || rng.IntN(4) == 0 {
		if rng.IntN(2) == 0 {
			c.crashNode(n, Crash, duration/16)
		}
		c.copies[n] = n.disk.content.copy()
		return
	}
	c.crashNode(n, OldStorage, duration/16)
	n.disk.content = *copied.copy()
	if rng.IntN(2) == 0 {
		c.lagPair(coordinator, n, rng.Int64N(int64(time.Second)), duration)
	}
	if rng.IntN(3) == 0 {
		c.later(duration/16+rng.Int64N(int64(100*time.Millisecond)), func() {
			if c.canLose(n) {
				c.crashNode(n, Crash, duration/16)
			}
		})
	}
}

// oldStorages plans a run in which storages come back as they were earlier.
func oldStorages(p *runPlan, rng *rand.Rand) {
	backfill(p, rng)
	p.scaleEvery = 0
	p.shape.shards = intRange{1, 2}
	p.length, p.faultEvery = ms(5000, 10000, rng), ms(100, 500, rng)
	p.faults = faultWeights{OldStorage: 24, Crash: 1, CrashLate: 1, CrashStaged: 1, WriteCut: 1, Slow: 1, SlowDisk: 1,
		Congest: 1, CacheCut: 1}
}
