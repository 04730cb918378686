package middleman

import (
	"slices"
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

func isWrite(op StorageOp) bool { return op.Kind == StorageWrite }

func TestPutIsAcknowledgedOnlyOnceItIsDurable(t *testing.T) {
	r := newRig(t)
	r.hold = isWrite
	r.put(r.key(self, 0), record(version(10)))
	if acked := r.acked(coordinator); len(acked) > 0 {
		t.Fatalf("%v was acknowledged before storage had written it", acked)
	}
	r.proceed()
	if acked := r.acked(coordinator); !slices.Equal(acked, []causal.HLC{10}) {
		t.Errorf("acknowledged %v, want 10", acked)
	}
}

func TestPutWithALowerVersionIsAcknowledgedAndNotWritten(t *testing.T) {
	r := newRig(t)
	key := r.key(self, 0)
	r.put(key, record(causal.Version{HLC: 20, Origin: 2}))
	r.put(key, record(version(10)))
	if got := r.records[key].Version.HLC; got != 20 {
		t.Errorf("storage holds version %d, want 20", got)
	}
	if acked := r.acked(coordinator); !slices.Equal(acked, []causal.HLC{10}) {
		t.Errorf("acknowledged %v, want 10", acked)
	}
	if n := r.m.Stats().Superseded; n != 1 {
		t.Errorf("%d puts were superseded, want 1", n)
	}
}

func TestRepeatedPutIsWrittenOnceAndAcknowledgedEachTime(t *testing.T) {
	r := newRig(t)
	r.hold = isWrite
	key := r.key(self, 0)
	for range 3 { // while the first is under way
		r.put(key, record(version(10)))
	}
	r.proceed()
	for range 2 { // after it was acknowledged
		r.put(key, record(version(10)))
	}
	if acked := r.acked(coordinator); !slices.Equal(acked, []causal.HLC{10, 10, 10}) {
		t.Errorf("acknowledged %v, want one for the write and one for each repetition after it", acked)
	}
	if len(r.writes) != 1 {
		t.Errorf("%d writes, want 1", len(r.writes))
	}
}

func TestAcknowledgementsAreOneMessagePerCoordinator(t *testing.T) {
	r := newRig(t)
	r.hold = isWrite
	for i := range 3 {
		r.put(r.key(self, i), record(version(causal.HLC(10+i))))
		r.put(r.key(self, 10+i), record(causal.Version{HLC: causal.HLC(10 + i), Origin: 2}))
	}
	for _, op := range r.held { // without taking messages in between
		r.carryOut(op)
	}
	r.pump()
	for _, to := range []topology.Node{coordinator, coordinator1} {
		msgs := r.received(causal.KindPutAck, to)
		if len(msgs) != 1 || len(msgs[0].PutAck().Versions) != 3 ||
			msgs[0].PutAck().Incarnation != r.config.Incarnation {
			t.Errorf("%v got %+v, want one message with three versions", to, msgs)
		}
	}
}

func TestPutOfAnUnknownOriginIsIgnored(t *testing.T) {
	r := newRig(t)
	key := r.key(self, 0)
	a := causal.PutAfter{Key: key,
		Record: record(causal.Version{HLC: 10, Origin: topology.Origin(r.topo.Origins() + 1)}), Map: r.topo.Map(0)}
	r.step(a.Message(coordinator, self))
	if len(r.writes) > 0 || len(r.inbox) > 0 {
		t.Errorf("wrote %v and sent %v", r.writes, r.inbox)
	}
}

// A lane of another map says nothing about what has been received here.
func TestPutUnderAnotherSlotMapIsIgnoredAndItsCoordinatorIsToldTheMap(t *testing.T) {
	ruleHolds(t, causal.AnyMap, func(r *rig) string {
		r.put(r.key(self, 0), record(version(10)), func(a *causal.PutAfter) { a.Map++ })
		if len(r.writes) > 0 || len(r.acked(coordinator)) > 0 {
			return "the put was taken"
		}
		r.wait(laneHelloInterval)
		hellos := r.received(causal.KindLaneHello, coordinator)
		if len(hellos) != 1 || hellos[0].LaneHello().Map != r.topo.Map(0) || hellos[0].LaneHello().AwayOnly {
			return "the coordinator is not told which map is in use"
		}
		return ""
	})
}

func TestCompletePutOnlyTakesItsPlaceInTheLane(t *testing.T) {
	r := newRig(t)
	r.put(r.key(self, 0), causal.Record{Version: version(10)}, func(a *causal.PutAfter) { a.Complete = true })
	if l := r.m.lanes.of(1); l.received != 10 || l.clean != 10 {
		t.Errorf("the lane is received up to %d and clean up to %d, want 10", l.received, l.clean)
	}
	if len(r.writes) > 0 || len(r.acked(coordinator)) > 0 {
		t.Error("a complete put was written or acknowledged")
	}
}

// "The key holds a greater version" says nothing about the dependencies of the smaller one.
func TestPutThatWillLoseStillWaitsForItsDependencies(t *testing.T) {
	ruleHolds(t, causal.LoserSkipsDeps, func(r *rig) string {
		key, dep := r.key(self, 0), r.key(peer, 0)
		r.put(key, record(version(20)))
		r.acked(coordinator)
		r.put(key, record(causal.Version{HLC: 10, Origin: 2}), after(version(5), dep))
		if v := (causal.Version{HLC: 10, Origin: 2}); r.m.writes.isProcessed(v) {
			return "the put was processed before its dependency"
		}
		return ""
	})
}

// A read may find a version whose write was reported as failed; it is not durable.
func TestFailedWriteIsRepeatedEvenIfItCanBeRead(t *testing.T) {
	ruleHolds(t, causal.TrustFailedWrite, func(r *rig) string {
		key := r.key(self, 0)
		r.fail = func(op StorageOp) bool {
			if isWrite(op) {
				r.records[key] = op.Record // visible, but perhaps not durable
				return true
			}
			return false
		}
		r.put(key, record(version(10)))
		if len(r.acked(coordinator)) > 0 {
			return "a failed write was acknowledged"
		}
		r.fail = nil
		for range 3 {
			r.wait(purgeInterval)
		}
		if len(r.acked(coordinator)) == 0 {
			return "the write was not acknowledged after storage had recovered"
		}
		if len(r.writes) == 0 {
			return "the write was acknowledged, and storage was never asked for it again"
		}
		return ""
	})
}

func TestVersionFromBeforeARestartIsWrittenAgain(t *testing.T) {
	r := newRig(t)
	key := r.key(self, 0)
	r.records[key] = record(version(10)) // its write may never have been made durable
	r.put(key, record(version(10)))
	if len(r.writes) != 1 || len(r.acked(coordinator)) != 1 {
		t.Errorf("%d writes, want 1 before the acknowledgement", len(r.writes))
	}
}

func TestStorageIsToldWhetherTheKeyExists(t *testing.T) {
	r := newRig(t, keepTenMs)
	key := r.key(self, 0)
	r.put(key, record(version(hlcAt(10))))
	r.put(key, tombstoneOf(version(hlcAt(20))))
	r.raiseSV(hlcAt(30))
	for range 3 {
		r.wait(purgeInterval)
	}
	r.put(key, record(version(hlcAt(40))))
	type told struct {
		kind   StorageKind
		exists bool
	}
	var got []told
	for _, op := range r.writes {
		if op.Kind != StorageHorizon {
			got = append(got, told{op.Kind, op.KeyExists})
		}
	}
	if want := []told{{StorageWrite, false}, {StorageWrite, true}, {StorageDelete, true},
		{StorageWrite, false}}; !slices.Equal(got, want) {
		t.Errorf("storage was told %v, want %v", got, want)
	}
}

// A middleman remembers only so many puts that came before the one in front of them. It must take the place of those
// that it has forgotten when they come again, though they are pending: other shards wait until the lane is received.
func TestAPendingPutThatComesAgainTakesItsPlaceInTheLane(t *testing.T) {
	r := newRig(t)
	r.hold = isWrite
	key := r.key(self, 0)
	first, second := record(version(10)), record(version(20))
	r.put(key, second, func(a *causal.PutAfter) { a.Previous = 10 })
	l := r.m.lanes.of(1)
	l.outOfOrder = nil
	r.put(key, first, func(a *causal.PutAfter) { a.Previous = 0 })
	if l.received != 10 {
		t.Fatalf("received up to %d, want 10", l.received)
	}
	r.put(key, second, func(a *causal.PutAfter) { a.Previous = 10 })
	if l.received != 20 {
		t.Errorf("received up to %d, want 20", l.received)
	}
}
