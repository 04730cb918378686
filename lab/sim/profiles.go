package sim

import (
	"math/rand/v2"

	"github.com/causalstore/causalstore/sidecar/causal"
)

// What each profile draws beside what all have in common, in the order of their list.

func cacheHeavy(p *runPlan, rng *rand.Rand) {
	p.set.Cache, p.set.Binding = true, causal.Dynamic
	p.set.Lease = ms(300, 800+1000*rng.IntN(3), rng)
	p.shape.rttMs = intRange{1, 20 + rng.IntN(60)}
	p.shape.caches = intRange{1, 1}
	p.shape.perRing = intRange{1, 1 + rng.IntN(2)}
	p.keys = 2 + rng.IntN(12)
	p.mix = operationMix{put: 5 + rng.IntN(25), del: rng.IntN(6), mget: rng.IntN(4), token: rng.IntN(12)}
	p.thinkTime = ms(3, 40, rng)
	p.sessions = intRange{1, 3}
	p.faultEvery = ms(100, 700, rng)
	p.faults = faultWeights{CacheCut: 4, CacheLag: 4, CacheOblivious: 4, LateGrant: 1, Crash: 1, Slow: 1, Cut: 1}
	p.set.LateAfter = lateAfter(&p.set)
	if p.set.MaxDeps%3 == 0 { // it draws nothing
		p.set.MaxCopies = 1 + p.set.MaxDeps/3%3
	}
}

func nearCopies(p *runPlan, rng *rand.Rand) {
	cacheHeavy(p, rng)
	p.set.NearBytes, p.set.NearReads = 16<<10, 1+rng.IntN(2)
	p.keys, p.thinkTime = 2+rng.IntN(6), ms(2, 25, rng)
	p.shape.caches = intRange{1, 1 + rng.IntN(2)}
	p.sessions, p.processes = intRange{1, 3}, intRange{1, 3}
	p.faults = faultWeights{CacheCut: 2, CacheLag: 3, NearCut: 4, NearLag: 5, NearGrant: 2, CacheRestart: 2,
		CacheOblivious: 2, LateGrant: 2, Crash: 1, Cut: 1}
	switch rng.IntN(4) {
	case 0:
		p.set.CacheBytes = 300 + rng.IntN(600) // so that caches evict all the time
	case 1:
		p.scaleEvery, p.scaled, p.shape.caches = ms(20, 300, rng), cacheCount, intRange{1, 3}
	}
}

func leases(p *runPlan, rng *rand.Rand) {
	cacheHeavy(p, rng)
	p.set.Lease = ms(300, 700, rng)
	p.faultEvery = ms(100, 500, rng)
	p.faults = faultWeights{LateGrant: 8, CacheCut: 1, Slow: 1, Crash: 1}
}

func crashHeavy(p *runPlan, rng *rand.Rand) {
	p.faultEvery = ms(50, 500, rng)
	p.faults = faultWeights{CrashDirty: 4, Crash: 4, SlowDisk: 2, ClockJump: 1}
	p.mix = operationMix{put: 30 + rng.IntN(40), del: rng.IntN(10), mget: rng.IntN(10), token: rng.IntN(4)}
}

func transactions(p *runPlan, rng *rand.Rand) {
	p.mix = operationMix{put: 20 + rng.IntN(30), del: rng.IntN(5), mget: 30 + rng.IntN(20), token: rng.IntN(4)}
	p.keys, p.thinkTime = 2+rng.IntN(4), ms(2, 40, rng)
	p.set.KeepMs = int64(20 + rng.IntN(800))
	p.sessions = intRange{1, 3}
	p.set.LateAfter = lateAfter(&p.set)
}

func deletes(p *runPlan, rng *rand.Rand) {
	p.mix = operationMix{put: 20 + rng.IntN(30), del: 15 + rng.IntN(25), mget: rng.IntN(10), token: rng.IntN(4)}
	p.keys = 1 + rng.IntN(4)
	p.set.KeepMs = int64(1 + rng.IntN(300))
	p.set.FaultsPerMillion = 2000
	p.faultEvery = ms(50, 400, rng)
	p.faults = faultWeights{Crash: 1, Congest: 2, Slow: 8, Cut: 1, SlowDisk: 1}
}

func expiry(p *runPlan, rng *rand.Rand) {
	deletes(p, rng)
	p.expiringPercent, p.set.ExpiredMs = 50+rng.IntN(50), int64(1+rng.IntN(400))
	switch rng.IntN(3) {
	case 0:
		p.shape.shardMembers, p.set.ShardRegister, p.faults[MemberWipe] = intRange{2, 3}, true, 3
	case 1:
		p.scaleEvery = ms(300, 2000, rng)
	}
}

func migrations(p *runPlan, rng *rand.Rand) {
	p.mix = operationMix{put: 15 + rng.IntN(30), del: rng.IntN(5), mget: rng.IntN(10), token: 5 + rng.IntN(25)}
	p.sessions, p.processes = intRange{1, 2}, intRange{2, 5}
	p.shape.perRing, p.shape.rttMs, p.shape.nearbyAcrossRings = intRange{1 + rng.IntN(2), 2}, intRange{20, 150},
		rng.IntN(2) == 0
	p.thinkTime = ms(2, 60, rng)
	p.faults[Congest], p.faults[Crash] = 3, 1
}

func overlap(p *runPlan, rng *rand.Rand) {
	p.shape.rings, p.shape.perRing = intRange{2, 3}, intRange{2, 2}
	p.shape.rttMs, p.shape.nearbyAcrossRings = intRange{60, 200}, true
	p.set.Cache, p.set.Binding = rng.IntN(3) == 0, causal.Dynamic
	p.keys, p.hotKeys = 4+rng.IntN(8), 4
	p.sessions, p.processes = intRange{1, 1}, intRange{3, 6}
	p.mix = operationMix{put: 4 + rng.IntN(16)}
	p.thinkTime = ms(5, 150, rng)
	p.faultEvery, p.length = ms(50, 400, rng), ms(2000, 4000, rng)
	p.faults = faultWeights{WriteCut: 1}
}

func restarts(p *runPlan, rng *rand.Rand) {
	overlap(p, rng)
	p.shape.shards = intRange{1, 3}
	if rng.IntN(2) == 0 {
		p.sessions, p.shape.coordinators = intRange{2, 2}, intRange{2, 3}
	}
	p.faults = faultWeights{WriteCut: 2, CrashStaged: 3}
}

func gaps(p *runPlan, rng *rand.Rand) {
	overlap(p, rng)
	p.shape.rings, p.shape.perRing, p.shape.shards = intRange{2, 2}, intRange{2, 3}, intRange{1, 2}
	p.shape.rttMs = intRange{5, 20 + rng.IntN(80)}
	p.keys, p.hotKeys = 3+rng.IntN(5), 3
	p.thinkTime = ms(2, 30, rng)
	p.mix = operationMix{put: 10 + rng.IntN(30), mget: 10 + rng.IntN(30)}
	p.faultEvery, p.length = ms(30, 150, rng), ms(3000, 6000, rng)
	p.faults = faultWeights{WriteCut: 3, RingLag: 5}
	if rng.IntN(2) == 0 {
		p.shape.perRing, p.faults = intRange{2, 2}, faultWeights{WriteCut: 1, CrashUnheard: 9}
	}
}

func clocks(p *runPlan, rng *rand.Rand) {
	p.mix = operationMix{put: 10 + rng.IntN(30), del: rng.IntN(10), mget: rng.IntN(10), token: rng.IntN(4)}
	p.thinkTime = ms(50, 600, rng)
	p.faultEvery = ms(50, 400, rng)
	p.faults = faultWeights{CrashLate: 6, ClockJump: 3, Crash: 1, Cut: 1, ForgedPut: 1}
}

func partitions(p *runPlan, rng *rand.Rand) {
	p.shape.rings = intRange{2, 4}
	p.faultEvery = ms(30, 300, rng)
	p.faults = faultWeights{Isolate: 2, Cut: 6, Congest: 3, Crash: 1}
	p.mix.token = rng.IntN(15)
}

func relays(p *runPlan, rng *rand.Rand) {
	p.shape.rings, p.shape.perRing, p.shape.rttMs = intRange{2, 3}, intRange{1, 2}, intRange{1, 10 + rng.IntN(100)}
	p.set.Binding = causal.Dynamic
	p.keys, p.thinkTime, p.length = 2+rng.IntN(4), ms(3, 60, rng), ms(4000, 8000, rng)
	p.mix = operationMix{put: 15 + rng.IntN(35), del: rng.IntN(8), mget: rng.IntN(15), token: rng.IntN(4)}
	p.faultEvery = ms(50, 400, rng)
	p.faults = faultWeights{LeaderCut: 3, ForgedVectors: 5, WriteCut: 3, Congest: 1, Crash: 1, CrashLate: 1,
		ClockJump: 1}
	if rng.IntN(3) == 0 {
		p.scaleEvery, p.scaled, p.shape.coordinators = ms(100, 800, rng), coordinatorCount, intRange{1, 3}
	}
}

func distances(p *runPlan, rng *rand.Rand) {
	p.set.Cache, p.set.Binding = rng.IntN(3) == 0, causal.Dynamic
	p.shape.rings, p.shape.perRing, p.shape.rttMs = intRange{2, 3}, intRange{2, 3}, intRange{1, 400}
	p.keys = 4 + rng.IntN(6)
	p.hotKeys = p.keys
	p.sessions, p.processes = intRange{1, 1}, intRange{4, 7}
	p.thinkTime, p.length = ms(2, 30, rng), ms(1500, 3500, rng)
	p.mix = operationMix{put: 15 + rng.IntN(20), mget: rng.IntN(5), token: rng.IntN(2)}
	p.faultEvery, p.faults = ms(100, 500, rng), faultWeights{Congest: 4, Cut: 3}
}

func silences(p *runPlan, rng *rand.Rand) {
	p.set.QuietAfter = ms(10, 100, rng)
	p.set.Binding = causal.Dynamic
	p.keys, p.hotKeys = 1+rng.IntN(3), 1
	p.thinkTime = ms(50, 400, rng)
	p.mix = operationMix{put: 20 + rng.IntN(20), mget: rng.IntN(10)}
	p.length = ms(4000, 10000, rng)
	p.faultEvery = ms(500, 3000, rng)
}

func scans(p *runPlan, rng *rand.Rand) {
	if rng.IntN(2) == 0 {
		distances(p, rng)
	} else {
		restarts(p, rng)
	}
	p.keys = 20 + rng.IntN(100) // that are mostly written once: a scan cannot miss a key that storage has held for long
	p.hotKeys = p.keys
	p.mix = operationMix{put: 20 + rng.IntN(20), token: rng.IntN(3), scan: 20 + rng.IntN(30)}
	if rng.IntN(5) == 0 {
		p.scaleEvery = ms(200, 1000, rng)
	}
}

func karma(p *runPlan, rng *rand.Rand) {
	n := 1 + rng.IntN(7)
	p.set.WithoutRingSets, p.set.WithoutSVLifting, p.set.DepsByID = n&1 > 0, n&2 > 0, n&4 > 0
	p.mix.put = 20 + rng.IntN(30)
	p.sessions, p.processes = intRange{1, 3}, intRange{1, 3}
}

func returns(p *runPlan, rng *rand.Rand) {
	p.scaleEvery, p.length = ms(500, 1500, rng), ms(8000, 12000, rng)
	p.keys = 30 + rng.IntN(30)
	p.hotKeys, p.thinkTime = p.keys, ms(30, 60, rng)
	p.mix = operationMix{put: 8, del: 30}
	p.sessions, p.processes = intRange{1, 1}, intRange{1, 2}
	p.faultEvery, p.faults = ms(1000, 3000, rng), faultWeights{Crash: 1}
	p.shape.rttMs, p.shape.caches = intRange{1, 20}, intRange{1, 1}
	p.set.KeepMs, p.set.Lease = 1, ms(300, 600, rng)
}

func resharding(p *runPlan, rng *rand.Rand) {
	p.scaleEvery = ms(50, 800, rng)
	p.keys = 4 + rng.IntN(24)
	p.hotKeys = 2 + rng.IntN(p.keys-1)
	p.thinkTime, p.length = ms(3, 60, rng), ms(3000, 8000, rng)
	p.mix = operationMix{put: 5 + rng.IntN(45), del: rng.IntN(20), mget: rng.IntN(15), token: rng.IntN(6)}
	p.sessions, p.processes = intRange{1, 2}, intRange{1, 3}
	p.shape.rttMs, p.shape.caches = intRange{1, 20 + rng.IntN(100)}, intRange{1, 1 + rng.IntN(3)}
	p.set.KeepMs = int64(1 + rng.IntN(600))
	p.set.Lease = ms(600, 1800, rng)
	if rng.IntN(4) == 0 { // long copies with many deletes, from middlemen that crash
		p.scaleEvery, p.length = ms(2000, 5000, rng), ms(6000, 12000, rng)
		p.keys, p.hotKeys, p.thinkTime = 40, 40, ms(20, 60, rng)
		p.mix, p.set.KeepMs = operationMix{put: 30, del: 30}, 1
		p.faultEvery, p.faults = ms(200, 600, rng), faultWeights{Crash: 4}
		return
	}
	if rng.IntN(3) == 0 {
		p.faultEvery = ms(100, 800, rng)
		p.faults = faultWeights{Crash: 3, WriteCut: 2, CacheCut: 2, Slow: 2, SlowDisk: 2, Cut: 1, CrashStaged: 1,
			CacheOblivious: 1}
	}
}

func cacheScaling(p *runPlan, rng *rand.Rand) {
	cacheHeavy(p, rng)
	p.scaleEvery, p.scaled = ms(20, 300, rng), cacheCount
	p.shape.caches = intRange{1, 3}
	if p.set.Level == causal.Snapshot && rng.IntN(2) > 0 {
		p.set.Level = causal.Latest
	}
	p.thinkTime = ms(2, 15, rng)
	if rng.IntN(3) > 0 {
		p.faultEvery = 0
	}
}

func coordinatorScaling(p *runPlan, rng *rand.Rand) {
	p.shape.rings, p.shape.perRing = intRange{2, 2}, intRange{1, 1 + rng.IntN(2)}
	p.shape.rttMs = intRange{1, 10 + rng.IntN(60)}
	p.keys, p.thinkTime, p.length = 2+rng.IntN(8), ms(2, 40, rng), ms(2000, 6000, rng)
	p.mix = operationMix{put: 25 + rng.IntN(45), del: rng.IntN(8), mget: rng.IntN(10), token: rng.IntN(6)}
	p.processes = intRange{1, 3}
	p.scaleEvery, p.faultEvery = ms(20, 600, rng), ms(40, 500, rng)
	p.faults = faultWeights{CrashLate: 3, Crash: 3, CrashDirty: 2, ClockJump: 3, WriteCut: 3, CrashStaged: 3, Slow: 4,
		Cut: 1, Isolate: 1}
	switch rng.IntN(6) {
	case 0: // so little load that sessions do not advance the coordinators' clocks
		p.thinkTime, p.length = ms(100, 900, rng), ms(4000, 9000, rng)
	case 1, 2: // messages are late and duplicated while the numbers change fast
		p.set.FaultsPerMillion, p.scaleEvery = 250<<rng.IntN(4), ms(10, 50, rng)
		p.faultEvery, p.faults = ms(100, 400, rng), faultWeights{WriteCut: 6, Congest: 1}
		p.keys, p.thinkTime, p.length = 2+rng.IntN(4), ms(2, 15, rng), ms(5000, 8000, rng)
		p.shape.perRing = intRange{1, 1}
	case 3: // leaving coordinators are partitioned from middlemen that lack their writes
		p.scaleEvery, p.faultEvery, p.faults = ms(20, 100, rng), ms(30, 150, rng),
			faultWeights{WriteCut: 6, Isolate: 1, Cut: 1}
	case 4:
		restarts(p, rng)
	}
	p.sessions, p.shape.coordinators = intRange{2, 4}, intRange{2, 3}
	p.scaled = coordinatorCount
}

func returningCoordinators(p *runPlan, rng *rand.Rand) {
	coordinatorScaling(p, rng)
	p.shape.members, p.shape.coordinators, p.sessions = intRange{1, 2}, intRange{2, 3}, intRange{2, 3}
	p.scaleEvery, p.faultEvery, p.length = ms(20, 300, rng), ms(200, 2000, rng), ms(8000, 16000, rng)
	p.faults = faultWeights{Crash: 4, CrashLate: 2, CutRegister: 3, MemberCut: 3, WriteCut: 3, SlowDisk: 1, Cut: 1}
}

func emptyDisks(p *runPlan, rng *rand.Rand) {
	p.shape.rings, p.shape.perRing, p.shape.rttMs = intRange{2, 3}, intRange{1, 2}, intRange{1, 10 + rng.IntN(60)}
	p.shape.shards, p.shape.coordinators, p.sessions = intRange{1, 2}, intRange{1, 3}, intRange{2, 3}
	// the cut does not move on without the log of every leader
	p.set.Binding, p.set.Level = causal.Dynamic, causal.Latest
	p.thinkTime, p.mix.mget = ms(3, 60, rng), 0
	p.faultEvery = ms(200, 900, rng)
	p.faults = faultWeights{EmptyDisk: 4, Crash: 2, WriteCut: 1, CacheCut: 1, Cut: 1, Slow: 1}
}

func backfill(p *runPlan, rng *rand.Rand) {
	p.shape.rings, p.shape.perRing, p.shape.rttMs = intRange{2, 3}, intRange{1, 2}, intRange{1, 10 + rng.IntN(80)}
	p.shape.shards, p.shape.coordinators = intRange{1, 3}, intRange{1, 2}
	p.sessions, p.processes, p.set.Binding = intRange{1, 2}, intRange{1, 4}, causal.Dynamic
	p.keys, p.thinkTime, p.length = 3+rng.IntN(60), ms(3, 40, rng), ms(4000, 9000, rng)
	p.hotKeys = 1 + rng.IntN(p.keys)
	p.mix = operationMix{put: 15 + rng.IntN(30), del: rng.IntN(25), mget: rng.IntN(10), token: rng.IntN(6)}
	p.set.KeepMs = int64(1 + rng.IntN(600))
	p.faultEvery = ms(100, 700, rng)
	p.faults = faultWeights{ShardLost: 14, Crash: 1, CrashLate: 2, CrashDirty: 1, CrashStaged: 1, WriteCut: 2, Cut: 1,
		Slow: 2, SlowDisk: 1, Congest: 1, CacheCut: 1}
	if rng.IntN(3) == 0 {
		p.scaleEvery = ms(300, 1500, rng)
	}
}

func members(p *runPlan, rng *rand.Rand) {
	p.shape.rings, p.shape.perRing, p.shape.rttMs = intRange{2, 2}, intRange{1, 2}, intRange{1, 10 + rng.IntN(60)}
	p.shape.members, p.shape.coordinators, p.shape.shards = intRange{2, 3}, intRange{1, 2}, intRange{1, 2}
	p.keys, p.thinkTime, p.length = 2+rng.IntN(6), ms(3, 60, rng), ms(5000, 12000, rng)
	p.mix = operationMix{put: 25 + rng.IntN(40), del: rng.IntN(8), mget: rng.IntN(10), token: rng.IntN(4)}
	p.faultEvery = ms(300, 2500, rng)
	p.faults = faultWeights{MemberCut: 5, Crash: 4, CrashDirty: 2, CrashLate: 3, CutRegister: 2, MemberWipe: 4,
		FullLog:  2,
		SlowDisk: 2, ClockJump: 2, WriteCut: 2, CrashStaged: 2, Cut: 1}
}

func shards(p *runPlan, rng *rand.Rand) {
	members(p, rng)
	p.shape.shardMembers, p.set.ShardRegister = intRange{1, 3}, rng.IntN(2) == 0
	if rng.IntN(4) > 0 {
		p.shape.shardMembers = intRange{2, 3}
	}
	p.shape.members, p.shape.coordinators = intRange{1, 1 + rng.IntN(3)}, intRange{1, 1 + rng.IntN(2)}
	p.keys, p.length = 2+rng.IntN(16), ms(4000, 9000, rng)
	p.mix.del, p.mix.token = rng.IntN(20), rng.IntN(10)
	p.set.KeepMs, p.set.Lease = int64(1+rng.IntN(800)), ms(300, 1800, rng)
	p.set.RetainBytes, p.set.MaxFrameBytes = 1<<rng.IntN(14), 100<<rng.IntN(8)
	p.faults = faultWeights{MemberCut: 5, Crash: 5, MemberWipe: 6, CutRegister: 2, SlowDisk: 2, HungStorage: 3,
		FullStorage: 2, GoneStorage: 2, LossFound: 2, FullLog: 2,
		CrashStaged: 3, CrashUnheard: 1,
		CacheCut: 1, CacheOblivious: 1, RingLag: 1, WriteCut: 2, CrashDirty: 1, CrashLate: 1, ClockJump: 1,
		Slow: 1, Cut: 1}
	switch rng.IntN(5) {
	case 0, 1: // storages that lag behind their logs, on members that stop
		p.shape.shardMembers, p.set.ShardRegister, p.shape.perRing = intRange{2, 3}, true, intRange{1, 1}
		p.thinkTime, p.faultEvery, p.mix.del = ms(2, 20, rng), ms(100, 800, rng), 10+rng.IntN(20)
		p.faults = faultWeights{Crash: 2, CrashApplying: 5, LeaveApplying: 3, MemberWipe: 3, MemberCut: 1,
			HungStorage: 1, FullStorage: 1, GoneStorage: 1, LossFound: 1}
	case 2:
		p.scaleEvery = ms(300, 2000, rng)
		p.set.Lease = ms(600, 1800, rng)
	case 3:
		p.scaleEvery, p.scaled, p.shape.caches = ms(100, 800, rng), cacheCount, intRange{1, 3}
		p.set.Cache = true
	}
}

func failovers(p *runPlan, rng *rand.Rand) {
	p.shape.rings, p.shape.perRing, p.shape.rttMs = intRange{1, 2}, intRange{1, 2}, intRange{1, 10 + rng.IntN(40)}
	p.shape.coordinators = intRange{1, 1 + rng.IntN(2)}
	p.set.FaultsPerMillion = 250 << rng.IntN(5)
	p.keys, p.hotKeys, p.thinkTime, p.length = 1+rng.IntN(4), 1, ms(5, 60, rng), ms(3000, 7000, rng)
	p.mix = operationMix{put: 30 + rng.IntN(40), del: rng.IntN(6), mget: rng.IntN(6)}
	p.sessions, p.processes = intRange{1, 3}, intRange{1, 3}
	p.faultEvery = ms(200, 1000, rng)
	p.faults = faultWeights{CrashUnanswered: 5, CrashDirty: 3, CrashLate: 2, Crash: 1, SlowDisk: 1}
}

func lostAnswers(p *runPlan, rng *rand.Rand) {
	failovers(p, rng)
	p.set.PutLossPercent = 1 + rng.IntN(30)
	p.sessions, p.processes = intRange{1, 3}, intRange{1, 5}
	p.length = ms(5000, 9000, rng)
	p.faultEvery = ms(300, 3000, rng)
	p.faults = faultWeights{SlowDisk: 6, CrashDirty: 2, CrashLate: 1, Crash: 1, ClockJump: 1}
}

func contention(p *runPlan, rng *rand.Rand) {
	p.faultEvery, p.set.FaultsPerMillion = 0, 500
	p.keys, p.hotKeys = 1+rng.IntN(3), 1
	p.sessions, p.processes = intRange{2, 4}, intRange{1, 3}
	p.thinkTime, p.length = ms(1, 15, rng), ms(500, 1500, rng)
	p.mix = operationMix{put: 20 + rng.IntN(50), del: rng.IntN(15), mget: rng.IntN(25), token: rng.IntN(8)}
}

// tallyProfiles are the profiles of which tallies takes the situations: all but those that are about something else
// than values of keys, and exclusions, at whose end a person gives up all that one side has.
var tallyProfiles = []func(*runPlan, *rand.Rand){func(*runPlan, *rand.Rand) {}, cacheHeavy, nearCopies, leases,
	crashHeavy, transactions, deletes, migrations,
	overlap, restarts, clocks, partitions, relays, distances, silences, karma, resharding, returns, cacheScaling,
	coordinatorScaling,
	returningCoordinators, emptyDisks, silentOrigins, gaps, scans, failovers, lostAnswers, contention, members, shards,
	backfill, lostShards, lostTallies}

// tallyOften are those in which values that merge differ most from registers.
var tallyOften = []func(*runPlan, *rand.Rand){cacheHeavy, nearCopies, transactions, gaps, backfill, resharding,
	lostShards, lostTallies}

// lostTallies plans a run in which logs are given up. Values only grow, since nothing is deleted: there are many keys,
// and they are written slowly.
func lostTallies(p *runPlan, rng *rand.Rand) {
	lostLogs(p, rng)
	p.keys, p.hotKeys, p.thinkTime = 30+rng.IntN(70), 100, ms(20, 80, rng)
}

func tallies(p *runPlan, rng *rand.Rand) {
	adjust := tallyProfiles[rng.IntN(len(tallyProfiles))]
	if rng.IntN(2) == 0 {
		adjust = tallyOften[rng.IntN(len(tallyOften))]
	}
	adjust(p, rng)
	p.set.Tallies, p.tallies = true, 1+rng.IntN(p.keys)
	if rng.IntN(2) == 0 {
		p.mix.del = 0 // then no delete can explain that a read lacks an increment
	}
}
