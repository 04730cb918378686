package plan_test

import "testing"

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
