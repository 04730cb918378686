package middleman

import (
	"slices"
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// A coordinator that has just started reaches the shard before the shard reaches it.
func TestAcknowledgementsAreSentAgainWhenTheLinkToTheCoordinatorComesUp(t *testing.T) {
	r := newRig(t)
	r.put("k", causal.Record{Version: causal.Version{HLC: 5, Origin: r.topo.OriginOf(coordinator)}})
	if got := r.acked(coordinator); !slices.Equal(got, []causal.HLC{5}) {
		t.Fatalf("acknowledged: %v", got)
	}
	for _, want := range [][]causal.HLC{{5}, {5}} {
		r.m.LinkUp(r.now, coordinator)
		r.wait(0)
		if got := r.acked(coordinator); !slices.Equal(got, want) {
			t.Errorf("acknowledged again: %v, want %v", got, want)
		}
	}
}

func TestTheNewestAcknowledgementsAreKept(t *testing.T) {
	a := newAckBatches()
	last := causal.HLC(0)
	for range 40 {
		for range 33 {
			last++
			a.add(coordinator, causal.Version{HLC: last})
		}
		a.flush(func(_ topology.Node, _ []causal.Version) {})
	}
	if n := len(a.sent[coordinator]); n > 2*maxSentAcks {
		t.Errorf("%d are kept", n)
	}
	a.addAgain(coordinator)
	got := a.versions[coordinator]
	if len(got) != maxSentAcks || got[len(got)-1].HLC != last || got[0].HLC != last-maxSentAcks+1 {
		t.Errorf("%d are sent again, up to %v", len(got), got[len(got)-1])
	}
}
