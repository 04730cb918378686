package sim

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/causalstore/causalstore/history"
	"github.com/causalstore/causalstore/sidecar/causal"
)

// homes draws deployments whose coordinators are the homes of the keys.
func homes(p *runPlan, rng *rand.Rand) {
	p.set.Level, p.set.Binding = causal.Local, causal.Dynamic
	p.shape.coordinators = intRange{1, 1 + rng.IntN(3)}
	p.shape.perRing, p.shape.rttMs = intRange{1, 2}, intRange{1, 20 + rng.IntN(100)}
	p.sidecars, p.sessions, p.processes = intRange{2, 4}, intRange{1, 2}, intRange{1, 2}
	p.keys, p.hotKeys, p.counters = 2+rng.IntN(6), 2, 1+rng.IntN(2)
	p.mix = operationMix{put: 15 + rng.IntN(25), del: rng.IntN(6), mget: rng.IntN(15), token: rng.IntN(4),
		update: 10 + rng.IntN(20), commit: 5}
	p.thinkTime, p.length = ms(2, 60, rng), ms(2000, 5000, rng)
	p.faultEvery = ms(50, 700, rng)
	p.faults = faultWeights{Crash: 4, CrashDirty: 3, CrashLate: 1, WriteCut: 3, Cut: 1, Congest: 2,
		SlowDisk: 2, Slow: 2,
		ClockJump: 2, CacheCut: 1}
	if p.set.KeepMs/7%3 == 0 { // it draws nothing, as lateAfter
		p.otherLevels = 25
	}
	switch rng.IntN(4) {
	case 0:
		p.shape.members = intRange{2, 3}
		p.faults[MemberCut], p.faults[CutRegister], p.length = 3, 1, ms(4000, 8000, rng)
	case 1: // foreign writes of the same keys are shown all the time
		p.set.Cache, p.keys, p.thinkTime = true, 1+rng.IntN(2), ms(2, 20, rng)
		p.faults = faultWeights{WriteCut: 4, Crash: 1, Congest: 1, ClockJump: 3}
	case 2: // the cut does not move
		p.faults = faultWeights{Isolate: 2, Cut: 4, WriteCut: 2, Crash: 1}
	case 3: // mostly new keys, which scans are to find
		if rng.IntN(2) == 0 {
			p.keys, p.mix.scan = 30+rng.IntN(100), 15+rng.IntN(20)
		} else { // several keys are put in one step
			p.mix.update, p.mix.commit = 10, 15
		}
	}
	if p.set.KeepMs%3 == 0 { // it draws nothing
		p.dropTombstones()
	}
}

// dropTombstones makes clients delete keys and counters often, and tombstones be dropped soon.
func (p *runPlan) dropTombstones() {
	p.set.KeepMs = 1 + p.set.KeepMs/6
	p.mix.del, p.deletePercent = p.mix.del+8, 40
}

// homeChanges draws deployments of which the number of homes changes.
func homeChanges(p *runPlan, rng *rand.Rand) {
	homes(p, rng)
	p.scaled, p.shape.coordinators = coordinatorCount, intRange{1, 3}
	p.scaleEvery, p.length = ms(100, 1500, rng), ms(4000, 10000, rng)
	p.thinkTime, p.faultEvery = ms(4, 60, rng), ms(150, 2000, rng)
	if rng.IntN(3) == 0 { // no operation waits for long because of a change alone
		p.faults, p.set.FaultsPerMillion, p.set.PutLossPercent = faultWeights{}, 0, 0
		p.set.OpTimeout, p.maxWait = 30*time.Second, 10*time.Second
	}
	if rng.IntN(3) == 0 { // homes give leases, which have to be over
		p.set.Cache, p.set.NearBytes, p.set.NearReads = true, 16<<10, 1+rng.IntN(2)
		p.keys, p.mix.put, p.mix.update, p.mix.commit = 3+rng.IntN(8), 1+rng.IntN(3), rng.IntN(3), rng.IntN(2)
		p.thinkTime, p.shape.rttMs = ms(2, 20, rng), intRange{1, 40}
	}
}

// checkDataCenters checks what level Local promises among the clients of a data center.
func (w *World) checkDataCenters(h history.History) (found []string) {
	violations, err := w.dataCenterViolations(h)
	if err != nil {
		return []string{err.Error()}
	}
	for _, v := range violations {
		found = append(found, v.String())
	}
	return found
}

// dataCenterViolations returns where a history breaks what level Local promises among the clients of a data center.
func (w *World) dataCenterViolations(h history.History) ([]history.Violation, error) {
	if w.settings.Level != causal.Local {
		return nil, nil
	}
	var local history.History
	for i := range h {
		if h[i].Level == causal.Local {
			local = append(local, h[i])
		}
	}
	report, err := history.CheckDataCenters(local,
		history.DataCenterOptions{MaxViolations: 3, KeyTime: 2 * time.Second})
	if err != nil {
		return nil, err
	}
	return slices.Concat(report.Visibility.Violations, report.Exact.Violations, report.OneStep.Violations), nil
}
