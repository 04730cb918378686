package middleman

import (
	"slices"
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
)

// frontierOf is a message of the peer: the lane of the first origin has come so far.
func (r *rig) frontierOf(received, clean causal.HLC) causal.Message {
	f := causal.Frontier{Map: r.topo.Map(0)}
	f.Add(causal.LaneProgress{Origin: 1, Received: received, Clean: clean})
	return f.Message(peer, self)
}

func TestPutIsNotVisibleBeforeWhatItFollowsIsReceivedByTheOtherShards(t *testing.T) {
	ruleHolds(t, causal.IgnoreLanes, func(r *rig) string {
		r.put(r.key(self, 0), record(version(10)), afterLane(version(5), r.key(peer, 0)))
		r.step(r.frontierOf(4, 4))
		if len(r.writes) > 0 {
			return "the put was written before the lane was received far enough"
		}
		r.step(r.frontierOf(5, 4))
		if len(r.writes) != 1 {
			return "the put was not written once the lane was received"
		}
		return ""
	})
}

func TestPutIsNotAcknowledgedBeforeWhatItFollowsIsCleanInTheOtherShards(t *testing.T) {
	ruleHolds(t, causal.IgnoreLanesClean, func(r *rig) string {
		r.put(r.key(self, 0), record(version(10)), afterLane(version(5), r.key(peer, 0)))
		r.step(r.frontierOf(7, 4))
		if len(r.writes) != 1 {
			return "the put was not written once the lane was received"
		}
		if len(r.acked(coordinator)) > 0 {
			return "the put was acknowledged before the lane was clean"
		}
		r.step(r.frontierOf(7, 5))
		if len(r.acked(coordinator)) != 1 {
			return "the put was not acknowledged once the lane was clean"
		}
		return ""
	})
}

func TestLaneThatRVCoversNeedsNoFrontier(t *testing.T) {
	r := newRig(t)
	r.put(r.key(self, 0), record(version(10)), afterLane(version(5), r.key(peer, 0)))
	r.raiseSV(5)
	r.put(r.key(self, 1), record(version(20)), afterLane(version(5), r.key(peer, 0)))
	if acked := r.acked(coordinator); !slices.Equal(acked, []causal.HLC{10, 20}) {
		t.Errorf("acknowledged %v, want 10 and 20", acked)
	}
}

func TestLaneToTheSameShardReleasesPutsAsItAdvances(t *testing.T) {
	r := newRig(t)
	r.put(r.key(self, 0), record(version(20)), afterLane(version(10), r.key(self, 1)), func(a *causal.PutAfter) {
		a.Previous = 10
	})
	if len(r.writes) > 0 {
		t.Fatal("the put was written before the one in front of it had arrived")
	}
	r.put(r.key(self, 1), record(version(10)), func(a *causal.PutAfter) { a.Previous = 0 })
	if acked := r.acked(coordinator); len(acked) != 2 {
		t.Errorf("acknowledged %v, want both", acked)
	}
}

func TestFrontierUnderAnotherSlotMapIsIgnored(t *testing.T) {
	ruleHolds(t, causal.AnyMap, func(r *rig) string {
		r.put(r.key(self, 0), record(version(10)), afterLane(version(5), r.key(peer, 0)))
		f := causal.Frontier{Map: r.topo.Map(0) + 1}
		f.Add(causal.LaneProgress{Origin: 1, Received: 5, Clean: 5})
		r.step(f.Message(peer, self))
		if len(r.writes) > 0 {
			return "the put was written on the strength of a lane of another map"
		}
		return ""
	})
}

func TestPeersAreToldHowFarTheLanesHaveCome(t *testing.T) {
	r := newRig(t)
	r.hold = isWrite
	r.put(r.key(self, 0), record(version(10)))
	r.proceed()
	r.hold = isWrite
	r.put(r.key(self, 0), record(version(20)))
	progress := func() (all []causal.LaneProgress) {
		for _, m := range r.received(causal.KindFrontier, peer) {
			f := m.Frontier()
			all = slices.AppendSeq(all, f.Lanes())
		}
		return all
	}
	r.wait(1)
	if got := progress(); !slices.Equal(got, []causal.LaneProgress{{Origin: 1, Received: 20, Clean: 10}}) {
		t.Errorf("told %v, want the lane received up to 20 and clean up to 10", got)
	}
	r.wait(1)
	if got := progress(); len(got) > 0 {
		t.Errorf("told %v though nothing has changed", got)
	}
	r.wait(frontierInterval)
	if got := progress(); len(got) != 1 {
		t.Errorf("told %v after the interval, want it repeated", got)
	}
}

// Whatever the order of the waits, a put is released when its own lane position is reached.
func TestLaneWaitsStayInOrder(t *testing.T) {
	var ws []laneWait
	for _, hlc := range []causal.HLC{5, 1, 3, 3, 9, 2} {
		ws = insertLaneWait(ws, laneWait{hlc: hlc})
	}
	if !slices.IsSortedFunc(ws, func(a, b laneWait) int { return int(a.hlc) - int(b.hlc) }) {
		t.Errorf("%v is not ascending", ws)
	}
}

func TestNewFrontiersKnowThePeersOfTheRing(t *testing.T) {
	s, _ := newParts(t)
	fs := newFrontiers(s, nil, nil, nil)
	if !slices.Contains(fs.peers, peer) || slices.Contains(fs.peers, self) {
		t.Errorf("peers are %v", fs.peers)
	}
}

func TestAShardThatAnotherMemberServesIsToldTheFrontiersAtOnce(t *testing.T) {
	r := newRig(t)
	r.put(r.key(self, 0), record(version(10)))
	r.wait(0)
	r.received(causal.KindFrontier, peer)
	r.wait(0)
	if n := len(r.received(causal.KindFrontier, peer)); n != 0 {
		t.Fatalf("%d frontiers without a reason", n)
	}
	r.m.LinkUp(r.now, peer)
	r.wait(0)
	if n := len(r.received(causal.KindFrontier, peer)); n != 1 {
		t.Errorf("%d frontiers, want 1", n)
	}
}

// The lane is received as far as that when the put arrives; a cache may still hold what is older than the write in it.
func TestAPutThatArrivesAfterItsLaneIsNotAcknowledgedBeforeThatIsClean(t *testing.T) {
	r := newRig(t)
	r.step(r.frontierOf(7, 4))
	r.put(r.key(self, 0), record(version(10)), afterLane(version(5), r.key(peer, 0)))
	if acked := r.acked(coordinator); len(r.writes) != 1 || len(acked) > 0 {
		t.Fatalf("%d writes, acknowledged %v", len(r.writes), acked)
	}
	r.step(r.frontierOf(7, 5))
	if acked := r.acked(coordinator); !slices.Equal(acked, []causal.HLC{10}) {
		t.Errorf("acknowledged %v once the lane was clean", acked)
	}
}
