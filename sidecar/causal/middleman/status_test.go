package middleman

import (
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

func TestProcessedWritesAreForgottenOnceRVCoversThem(t *testing.T) {
	r := newRig(t)
	for i := range 3 {
		r.put(r.key(self, i), record(version(causal.HLC(10+10*i))))
	}
	r.step(causal.Vectors{Entries: []causal.VectorEntry{{Origin: 1, RV: []causal.HLC{20}}}}.Message(coordinator, self))
	r.wait(purgeInterval)
	if _, processed, _, _ := r.m.Depth(); processed != 1 || !r.m.writes.isProcessed(version(30)) {
		t.Errorf("%d processed writes are remembered, want the one above RV", processed)
	}
	r.step(causal.StableMarks{Versions: []causal.Version{version(30)}}.Message(coordinator, self))
	r.wait(purgeInterval)
	if puts, processed, _, _ := r.m.Depth(); puts != 0 || processed != 0 {
		t.Errorf("%d puts and %d processed writes are remembered after all are complete", puts, processed)
	}
}

func TestProcessedWriteThatIsNotCleanIsRememberedWhateverTheVectorsSay(t *testing.T) {
	r := newRig(t)
	r.put(r.fillCopy(), record(version(20)))
	r.raiseSV(20)
	r.wait(purgeInterval)
	if !r.m.writes.isProcessed(version(20)) {
		t.Error("the write was forgotten while its invalidation was under way")
	}
}

func TestMarksOfCompleteWritesAreForgottenOnceSVPassesThem(t *testing.T) {
	r := newRig(t)
	r.step(causal.StableMarks{SV: 5, Versions: []causal.Version{version(10), version(20)}}.Message(coordinator, self))
	if sv := r.m.Known().SV(1); sv != 5 {
		t.Errorf("SV is %d, want the 5 that came along", sv)
	}
	r.raiseSV(10)
	r.wait(purgeInterval)
	if r.m.writes.complete != 1 || !r.m.writes.find(version(20)).isMarkedComplete() {
		t.Errorf("%d are marked, want 20 alone", r.m.writes.complete)
	}
}

func TestMarksOfCompleteWritesAreBounded(t *testing.T) {
	w := newWrites()
	for i := range causal.HLC(maxCompleteMarks + 1) {
		w.markComplete(version(i + 1))
	}
	w.purge(causal.NewStability(testTopology(t)), 0)
	if w.complete > maxCompleteMarks || len(w.byVersion) != w.complete {
		t.Errorf("%d marks of %d writes, the bound is %d", w.complete, len(w.byVersion), maxCompleteMarks)
	}
}

// After a restart only the coordinator knows what this shard has acknowledged. It says so for this shard's lane alone.
func TestWriteThatTheLaneReportsAsAcknowledgedIsCleanInThisShardOnly(t *testing.T) {
	r := newRig(t)
	r.restart()
	r.syncFrom(coordinator, causal.LaneSync{Newest: 20, AckedUpTo: 20})
	for key, want := range map[string]bool{r.key(self, 0): true, r.key(peer, 0): false} {
		if got := r.m.isClean(version(15), topology.SlotOf(key)); got != want {
			t.Errorf("a write of %v is clean: %v, want %v", r.topo.Owner(0, topology.SlotOf(key)), got, want)
		}
	}
	if r.m.isClean(version(21), topology.SlotOf(r.key(self, 0))) {
		t.Error("a write above the acknowledged ones is clean")
	}
}
