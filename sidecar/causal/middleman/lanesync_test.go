package middleman

import (
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// syncFrom is the answer of a coordinator to a LaneHello.
func (r *rig) syncFrom(from topology.Node, s causal.LaneSync) {
	s.Incarnation, s.Map = r.config.Incarnation, r.topo.Map(0)
	r.step(s.Message(from, self))
}

// allAwayBut is the set of coordinators of a data center that are away.
func allAwayBut(indexes ...int) (away uint64) {
	for i := range topology.MaxCoordinators {
		away |= 1 << i
	}
	for _, i := range indexes {
		away &^= 1 << i
	}
	return away
}

// Other shards may rely on what this one had received before the restart, so a reader may have seen something newer.
func TestBoundReadsAreRefusedAfterARestartUntilAllLanesAreReceivedAgain(t *testing.T) {
	ruleHolds(t, causal.RestartUnsynced, func(r *rig) string {
		r.restart()
		r.wait(1)
		key := r.key(self, 0)
		isRefused := func() bool { return r.mustGet(causal.Get{Key: key, Seen: 20}).Err == causal.ErrStarting }
		r.syncFrom(leader1, causal.LaneSync{Away: allAwayBut(0)})
		r.syncFrom(coordinator1, causal.LaneSync{})
		r.syncFrom(coordinator, causal.LaneSync{Newest: 10, Away: allAwayBut(0, 1)})
		r.wait(laneHelloInterval)
		if !isRefused() {
			return "a bound read was served although a write of before the restart may be missing"
		}
		if r.mustGet(causal.Get{Key: key}).Err != causal.OK {
			return "an unbound read was refused"
		}
		r.put(key, record(version(10)))
		r.wait(laneHelloInterval)
		if isRefused() {
			return "a bound read was refused although every lane is received"
		}
		return ""
	})
}

func TestEveryCoordinatorInUseIsAskedForItsLaneAfterARestart(t *testing.T) {
	ruleHolds(t, causal.SyncInUse, func(r *rig) string {
		r.restart()
		r.wait(1)
		for _, to := range []topology.Node{coordinator, coordinator1, leader1} {
			if hellos := r.received(causal.KindLaneHello, to); len(hellos) != 1 ||
				hellos[0].LaneHello().Incarnation != r.config.Incarnation {
				return to.String() + " was not asked"
			}
		}
		r.syncFrom(coordinator, causal.LaneSync{Away: allAwayBut(0, 1)})
		r.syncFrom(leader1, causal.LaneSync{Away: allAwayBut(0)})
		r.wait(laneHelloInterval)
		if r.mustGet(causal.Get{Key: r.key(self, 0), Seen: 20}).Err != causal.ErrStarting {
			return "a bound read was served before the second coordinator had answered"
		}
		if len(r.received(causal.KindLaneHello, coordinator1)) != 1 {
			return "the second coordinator is not asked again"
		}
		if hello := r.received(causal.KindLaneHello, coordinator); len(hello) != 1 || !hello[0].LaneHello().AwayOnly {
			return "the leader is not asked who is away"
		}
		r.syncFrom(coordinator1, causal.LaneSync{})
		r.wait(laneHelloInterval)
		if r.mustGet(causal.Get{Key: r.key(self, 0), Seen: 20}).Err != causal.OK {
			return "a bound read was refused although every coordinator has answered"
		}
		return ""
	})
}

func TestReadsThatRVCoversAreServedBeforeTheLanesAreReceivedAgain(t *testing.T) {
	r := newRig(t)
	r.restart()
	r.wait(1)
	r.raiseSV(20)
	for seen, want := range map[causal.HLC]causal.ErrCode{20: causal.OK, 21: causal.ErrStarting} {
		if got := r.mustGet(causal.Get{Key: r.key(self, 0), Seen: seen}).Err; got != want {
			t.Errorf("a read that has seen %d: %v, want %v", seen, got, want)
		}
	}
}

func TestLaneSyncOfAnotherIncarnationOrMapIsIgnored(t *testing.T) {
	r := newRig(t)
	r.restart()
	for _, s := range []causal.LaneSync{
		{Incarnation: r.config.Incarnation - 1, Map: r.topo.Map(0)},
		{Incarnation: r.config.Incarnation, Map: r.topo.Map(0) + 1},
	} {
		r.step(s.Message(coordinator, self))
		if r.m.lanes.of(1).synced {
			t.Errorf("%+v was taken", s)
		}
	}
}

func TestFreshMiddlemanHasNothingToReceiveAgain(t *testing.T) {
	r := newRig(t)
	r.wait(laneHelloInterval)
	for _, to := range []topology.Node{coordinator, coordinator1, leader1} {
		if hellos := r.received(causal.KindLaneHello, to); len(hellos) > 0 {
			t.Errorf("%v was asked", to)
		}
	}
	if got := r.mustGet(causal.Get{Key: r.key(self, 0), Seen: 20}).Err; got != causal.OK {
		t.Errorf("a bound read: %v", got)
	}
}

func TestNewCoordinatorsAreAskedOnceTheTopologyHasThem(t *testing.T) {
	r := newRig(t)
	r.restart()
	third := topology.Node{Part: topology.Coordinator, Index: 2}
	r.wait(1)
	if n := len(r.received(causal.KindLaneHello, third)); n > 0 {
		t.Fatalf("%v was asked before the topology had it", third)
	}
	dcs := []topology.DataCenter{{Name: "a", Coordinators: 3, Caches: 1, Shards: 2},
		{Name: "b", Coordinators: 1, Caches: 1, Shards: 1}}
	more, err := topology.New(2, dcs, r.topo.Rings, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.m.SetCoordinators(more)
	r.wait(laneHelloInterval)
	if n := len(r.received(causal.KindLaneHello, third)); n != 1 {
		t.Errorf("%v was asked %d times, want once", third, n)
	}
}

// What was sent before there was a link is lost, and another member that serves now has not heard of the request.
func TestALaneIsAskedForAgainWhenItsCoordinatorCanBeReached(t *testing.T) {
	r := newRig(t)
	r.restart()
	r.wait(1)
	r.received(causal.KindLaneHello, coordinator)
	r.m.LinkUp(r.now, coordinator)
	r.wait(0)
	if n := len(r.received(causal.KindLaneHello, coordinator)); n != 1 {
		t.Errorf("%d requests, want 1", n)
	}
}

// What the coordinator has named may be here, and still be in caches.
func TestALaneIsCleanOnceAllThatWasNamedIs(t *testing.T) {
	l := newLane(false)
	l.receive(10, 0, 0)
	if l.sync(10, 0); !l.synced || l.isClean() {
		t.Errorf("synchronized: %v; clean before a put is: %v", l.synced, l.isClean())
	}
	if l.markClean(10); !l.isClean() {
		t.Error("not clean though all is")
	}
	empty := newLane(false)
	if empty.sync(0, 0); !empty.isClean() {
		t.Error("a lane without puts is not clean")
	}
}
