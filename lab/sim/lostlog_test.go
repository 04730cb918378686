package sim

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/causalstore/causalstore/history"
	"github.com/causalstore/causalstore/sidecar/causal"
)

func TestWhatIsLostWithALogIsNeitherWrittenNorRead(t *testing.T) {
	lost, kept := causal.Version{HLC: 20, Origin: 1}, causal.Version{HLC: 20, Origin: 2}
	salvaged := causal.Version{HLC: 30, Origin: 1}
	w := &World{lostLogs: []lostLog{{origin: 1, above: 10, upTo: 40, salvaged: map[causal.Version]bool{salvaged: true}}}}
	part := func(v causal.Version) history.Part { return history.Part{Version: v} }
	merged := history.Read{Key: "t", Version: lost, Parts: []history.Part{part(salvaged), part(lost)}}
	got := w.withoutLost(history.History{
		{Kind: history.Put, Key: "x", Version: lost},
		{Kind: history.Put, Key: "x", Version: kept},
		{Kind: history.Get, Key: "x", Version: lost},
		{Kind: history.Get, Key: "t", Version: lost, Parts: merged.Parts},
		{Kind: history.Get, Key: "t", Version: lost, Parts: []history.Part{part(lost)}},
		{Kind: history.MGet, Reads: []history.Read{{Key: "x", Version: kept}, merged}},
		{Kind: history.MGet, Reads: []history.Read{{Key: "x", Version: lost}, merged}},
		{Kind: history.MGet, Reads: []history.Read{{Key: "x", Version: kept}, {Key: "t", Parts: merged.Parts[1:]}}},
	})
	left := history.Read{Key: "t", Version: lost, Parts: []history.Part{part(salvaged)}}
	want := history.History{
		{Kind: history.Put, Key: "x", Version: kept},
		{Kind: history.Get, Key: "t", Version: lost, Parts: left.Parts},
		{Kind: history.MGet, Reads: []history.Read{{Key: "x", Version: kept}, left}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if merged.Parts[1] != part(lost) {
		t.Error("the history itself has changed")
	}
}
