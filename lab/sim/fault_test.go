package sim

import (
	"testing"

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
			seeds := uint64(faultSeeds)
			if p.run != nil {
				seeds = groupFaultSeeds
			}
			if d := (schedules{profile: p.Name, broken: causal.FaultsOf(f), seeds: seeds}).detect(p); d.found {
				t.Logf("profile %s, seed %d: %s", p.Name, d.seed, d.violation)
			} else {
				t.Errorf("%d seeds of profile %s did not detect %s", seeds, p.Name, f)
			}
		})
	}
}
