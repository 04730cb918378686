package sim

import (
	"fmt"
	"math/rand/v2"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/history"
	"github.com/causalstore/causalstore/sidecar/topology"
)

// Outcome is what one seed did.
type Outcome struct {
	Profile    string
	Seed       uint64
	Ops, Steps int
	Messages   uint64
	Harms      Harms
	// Violations says what went wrong: what the checker found in the history, and what no history shows (rings that
	// differ, work that never ends).
	Violations []string
	History    history.History
	Report     history.Report
}

// Run plays one seed of a profile: a random deployment, clients and faults; then it lets everything settle and checks.
func Run(p Profile, seed uint64, broken causal.Faults, checker *history.Checker) Outcome {
	rng := rand.New(rand.NewPCG(seed, 1))
	pl := p.draw(rng)
	pl.set.Seed, pl.set.Broken = seed, broken
	w := NewWorld(pl.shape.deployment(rng), pl.set)
	wl := &workload{world: w, byOp: map[uint64]*process{}, issuing: true, think: pl.think, mix: pl.mix, hot: pl.hot}
	for i := range pl.keys {
		wl.keys = append(wl.keys, fmt.Sprintf("k%d", i))
	}
	wl.clients(rng, &pl)
	c := newChaos(w, pl.harmEach, pl.harms)
	c.start()
	wl.reshape = newReshape(w, c, pl.reshapeEach, pl.reshapes)
	for _, p := range wl.procs {
		p.start()
	}
	w.Run(pl.length, nil)
	o := Outcome{Profile: p.Name, Seed: seed}
	o.Violations = append(wl.settle(c), wl.nameMissing()...)
	o.History, o.Ops, o.Harms, o.Steps, o.Messages = wl.history, len(wl.history), w.harms, w.steps, w.net.sent
	o.Report = checker.Check(wl.history, history.Options{MaxViolations: 3})
	for _, v := range o.Report.Violations {
		o.Violations = append(o.Violations, v.String())
	}
	return o
}

// clients makes a sidecar with sessions in every DC.
func (wl *workload) clients(rng *rand.Rand, pl *plan) {
	for dc := range wl.world.topo.DCs {
		sidecar := wl.world.AddSidecar(topology.DC(dc), 1, wl.results)
		for s := range pl.sessions.draw(rng) {
			id := uint64(dc*10 + s + 1)
			wl.world.do(sidecar, func(m machine, _ causal.Now) { m.(*causal.Sidecar).Open(id) })
			name := fmt.Sprintf("s%d", id)
			for c := range pl.procs.draw(rng) {
				wl.procs = append(wl.procs, &process{w: wl, session: name, name: fmt.Sprintf("%s/c%d", name, c), id: id, sidecar: sidecar})
			}
		}
	}
}
