package middleman

import (
	"testing"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
)

// adoptionStates returns the states of writes that were sent to the adopter, by HLC.
func (r *rig) adoptionStates() map[causal.HLC]causal.AdoptionState {
	states := map[causal.HLC]causal.AdoptionState{}
	for _, m := range r.received(causal.KindAdoptState, leader1) {
		for _, v := range m.AdoptStatus().Versions {
			states[v.HLC] = m.AdoptStatus().State
		}
	}
	return states
}

// newAdoptingRig returns a rig that has heard of nobody since it has started.
func newAdoptingRig(t *testing.T) *rig {
	r := newRig(t)
	r.wait(adoptableAfter)
	return r
}

func (r *rig) adopt(key string, hlc causal.HLC, deps ...causal.Dep) map[causal.HLC]causal.AdoptionState {
	r.step(causal.AdoptPut{Key: key, Record: record(version(hlc)), Deps: deps,
		Map: r.m.slotMap()}.Message(leader1, self))
	return r.adoptionStates()
}

func (r *rig) adoptionStep(past causal.AdoptionState, incarnation uint64,
	hlc causal.HLC) map[causal.HLC]causal.AdoptionState {
	r.step(causal.AdoptStep{Past: past, Versions: []causal.Version{version(hlc)}, Incarnation: incarnation,
		Map: r.m.slotMap()}.Message(leader1, self))
	return r.adoptionStates()
}

func TestAnAdoptedPutWaitsForTheWordOfItsAdopter(t *testing.T) {
	r := newAdoptingRig(t)
	key := r.key(self, 1)
	if got := r.adopt(key, 10); got[10] != causal.AdoptionReceived || len(r.records) != 0 {
		t.Fatalf("put: %v, stored %v", got, r.records)
	}
	if got := r.adoptionStep(causal.AdoptionReceived, 7, 10); len(got) != 0 || len(r.records) != 0 {
		t.Fatalf("a step for another incarnation: %v, stored %v", got, r.records)
	}
	r.adoptionStep(causal.AdoptionReceived, 1, 10)
	if got := r.adoptionStep(causal.AdoptionReceived, 1, 10); got[10] != causal.AdoptionConfirmed ||
		len(r.records) != 1 {
		t.Fatalf("its past is received: %v, stored %v", got, r.records)
	}
	if got := r.adoptionStep(causal.AdoptionConfirmed, 1, 10); got[10] != causal.AdoptionClean {
		t.Fatalf("its past is confirmed: %v", got)
	}
	if got := r.adoptionStep(causal.AdoptionComplete, 1, 10); got[10] != causal.AdoptionComplete ||
		r.m.status(key, version(10)) != causal.Stable {
		t.Fatalf("it is complete: %v", got)
	}
	if len(r.received(causal.KindPutAck, coordinator)) > 0 {
		t.Error("a coordinator that has sent nothing got an acknowledgement")
	}
	r.put(key, record(version(10)))
	if got := r.received(causal.KindPutAck, coordinator); len(got) != 1 {
		t.Errorf("the coordinator that sends it again got %v", got)
	}
}

func TestACoordinatorThatIsBackTakesItsAdoptedPutOver(t *testing.T) {
	r := newAdoptingRig(t)
	key, before := r.key(self, 1), version(5)
	r.adopt(key, 10)
	r.put(key, record(version(10)), afterLane(before, r.key(peer, 1)))
	if len(r.records) != 0 {
		t.Fatal("it does not wait for the lane that its coordinator names")
	}
	var f causal.Frontier
	f.Map = r.m.slotMap()
	f.Add(causal.LaneProgress{Origin: 1, Received: 5, Clean: 5})
	r.step(f.Message(peer, self))
	if acked := r.received(causal.KindPutAck, coordinator); len(r.records) != 1 || len(acked) != 1 {
		t.Errorf("stored %v, acknowledged %v", r.records, acked)
	}
}

// A shard restarts with a write in its storage, and gets it from an adopter before it knows that it has it. The origin,
// which is back, does not send again what the ring has acknowledged, and its adopter has no more to say.
func TestAnAdoptedPutEndsWhenItsRingHasAcknowledgedIt(t *testing.T) {
	r := newAdoptingRig(t)
	staged, written, key := r.key(self, 1), r.key(self, 2), r.key(self, 3)
	r.adopt(staged, 10)
	r.adopt(written, 11)
	r.adoptionStep(causal.AdoptionReceived, 1, 11)
	r.adopt(key, 30)
	r.raiseSV(20)
	if left := r.m.writes.pending; left != 1 || len(r.records) != 2 {
		t.Errorf("%d puts are pending, want the one that is not complete; stored %v", left, r.records)
	}
	if reply, answered := r.get(causal.Get{Key: staged, Seen: 25}); !answered || reply.Record.Version != version(10) {
		t.Errorf("who may have to see it is answered: %t, %+v", answered, reply)
	}
	r.raiseSV(40)
	for _, left := range r.m.CheckRest() {
		t.Error(left)
	}
}

func TestNothingIsTakenFromAnAdopterWhileTheOriginIsHeardOf(t *testing.T) {
	r := newRig(t)
	key := r.key(self, 1)
	if got := r.adopt(key, 10); len(got) != 0 {
		t.Errorf("at the start: %v", got)
	}
	r.wait(adoptableAfter)
	r.step(causal.Vectors{Entries: []causal.VectorEntry{{Origin: 1, SV: 3}}}.Message(coordinator, self))
	if got := r.adopt(key, 10); len(got) != 0 {
		t.Errorf("%v", got)
	}
	r.wait(2 * time.Second)
	if got := r.adopt(key, 10); got[10] != causal.AdoptionReceived {
		t.Errorf("two seconds later: %v", got)
	}
}

func TestAShardHoldsNoMorePutsThanItsBound(t *testing.T) {
	rs := newRetainedPuts()
	value := causal.Value{Data: make([]byte, maxRetainedBytes/4)}
	for hlc := range causal.HLC(6) {
		rs.retain(&causal.PutAfter{Key: "k", Record: causal.Record{Version: version(hlc + 1), Value: value}}, false)
	}
	if got := len(rs.after(1, 0)); got != 3 || rs.bytes > maxRetainedBytes {
		t.Errorf("%d puts of %d bytes", got, rs.bytes)
	}
	rs.retain(&causal.PutAfter{Key: "k", Record: record(version(2)), Generation: 1}, false)
	if got := rs.after(1, 0); len(got) != 1 || got[0].generation != 1 || rs.bytes != got[0].size() {
		t.Errorf("of a log of a greater generation: %d puts, %d bytes", len(got), rs.bytes)
	}
	topo := testTopology(t)
	known := causal.NewStability(topo)
	known.Merge([]causal.VectorEntry{{Origin: 1, SV: 3}}, causal.NoLimit)
	if rs.purge(known); rs.bytes != 0 || len(rs.after(1, 0)) != 0 {
		t.Errorf("once complete: %d bytes", rs.bytes)
	}
}

// A message of a log that was given up arrives late.
func TestAPutOfAnEarlierLogDoesNotReplaceWhatIsHeld(t *testing.T) {
	rs := newRetainedPuts()
	rs.retain(&causal.PutAfter{Key: "k", Record: record(version(5)), Generation: 2}, false)
	rs.retain(&causal.PutAfter{Key: "k", Record: record(version(6)), Generation: 1}, false)
	if got := rs.after(1, 0); len(got) == 0 || got[0].record.Version != version(5) {
		t.Errorf("%d puts are held: %+v", len(got), got)
	}
}

// So an adopter that lacks one of the reports asks again from there.
func TestEachReportOfAHeldPutNamesTheOneBefore(t *testing.T) {
	r := newRig(t)
	for i := range 3 {
		r.put(r.key(self, i), record(version(causal.HLC(10+i))))
	}
	r.step(causal.AdoptQuery{ID: 1, Origin: 1, Incarnation: r.config.Incarnation}.Message(leader1, self))
	before := uint64(0)
	reports := r.received(causal.KindAdoptHeld, leader1)
	for _, m := range reports {
		h := m.AdoptHeld()
		if h.Before != before || h.Number <= before {
			t.Errorf("put %d is reported as the one after %d, and %d was reported before", h.Number, h.Before, before)
		}
		before = h.Number
	}
	if len(reports) != 3 {
		t.Errorf("%d reports", len(reports))
	}
}

func TestAShardWithoutItsDataTakesNoPartInAdoption(t *testing.T) {
	r := newLostRig(t)
	r.wait(2 * time.Second)
	r.step(causal.AdoptQuery{ID: 1, Origin: 1}.Message(leader1, self))
	r.adopt(r.key(self, 1), 10)
	r.adoptionStep(causal.AdoptionConfirmed, 9, 10)
	if held, states := r.received(causal.KindAdoptHeld, leader1), r.adoptionStates(); len(held)+len(states) > 0 ||
		r.m.writes.pending > 0 {
		t.Errorf("it holds %v, tells %v, and has %d puts", held, states, r.m.writes.pending)
	}
}

// Its SV stands, since a ring is away, and its RV goes on: it is there, and nobody may write in its name.
func TestAnOriginWhoseRVGrowsIsNotAdopted(t *testing.T) {
	r := newAdoptingRig(t)
	r.step(causal.Vectors{Entries: []causal.VectorEntry{{Origin: 1, RV: []causal.HLC{5}}}}.Message(coordinator, self))
	if got := r.adopt(r.key(self, 1), 10); len(got) != 0 {
		t.Errorf("adopted: %v", got)
	}
	r.wait(adoptableAfter)
	if got := r.adopt(r.key(self, 1), 10); got[10] != causal.AdoptionReceived {
		t.Errorf("not adopted, though it is silent: %v", got)
	}
}
