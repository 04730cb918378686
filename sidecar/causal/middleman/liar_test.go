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

// Else: the epoch that the cache takes after it is one that no part accepts.
func TestAStreamFromTheEndOfAllEpochsIsNotOpened(t *testing.T) {
	r := newRig(t)
	r.step(causal.StreamOpen{Epoch: causal.MaxCounter, Incarnation: r.config.Incarnation}.Message(cacheA, self))
	r.openStream(cacheA, 7)
	if got := r.received(causal.KindStreamReset, cacheA); len(got) > 0 && got[len(got)-1].StreamReset().MaxEpoch > 7 {
		t.Errorf("the cache is told to begin above epoch %d", got[len(got)-1].StreamReset().MaxEpoch)
	}
}

func TestCompleteWritesOutOfTheOrderOfTheirLaneAreRememberedUpToABound(t *testing.T) {
	l := newLane(true)
	for i := range causal.HLC(3 * maxOutOfOrder) {
		l.markClean(1000 + i)
		l.receive(1000+i, 1<<40, 0)
	}
	if n := len(l.cleanAhead); n > maxOutOfOrder {
		t.Errorf("%d writes are remembered", n)
	}
	l.receive(1<<40, 0, 1<<40)
	if l.clean != 1<<40 || len(l.cleanAhead) != 0 {
		t.Errorf("then everything is acknowledged, and the lane is clean up to %d, with %d beyond", l.clean,
			len(l.cleanAhead))
	}
}
