package groups

import (
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
)

func TestNoScheduleLosesACommittedRecord(t *testing.T) {
	var total Outcome
	for seed := range uint64(3000) {
		o := Run(seed, causal.Mutations{})
		if len(o.Violations) > 0 {
			t.Errorf("seed %d: %q", seed, o.Violations)
		}
		total.Losses += o.Losses
		total.Appends, total.Commits, total.Steps = total.Appends+o.Appends, total.Commits+o.Commits,
			total.Steps+o.Steps
		for f, n := range o.Faults {
			total.Faults[f] += n
		}
	}
	t.Logf("%d appends, %d commits, %d steps, faults %v, losses %d", total.Appends, total.Commits, total.Steps,
		total.Faults, total.Losses)
}
