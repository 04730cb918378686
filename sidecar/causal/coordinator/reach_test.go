package coordinator

import (
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
)

// remembers returns what the coordinator says to a shard that has started.
func (h *harness) remembers(incarnation uint64, lost bool) causal.LaneSync {
	h.t.Helper()
	hello := causal.LaneHello{Incarnation: incarnation, Map: h.cfg.Topology.Map(0), Lost: lost}
	for range 3 { // the first one that says lost is answered when that is durable
		if sent := ofKind(h.step(hello.Message(shardsA, h.cfg.Self)), causal.KindLaneSync); len(sent) > 0 {
			return sent[0].LaneSync()
		}
		h.sync()
	}
	h.t.Fatal("a lane hello is not answered")
	return causal.LaneSync{}
}

func TestACoordinatorRemembersHowFarAStorageHadCome(t *testing.T) {
	h := newHarness(t, 1, 0)
	tell := func(incarnation, changes uint64) {
		h.step(causal.PutAck{Incarnation: incarnation, Changes: changes}.Message(shardsA, h.cfg.Self))
	}
	expect := func(what string, s causal.LaneSync, incarnation, changes uint64) {
		t.Helper()
		if want := (causal.Reach{Incarnation: incarnation, Changes: changes}); s.Reached != want {
			t.Errorf("%s: it remembers %+v, not %+v", what, s.Reached, want)
		}
	}
	expect("before it has heard anything", h.remembers(5, false), 0, 0)
	tell(5, 100)
	tell(5, 90) // late
	expect("what it was told", h.remembers(6, false), 5, 100)
	tell(6, 0) // it is not to remember that
	expect("what it was told of another start", h.remembers(6, false), 5, 100)

	// Whatever a checkpoint says is complete, it has how far the shards were.
	_, after := h.put(causal.Put{ID: 1, Session: 1, Seq: 1, Key: "k"})
	v := reply(t, after).Version
	h.step(causal.PutAck{Versions: []causal.Version{v}, Incarnation: 6, Changes: 120}.Message(shardsA, h.cfg.Self))
	h.restart(h.now)
	if s := h.remembers(7, false); s.Reached.Changes == 120 || !s.Unsure {
		t.Errorf("a coordinator that has lost what no checkpoint has is sure: %+v", s)
	}
	h.step(causal.PutAck{Versions: []causal.Version{v}, Incarnation: 7, Changes: 130}.Message(shardsA, h.cfg.Self))
	if s := h.remembers(8, false); s.Unsure {
		t.Errorf("it has heard since, and is not sure: %+v", s)
	}
	h.step(causal.PutAck{Versions: []causal.Version{v}, Incarnation: 3}.Message(shardsB, h.cfg.Self))
	for range 3 {
		h.tick(causal.CeilingMs)
		h.sync()
	}
	h.restart(h.now)
	s := h.remembers(9, false)
	expect("after a restart", s, 7, 130)
	if s.Unsure {
		t.Error("with nothing in its log it is not sure")
	}

	// After a loss, what was there before is an older copy, also if nothing was acknowledged since.
	expect("before a loss", h.remembers(50, true), 7, 130) // of which the storage may have kept a part
	expect("after a loss", h.remembers(51, false), 50, 0)
	expect("before another loss", h.remembers(52, true), 50, 0)
	tell(52, 10)
	expect("after a loss, and a change", h.remembers(53, false), 52, 10)
}
