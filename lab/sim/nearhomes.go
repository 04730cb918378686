package sim

import "math/rand/v2"

// nearHomes draws deployments with homes whose sidecars keep near copies. Homes give leases on keys that were not
// written for half a second, so there are several keys, and few writes.
func nearHomes(p *runPlan, rng *rand.Rand) {
	homes(p, rng)
	p.set.Cache, p.set.NearBytes, p.set.NearReads = true, 16<<10, 1+rng.IntN(2)
	p.sidecars, p.sessions, p.processes = intRange{2, 3}, intRange{1, 1}, intRange{1, 2}
	p.keys, p.hotKeys, p.counters = 3+rng.IntN(8), 1, 1
	p.mix = operationMix{put: 1 + rng.IntN(3), del: rng.IntN(2), mget: rng.IntN(4), update: rng.IntN(3),
		commit: rng.IntN(2)}
	p.thinkTime, p.length = ms(2, 20, rng), ms(3000, 8000, rng)
	switch rng.IntN(3) {
	case 0:
		p.faults[NearLag], p.faults[NearCut], p.faults[HomeCut], p.faults[HomeGrant] = 1, 1, 4, 3
	case 1: // writes are complete, and forgotten, soon
		p.shape.rttMs, p.faultEvery = intRange{1, 10}, ms(100, 500, rng)
		p.faults = faultWeights{HomeCut: 3, HomeGrant: 3, Crash: 1}
	case 2:
		p.shape.rttMs, p.faultEvery = intRange{1, 40}, ms(100, 400, rng)
		p.faults = faultWeights{HomeCut: 3, Crash: 3, CrashDirty: 2, NearCut: 1, WriteCut: 1}
	}
}
