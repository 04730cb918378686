package middleman

import (
	"slices"
	"testing"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// donorNode is the first shard of the other ring.
var donorNode = topology.Node{DC: 1, Part: topology.Middleman}

// newLostRig returns a rig whose middleman is the only shard of its ring, and has lost its data. The other ring has one
// shard.
func newLostRig(t *testing.T, change ...func(*Config)) *rig {
	t.Helper()
	dcs := []topology.DataCenter{{Name: "a", Coordinators: 1, Caches: 1, Shards: 1},
		{Name: "b", Coordinators: 1, Caches: 1, Shards: 1}}
	topo, err := topology.New(1, dcs, []topology.Ring{{Name: "r", DCs: []topology.DC{0}},
		{Name: "s", DCs: []topology.DC{1}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, func(c *Config) {
		*c = DefaultConfig(topo, self)
		c.Incarnation, c.Lease, c.DataLost = 9, lease, true
		for _, f := range change {
			f(c)
		}
	})
	r.topo = topo
	return r
}

// answerHellos lets coordinators answer what the middleman has asked, as change says.
func (r *rig) answerHellos(from []topology.Node, change ...func(*causal.LaneSync)) (asked int) {
	for _, n := range from {
		for _, m := range r.received(causal.KindLaneHello, n) {
			h := m.LaneHello()
			if !h.Lost {
				r.t.Errorf("%v is not told that the data are lost: %+v", n, h)
			}
			s := causal.LaneSync{Incarnation: h.Incarnation, Round: h.Round, Map: h.Map, Away: ^uint64(1)}
			for _, f := range change {
				f(&s)
			}
			r.step(s.Message(n, self))
			asked++
		}
	}
	return asked
}

var bothCoordinators = []topology.Node{coordinator, leader1}

// donate answers the requests to the other ring with what it has; horizon is where it has dropped tombstones.
func (r *rig) donate(has map[string]causal.Record, horizon causal.HLC) {
	for range 20 {
		r.wait(100 * time.Millisecond)
		r.donateOnce(has, horizon)
	}
}

// donateOnce answers the requests that were sent.
func (r *rig) donateOnce(has map[string]causal.Record, horizon causal.HLC) {
	for _, m := range r.received(causal.KindCount, donorNode) {
		r.step(causal.CountReply{ID: m.Count().ID, Keys: uint64(len(has))}.Message(donorNode, self))
	}
	for _, m := range r.received(causal.KindScan, donorNode) {
		reply := causal.ScanReply{ID: m.Scan().ID, Map: r.topo.Map(1), Horizon: horizon, TellsHorizon: true}
		for key := range has {
			reply.Keys = append(reply.Keys, key)
		}
		slices.Sort(reply.Keys)
		r.step(reply.Message(donorNode, self))
	}
	for _, m := range r.received(causal.KindGet, donorNode) {
		g := m.Get()
		reply := causal.GetReply{ID: g.ID, Ring: 1, Key: g.Key}
		if rec, found := has[g.Key]; found {
			reply.Record = rec
		} else {
			reply.Record = causal.Missing(horizon)
		}
		r.step(reply.Message(donorNode, self))
	}
}

func TestALostStorageIsRefilledFromAnotherRing(t *testing.T) {
	r := newLostRig(t)
	r.wait(time.Second)
	if asked := r.answerHellos(bothCoordinators[:1]); asked == 0 {
		t.Fatal("the first coordinator is not asked")
	}
	r.donate(nil, 0)
	if p, ok := r.m.Backfill(); !ok || p.Stage != "asking" || len(p.Waiting) != 1 || p.Waiting[0] != leader1 {
		t.Fatalf("before all coordinators have answered: %+v", p)
	}
	r.wait(time.Second)
	// a version that does not know of lost data
	r.answerHellos(bothCoordinators[1:], func(s *causal.LaneSync) { s.Round = 0 })
	r.wait(time.Second)
	if p, _ := r.m.Backfill(); p.Stage != "asking" {
		t.Fatalf("with an answer that is of no round: %+v", p)
	}
	r.answerHellos(bothCoordinators)
	r.put("c", record(version(5)), func(a *causal.PutAfter) { a.Map = r.topo.Map(0) })
	has := map[string]causal.Record{"a": record(version(3)), "b": tombstoneOf(version(4)), "c": record(version(2))}
	r.donate(has, 1)
	if p, _ := r.m.Backfill(); p.Stage != "catching up" || p.Keys < 3 || p.Bytes == 0 {
		t.Fatalf("when all keys are copied: %+v", p)
	}
	if r.records["a"].Version.HLC != 3 || !r.records["b"].Value.Tombstone || r.records["c"].Version.HLC != 5 ||
		r.horizon != 1 {
		t.Errorf("it has %v, horizon %v", r.records, r.horizon)
	}
	r.step(causal.Get{ID: 1, Key: "a"}.Message(sidecar, self))
	if replies := r.received(causal.KindGetReply, sidecar); len(replies) != 1 ||
		replies[0].GetReply().Err != causal.ErrDataLost {
		t.Errorf("a read meanwhile: %v", replies)
	}
	if r.m.HasRefilled() {
		t.Error("it serves before the coordinators have said what they had under way")
	}
	r.wait(time.Second)
	if asked := r.answerHellos(bothCoordinators, func(s *causal.LaneSync) { s.Newest = 5 }); asked < 2 {
		t.Errorf("%d coordinators are asked again", asked)
	}
	r.wait(time.Second)
	if r.m.HasRefilled() {
		t.Error("it serves before it has what the second coordinator had under way")
	}
	r.put("d", record(causal.Version{HLC: 5, Origin: r.topo.OriginOf(leader1)}))
	r.wait(time.Second)
	if !r.m.HasRefilled() {
		p, _ := r.m.Backfill()
		t.Errorf("it does not serve: %+v", p)
	}
}

// Without its horizon an old put of a key whose tombstone the donor has dropped would bring the key back.
func TestADonorThatDoesNotTellItsHorizonIsNotCopied(t *testing.T) {
	r := newLostRig(t)
	r.wait(time.Second)
	r.answerHellos(bothCoordinators)
	for range 20 {
		r.wait(time.Second)
		r.received(causal.KindLaneHello, coordinator)
		for _, m := range r.received(causal.KindScan, donorNode) {
			r.step(causal.ScanReply{ID: m.Scan().ID, Map: r.topo.Map(1)}.Message(donorNode, self))
		}
	}
	if p, _ := r.m.Backfill(); p.Stage != BackfillCopies {
		t.Errorf("it goes on: %+v", p)
	}
	r.donate(nil, 7)
	if p, _ := r.m.Backfill(); p.Stage != "catching up" || r.horizon != 7 {
		t.Errorf("with a horizon: %+v, durable is %v", p, r.horizon)
	}
}

func TestAKeyThatTheDonorHasNotIsRemovedOnceItsHorizonIsDurable(t *testing.T) {
	r := newLostRig(t)
	r.records["left"], r.records["newer"] = record(version(3)), record(version(30))
	r.wait(time.Second)
	r.answerHellos(bothCoordinators)
	r.fail = func(op StorageOp) bool { return op.Kind == StorageHorizon }
	r.donate(nil, 20)
	if _, found := r.records["left"]; !found {
		t.Error("it is removed before the horizon is durable")
	}
	r.fail = nil
	r.donate(nil, 20)
	_, left := r.records["left"]
	if _, newer := r.records["newer"]; left || !newer || r.horizon != 20 {
		t.Errorf("it has %v, horizon %v", r.records, r.horizon)
	}
}

func TestALostStorageTakesPutsOnceItKnowsWhichLogsWereGivenUp(t *testing.T) {
	r := newLostRig(t)
	r.wait(time.Second)
	r.put("k", record(version(10)))
	if _, stored := r.records["k"]; stored {
		t.Fatal("a put is taken before the generation of its log is known")
	}
	r.hold = func(op StorageOp) bool { return op.Kind == StorageFence }
	adopting := func(s *causal.LaneSync) { s.Generation, s.Recovering = 5, true }
	r.answerHellos(bothCoordinators[:1], adopting)
	r.put("k", record(version(11)), func(a *causal.PutAfter) { a.Generation = 5 })
	if _, stored := r.records["k"]; stored {
		t.Fatal("a put is taken before the fence is durable")
	}
	r.proceed()
	r.put("k", record(version(10)))
	if _, stored := r.records["k"]; stored || r.fences[1] != 5 {
		t.Fatalf("a put of the log that was given up is taken; fences %v", r.fences)
	}
	r.put("k", record(version(11)), func(a *causal.PutAfter) { a.Generation = 5 })
	if r.records["k"].Version.HLC != 11 {
		t.Errorf("a put of the log that has begun is not taken: %v", r.records)
	}
	r.wait(time.Second)
	r.answerHellos(bothCoordinators, func(s *causal.LaneSync) { s.Generation, s.Recovering = 5, true })
	r.wait(time.Second)
	if p, _ := r.m.Backfill(); p.Stage != "asking" {
		t.Errorf("a coordinator that adopts writes counts as having answered: %+v", p)
	}
}

func TestALostStorageBeginsAgainAboveAnIncarnationThatIsKnown(t *testing.T) {
	r := newLostRig(t)
	r.wait(time.Second)
	r.answerHellos(bothCoordinators[:1], func(s *causal.LaneSync) { s.Surpassed = 12 })
	if r.m.Surpassed() != 12 {
		t.Errorf("it knows of %d", r.m.Surpassed())
	}
}

func TestABackfillSaysThatNobodyHasTheDataUntilSomebodyHas(t *testing.T) {
	r := newLostRig(t)
	r.wait(time.Second)
	r.answerHellos(bothCoordinators)
	nobodyHas := func() bool {
		p, _ := r.m.Backfill()
		return p.NobodyHas
	}
	for range 20 {
		r.wait(100 * time.Millisecond)
	}
	if nobodyHas() {
		t.Error("the donor has not answered yet")
	}
	for _, m := range r.received(causal.KindScan, donorNode) {
		r.step(causal.ScanReply{ID: m.Scan().ID, Err: causal.ErrDataLost, Map: r.topo.Map(1)}.Message(donorNode, self))
	}
	if !nobodyHas() {
		t.Error("the only donor has lost its data, too")
	}
	r.donate(map[string]causal.Record{"a": record(version(3))}, 1)
	if p, _ := r.m.Backfill(); p.NobodyHas || p.Stage != "catching up" {
		t.Errorf("the donor has its data again: %+v", p)
	}
}

// The key was deleted since, and the donor has dropped the tombstone. The put has come before that is known, and is
// written when the own keys were listed already.
func TestAPutOfAKeyThatIsGoneDoesNotOutliveTheCopying(t *testing.T) {
	r := newLostRig(t)
	inMap := func(a *causal.PutAfter) { a.Map = r.topo.Map(0) }
	r.wait(time.Second)
	r.answerHellos(bothCoordinators[:1], func(s *causal.LaneSync) { s.Newest = 5 })
	before := causal.Version{HLC: 4, Origin: r.topo.OriginOf(leader1)}
	r.put("gone", record(version(5)), inMap, after(before, "other"))
	r.answerHellos(bothCoordinators[1:])
	r.wait(time.Second)
	r.wait(100 * time.Millisecond)
	if p, _ := r.m.Backfill(); p.Stage != BackfillCopies || len(r.records) > 0 {
		t.Fatalf("it is %+v, and has %v", p, r.records)
	}
	r.put("other", record(before), inMap)
	if r.records["gone"].Version.HLC != 5 {
		t.Fatalf("when it has what the put follows: %v", r.records)
	}
	r.donate(nil, 20)
	if p, _ := r.m.Backfill(); p.Stage != "catching up" {
		t.Fatalf("when all keys are copied: %+v", p)
	}
	if rec, found := r.records["gone"]; found {
		t.Errorf("it still has %+v", rec)
	}
}

// A put-after may be from before the loss. What it says is acknowledged is what the shard has lost.
func TestWhatWasAcknowledgedBeforeALossDoesNotCount(t *testing.T) {
	r := newLostRig(t)
	stage := func() string {
		r.wait(time.Second)
		r.wait(100 * time.Millisecond)
		p, _ := r.m.Backfill()
		return p.Stage
	}
	r.wait(time.Second)
	r.answerHellos(bothCoordinators[:1], func(s *causal.LaneSync) { s.Newest = 6 })
	r.answerHellos(bothCoordinators[1:])
	r.put("y", record(version(6)), func(a *causal.PutAfter) {
		a.Map, a.Previous, a.AckedUpTo = r.topo.Map(0), 5, 5
	})
	if is := stage(); is != "asking" {
		t.Errorf("without the write at 5 it is %s", is)
	}
	r.put("x", record(version(5)), func(a *causal.PutAfter) { a.Map, a.Previous = r.topo.Map(0), 0 })
	if is := stage(); is != BackfillCopies {
		t.Errorf("with it, it is %s", is)
	}
}

// It was received before, so it may be older than what a donor has dropped since.
func TestAPutThatWasReceivedBeforeALossIsLookedUpAlsoWhenItsLaneIsInStep(t *testing.T) {
	r := newLostRig(t)
	l := r.m.lanes.of(1)
	l.synced, l.syncTarget = true, 20
	for hlc, want := range map[causal.HLC]bool{20: true, 21: false} {
		key := string(rune('a' + hlc))
		r.m.backfill.notePut(key, l, hlc)
		if _, got := r.m.backfill.suspects[key]; got != want {
			t.Errorf("a put at %d, in a lane that is in step at 20, is looked up: %v", hlc, got)
		}
	}
}
