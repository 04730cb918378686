package sim

import "math/rand/v2"

// nearHomes draws deployments with homes whose sidecars keep near copies.
func nearHomes(p *runPlan, rng *rand.Rand) {
	homes(p, rng)
	p.set.Cache, p.set.NearBytes, p.set.NearReads = true, 16<<10, 1+rng.IntN(2)
	p.keys, p.hotKeys, p.sidecars = 1+rng.IntN(3), 1, intRange{2, 3}
	p.mix.put, p.mix.del, p.mix.mget, p.mix.scan = 1+rng.IntN(8), rng.IntN(2), rng.IntN(4), 0
	p.mix.update, p.mix.commit, p.thinkTime = rng.IntN(6), rng.IntN(2), ms(1, 12, rng)
	p.faults[NearLag], p.faults[NearCut], p.faults[HomeCut], p.faults[HomeGrant] = 1, 1, 4, 3
	if rng.IntN(3) == 0 { // writes are complete, and forgotten, soon
		p.faults = faultWeights{HomeCut: 3, HomeGrant: 3, Crash: 2}
	}
}
