package sim

import (
	"math/rand/v2"
	"testing"

	"github.com/causalstore/causalstore/history"
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/session"
	"github.com/causalstore/causalstore/topology"
)

func TestAPutThatIsLostOnceOrItsAnswerHasAKnownOutcome(t *testing.T) {
	p := Profile{Name: "put losses only", adjust: func(p *runPlan, rng *rand.Rand) {
		lostAnswers(p, rng)
		p.faultEvery, p.set.FaultsPerMillion = 0, 0
	}}
	losses, puts := 0, uint64(0)
	var checker history.Checker
	for seed := range uint64(8) {
		var w *World
		o := runWith(p, seed, causal.Mutations{}, &checker, func(made *World) { w = made })
		for _, v := range o.Violations {
			t.Errorf("seed %d: %s", seed, v)
		}
		losses += o.Faults[PutLoss]
		for _, n := range w.order {
			if n.id.Part != topology.Sidecar {
				continue
			}
			withMachine(w, n.id, func(m *session.Sidecar, _ causal.Now) {
				puts += m.Stats().Puts
				if unknown := m.Stats().UnknownPuts; unknown > 0 {
					t.Errorf("seed %d: %d puts of %s have an unknown outcome", seed, unknown, n.id)
				}
			})
		}
	}
	if losses == 0 || puts == 0 {
		t.Errorf("%d losses, %d puts", losses, puts)
	}
	t.Logf("%d losses, %d puts", losses, puts)
}
