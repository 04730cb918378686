package cache

import (
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

func TestAFillDatedInTheFutureIsNotUsed(t *testing.T) {
	for _, broken := range []bool{false, true} {
		h := newHarness(t)
		if broken {
			h = newHarness(t, causal.AnyClock)
		}
		fill := only(t, h.get(1), causal.KindFill).Fill()
		far := causal.Record{Version: causal.Version{HLC: causal.HLCAt(h.now.WallMs + causal.MaxAheadMs + 1),
			Origin: 1}}
		h.onStream(causal.FillReply{ID: fill.ID, Key: "x", Record: far, Status: causal.Stable}.Message(middlemanNode,
			cacheNode))
		used := false
		for _, m := range h.take() {
			used = used || m.Kind == causal.KindGetReply
		}
		if entries, _ := h.c.Size(); used != broken || (entries > 0) != broken ||
			(h.c.Stats().ClockRefused == 0) != broken {
			t.Errorf("broken %v: it was used: %v; %d entries, %+v", broken, used, entries, h.c.Stats())
		}
	}
}

func TestACopyIsGoodForNoCutInTheFuture(t *testing.T) {
	h := newHarness(t)
	fill := only(t, h.get(1), causal.KindFill).Fill()
	h.onStream(causal.FillReply{ID: fill.ID, Key: "x",
		Record: causal.Record{Version: causal.Version{HLC: 5, Origin: 1}}, Status: causal.Stable}.Message(middlemanNode,
		cacheNode))
	// there are readers at cuts
	h.send(causal.Get{ID: 2, Key: "x", Snapshot: true, Cut: 6}.Message(sidecarNode, cacheNode))
	h.onStream(causal.Invalidate{KeyHash: topology.Hash("x"), Next: causal.NoLimit - 1}.Message(middlemanNode,
		cacheNode))
	if entries, _ := h.c.Size(); entries != 0 {
		t.Error("the copy is kept for all cuts to come")
	}
}
