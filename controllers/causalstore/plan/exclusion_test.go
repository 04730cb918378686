package plan_test

import (
	"testing"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/controllers/causalstore/plan"
	"github.com/causalstore/causalstore/topology"
)

// TestAnExclusionReachesThePartsAtOnceWhateverElseChanges: parts of a region that is left must hear of it even if a
// coordinator is to be removed and pods do not run.
func TestAnExclusionReachesThePartsAtOnceWhateverElseChanges(t *testing.T) {
	in := observed(t, "regions.yaml", "us-east")
	first := planned(t, in)
	in = executed(in, first)
	in.Store.Spec.DataCenters[0].Shards++
	in.Store.Spec.DataCenters[1].Exclusions = 2
	name := in.Store.Spec.DataCenters[1].Name
	next := planned(t, in)
	if n := next.Record.Exclusions(name); n != 2 || next.Record.Epoch != first.Record.Epoch+1 ||
		next.Record.RestartEpoch != first.Record.RestartEpoch {
		t.Errorf(
			"%s is excluded %d times, epoch %d after %d, restarts since %d after %d; want 2, the next epoch and no "+
				"restart", name, n,
			next.Record.Epoch, first.Record.Epoch, next.Record.RestartEpoch, first.Record.RestartEpoch)
	}
	if n := first.Record.Exclusions(name); n != 0 {
		t.Errorf("before, it was excluded %d times", n)
	}
}

// TestPartsLearnWhatTheyNeedToJudgeAnExclusion: who decides, what was forced, and, when another data center is
// excluded, which ones are back.
func TestPartsLearnWhatTheyNeedToJudgeAnExclusion(t *testing.T) {
	in := observed(t, "regions.yaml", "us-east")
	spec := &in.Store.Spec
	spec.TieBreaker = spec.DataCenters[0].Name
	last := planned(t, in)
	step := func(what string, change func()) *topology.Topology {
		t.Helper()
		before := layoutOf(t, last)
		in = executed(in, last)
		spec = &in.Store.Spec
		change()
		last = planned(t, in)
		next := layoutOf(t, last)
		if err := next.CheckExclusions(before.Exclusions()); err != nil {
			t.Errorf("%s: the parts refuse it: %v", what, err)
		}
		return next
	}
	step("the other one is excluded", func() { spec.DataCenters[1].Exclusions = 1 })
	epoch := last.Record.Epoch
	back := step("it is back", func() {
		in.Store.Status.DataCenters = []v1alpha1.DataCenterStatus{{Name: spec.DataCenters[1].Name,
			Exclusion: &v1alpha1.ExclusionStatus{Count: 1, State: v1alpha1.ExclusionBack}}}
	})
	if back.DCs[1].Returned != 0 || last.Record.Epoch != epoch {
		t.Errorf("a return by itself changes the topology: epoch %d after %d, %+v", last.Record.Epoch, epoch,
			back.DCs[1])
	}
	next := step("this one is excluded by force", func() {
		spec.DataCenters[0].Exclusions, spec.DataCenters[0].ForceExclusion = 1, 1
	})
	if next.TieBreaker != spec.TieBreaker || next.DCs[0].ForceExclusion != 1 || next.DCs[1].Returned != 1 {
		t.Errorf("tie-breaker %q, %+v", next.TieBreaker, next.DCs)
	}
	if next = step("nothing", func() { in.Store.Status.DataCenters = nil }); next.DCs[1].Returned != 1 {
		t.Error("the return is forgotten")
	}
}

// layoutOf returns the topology that the parts are configured with.
func layoutOf(t *testing.T, p plan.Plan) *topology.Topology {
	t.Helper()
	f, err := p.Record.LayoutFile()
	if err != nil {
		t.Fatal(err)
	}
	topo, err := f.Topology()
	if err != nil {
		t.Fatal(err)
	}
	return topo
}
