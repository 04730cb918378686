package middleman

import (
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
)

// What it has stored may rely on it.
func TestAMiddlemanAppliesAnExclusionOnceThatIsDurable(t *testing.T) {
	r := newRig(t)
	x := causal.Exclusions{0, 1}
	r.fail = func(op StorageOp) bool { return op.Kind == StorageExclusions }
	r.m.ApplyExclusions(x)
	r.pump()
	if got := r.m.Exclusions(); len(got) != 0 {
		t.Errorf("it applies %v, which is not durable", got)
	}
	r.fail = nil
	r.m.ApplyExclusions(x)
	r.pump()
	if !r.m.Exclusions().Covers(x) {
		t.Errorf("it applies %v, and %v is durable", r.m.Exclusions(), x)
	}
}
