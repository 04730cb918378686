package sim

import (
	"testing"

	"github.com/causalstore/causalstore/lab/history"
	"github.com/causalstore/causalstore/sidecar/causal"
)

// faultSeeds bounds the seeds within which a broken rule must be detected. Those of a single group are cheap.
const (
	faultSeeds      = 300
	groupFaultSeeds = 10 * faultSeeds
)

func TestEveryBrokenRuleIsCaught(t *testing.T) {
	for _, f := range causal.AllFaults() {
		t.Run(f.String(), func(t *testing.T) {
			t.Parallel()
			p, err := ProfileThatDetects(f)
			if err != nil {
				t.Fatalf("%v; find one with `causalstore sim --fault %s` and add it to detectedBy", err, f)
			}
			var checker history.Checker
			seeds := faultSeeds
			if p.run != nil {
				seeds = groupFaultSeeds
			}
			for seed := range uint64(seeds) {
				if o := Run(p, seed, causal.FaultsOf(f), &checker); len(o.Violations) > 0 {
					t.Logf("profile %s, seed %d: %s", p.Name, seed, o.Violations[0])
					return
				}
			}
			t.Errorf("%d seeds of profile %s did not detect %s", seeds, p.Name, f)
		})
	}
}
