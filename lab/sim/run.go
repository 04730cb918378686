package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/causalstore/causalstore/history"
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/session"
	"github.com/causalstore/causalstore/topology"
)

// Outcome is the result of one seed.
type Outcome struct {
	Profile    string
	Seed       uint64
	Ops, Steps int
	Messages   uint64
	Faults     FaultCounts
	Members    MemberCounts
	// Violations lists what the checker found in the history, and what no history shows: rings that diverge, operations
	// that never finish.
	Violations []string
	History    history.History
	Report     history.Report
}

// Run runs one seed of a profile: it draws a deployment, clients and faults, runs them, waits for convergence and
// checks the history.
func Run(p Profile, seed uint64, broken causal.Mutations, checker *history.Checker) Outcome {
	return runWith(p, seed, broken, checker, func(*World) {})
}

// runWith runs one seed in a world that prepare has changed.
func runWith(p Profile, seed uint64, broken causal.Mutations, checker *history.Checker, prepare func(*World)) Outcome {
	if p.run != nil {
		return p.run(seed, broken)
	}
	rng := rand.New(rand.NewPCG(seed, 1))
	pl := p.draw(rng)
	pl.set.Seed, pl.set.Broken = seed, broken
	w := NewWorld(pl.shape.draw(rng), pl.set)
	prepare(w)
	wl, c := pl.start(w, rng)
	w.Run(pl.length, nil)
	o := Outcome{Profile: p.Name, Seed: seed}
	o.Violations = append(wl.convergeAndCheck(c), wl.resolveMissing()...)
	o.Violations = append(o.Violations, wl.waits...)
	o.History, o.Ops, o.Faults, o.Members, o.Steps, o.Messages = wl.history, len(wl.history), w.faults, w.members,
		w.steps, w.net.sent
	o.Report = checker.Check(w.withoutLost(wl.history), history.Options{MaxViolations: 3})
	o.Violations = slices.Concat(o.Violations, w.refused, w.unreadable, w.claims.found, w.checkDataCenters(wl.history))
	for _, v := range o.Report.Violations {
		o.Violations = append(o.Violations, v.String())
	}
	return o
}

// start starts what a run does in a world: clients, faults, and changes of scale.
func (pl *runPlan) start(w *World, rng *rand.Rand) (*workload, *faultInjector) {
	wl := &workload{world: w, pending: map[uint64]*client{}, issuing: true, thinkTime: pl.thinkTime, mix: pl.mix,
		hotKeys: pl.hotKeys, tallies: pl.tallies, deletePercent: pl.deletePercent,
		expiringPercent: pl.expiringPercent,
		otherLevels:     pl.otherLevels}
	for i := range pl.counters {
		wl.counters = append(wl.counters, fmt.Sprintf("n%d", i))
	}
	for i := range pl.keys {
		wl.keys = append(wl.keys, fmt.Sprintf("k%d", i))
	}
	wl.addClients(rng, pl)
	c := newFaultInjector(w, pl.faultEvery, pl.faults)
	c.start()
	if pl.set.Older {
		w.schedule(w.rng.Int64N(int64(pl.length)/4), w.upgradeNext)
	}
	wl.scaler = newScaler(w, c, pl.scaleEvery, pl.scaled)
	for _, p := range wl.processes {
		p.start()
	}
	if pl.maxWait > 0 {
		wl.watchWaits(pl.maxWait)
	}
	return wl, c
}

// addClients starts sidecars with sessions in every data center.
func (wl *workload) addClients(rng *rand.Rand, pl *runPlan) {
	for dc := range wl.world.topo.DCs {
		sidecars := 1
		if pl.sidecars.to > 0 {
			sidecars = pl.sidecars.draw(rng)
		}
		for i := range sidecars {
			sidecar := wl.world.AddSidecar(topology.DC(dc), uint64(i+1), wl.results)
			for s := range pl.sessions.draw(rng) {
				wl.addSession(rng, pl, sidecar, uint64(100*i+dc*10+s+1))
			}
		}
	}
}

// addSession opens a session at a sidecar, with its clients.
func (wl *workload) addSession(rng *rand.Rand, pl *runPlan, sidecar topology.Node, id uint64) {
	withMachine(wl.world, sidecar, func(m *session.Sidecar, _ causal.Now) { m.Open(id) })
	name := fmt.Sprintf("s%d", id)
	for c := range pl.processes.draw(rng) {
		wl.processes = append(wl.processes,
			&client{load: wl, session: name, name: fmt.Sprintf("%s/c%d", name, c), id: id, sidecar: sidecar})
	}
}
