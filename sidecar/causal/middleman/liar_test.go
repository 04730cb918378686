package middleman

import (
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// What a part with a certificate of its own may say, and cannot know.

func TestOnlyTheOwnerOfASlotAnswersForItsWrites(t *testing.T) {
	r := newRig(t)
	liar := topology.Node{DC: 1, Part: topology.Middleman}
	r.put(r.key(self, 0), record(version(10)), after(version(5), r.key(peer, 0)))
	r.step(causal.DepStatus{Version: version(5), Clean: true, Complete: true}.Message(liar, self))
	if len(r.writes) > 0 || len(r.acked(coordinator)) > 0 {
		t.Error("another shard's word made a put visible before its dependency")
	}
	r.step(causal.DepStatus{Version: version(5), Clean: true}.Message(peer, self))
	if len(r.acked(coordinator)) != 1 {
		t.Error("the word of the owner did not count")
	}
}

func TestOnlyALeaderSaysWhichCoordinatorsAreAway(t *testing.T) {
	r := newRig(t)
	r.restart()
	r.wait(1)
	r.syncFrom(leader1, causal.LaneSync{Away: allAwayBut(0)})
	r.syncFrom(coordinator1, causal.LaneSync{Away: allAwayBut(1)})
	r.wait(laneHelloInterval)
	if r.mustGet(causal.Get{Key: r.key(self, 0), Seen: 20}).Err != causal.ErrStarting {
		t.Error("a bound read was served although the lane of the leader was not received again")
	}
}
