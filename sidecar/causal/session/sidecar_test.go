package session

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

func TestAnOperationOfASessionThatIsNotOpenFails(t *testing.T) {
	r := newRig(t)
	if res := r.mustResult(r.start(Op{Kind: OpGet, Key: "x", Session: 7})); res.Err != causal.ErrUnavailable {
		t.Errorf("got %s", res.Err)
	}
}

func TestClosingASessionFailsItsOperationsAndNoOthers(t *testing.T) {
	r := newRig(t)
	r.s.Open(2)
	get, put := r.startGet("x"), r.startPut("x", "1")
	other := r.start(Op{Kind: OpGet, Key: "x", Session: 2})
	r.s.Close(1)
	if err := r.mustResult(get).Err; err != causal.ErrUnavailable {
		t.Errorf("get: %s", err)
	}
	if err := r.mustResult(put).Err; err != causal.ErrUnknown {
		t.Errorf("put: %s", err)
	}
	r.mustBeUnfinished(other)
	for _, m := range r.s.Take(nil) { // replies to the closed session change nothing
		switch m.Kind {
		case causal.KindPut:
			r.replyPut(&m, ownVersion(10), causal.OK)
		case causal.KindGet:
			r.replyGet(&m, causal.GetReply{Record: record(version(5)), Status: causal.Stable, Ring: near})
		}
	}
	r.complete(ownVersion(10))
	if err := r.mustResult(other).Err; err != causal.OK {
		t.Errorf("the other session: %s", err)
	}
}

func TestWaitIsAnsweredWhenTheNewestPutIsWhereItWasAskedFor(t *testing.T) {
	for _, tt := range []struct {
		name  string
		ring  topology.RingID
		learn func(r *rig)
		done  bool
	}{
		{"in a ring, by RV", middle, func(r *rig) { r.receivedUpTo(10, middle) }, true},
		{"but not by RV of another ring", middle, func(r *rig) { r.receivedUpTo(10, near) }, false},
		{"in all rings, by the coordinator", topology.NoRing, func(r *rig) { r.complete(ownVersion(10)) }, true},
		{"in all rings, by SV", topology.NoRing, func(r *rig) { r.completeUpTo(10) }, true},
		{"but not while one ring lacks it", topology.NoRing, func(r *rig) { r.receivedUpTo(10, near) }, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t)
			r.write("x", "1", ownVersion(10))
			id := r.start(Op{Kind: OpWait, Ring: tt.ring})
			r.mustBeUnfinished(id)
			tt.learn(r)
			if _, done := r.result(id); done != tt.done {
				t.Errorf("answered: %t", done)
			}
		})
	}
	t.Run("at once if there is no incomplete put", func(t *testing.T) {
		r := newRig(t)
		r.mustResult(r.start(Op{Kind: OpWait, Ring: topology.NoRing}))
	})
	t.Run("with an error after the timeout", func(t *testing.T) {
		r := newRig(t)
		r.write("x", "1", ownVersion(10))
		id := r.start(Op{Kind: OpWait, Ring: topology.NoRing, Timeout: time.Second})
		r.tick(time.Second)
		if err := r.mustResult(id).Err; err != causal.ErrUnavailable {
			t.Errorf("got %s", err)
		}
	})
}

func TestCountAddsUpTheShardsOfTheOwnRing(t *testing.T) {
	dcs, rings := []topology.DataCenter{{Name: "a", Coordinators: 1, Shards: 3}},
		[]topology.Ring{{Name: "r", DCs: []topology.DC{0}}}
	topo, err := topology.New(1, dcs, rings, nil)
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, topo: topo, s: New(DefaultConfig(topo, topology.Node{Part: topology.Sidecar, Index: 1})),
		results: map[uint64]Result{}}
	r.s.Open(1)
	id := r.start(Op{Kind: OpCount})
	for i, m := range r.sent(causal.KindCount) {
		r.mustBeUnfinished(id)
		reply := causal.CountReply{ID: m.Count().ID, Keys: uint64(10 + i)}.Message(m.To, m.From)
		r.step(reply)
		r.step(reply) // a duplicate is not counted
	}
	if n := r.mustResult(id).Count; n != 10+11+12 {
		t.Errorf("counted %d keys, want 33", n)
	}
}

func TestTheSubscriptionToTheVectorsIsRenewed(t *testing.T) {
	r := newRig(t)
	r.tick(0)
	if m := r.request(causal.KindSubscribe); m.To != r.topo.Leader(0) {
		t.Errorf("%s was asked", m.To)
	}
	r.tick(time.Millisecond)
	if again := r.sent(causal.KindSubscribe); len(again) > 0 {
		t.Error("it was asked again at once")
	}
	r.tick(causal.SubscriptionTTL / 2)
	r.request(causal.KindSubscribe)
}

func TestTheTimeThatSessionsAreBoundIsCounted(t *testing.T) {
	r := newRig(t)
	r.tick(time.Second)
	r.read("x", version(10), causal.InFlight, near)
	r.tick(time.Second)
	r.completeUpTo(10)
	r.tick(time.Second)
	if st := r.s.Stats(); st.Bindings != 1 || st.BoundNs != uint64(time.Second) || st.InFlightReads != 1 {
		t.Errorf("%+v", st)
	}
}

func TestReadsFollowASlotMapOnlyWhenAMiddlemanUsesIt(t *testing.T) {
	shape := func(shards, before, coordinators int) *topology.Topology {
		dcs := []topology.DataCenter{{Name: "a", Coordinators: coordinators, Shards: shards, ShardsBefore: before}}
		topo, err := topology.New(1, dcs, []topology.Ring{{Name: "r", DCs: []topology.DC{0}}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return topo
	}
	old, changing := shape(1, 0, 1), shape(2, 1, 2)
	r := &rig{t: t, topo: old, s: New(DefaultConfig(old, topology.Node{Part: topology.Sidecar, Index: 1})),
		results: map[uint64]Result{}}
	r.s.Open(1)
	key := "k"
	for i := 0; changing.Owner(0, topology.SlotOf(key)).Index != 1; i++ {
		key = string(rune('a' + i))
	}
	r.s.SetTopology(changing)
	asked := func() uint64 {
		r.startGet(key)
		return r.request(causal.KindGet).To.Index
	}
	if shard := asked(); shard != 0 {
		t.Errorf("shard %d was asked before any middleman uses the new map", shard)
	}
	r.tick(0)
	if pings := r.sent(causal.KindPing); len(pings) != 2 {
		t.Errorf("%d middlemen were asked for their map, want 2", len(pings))
	}
	r.step(causal.Pong{Map: changing.Map(0)}.Message(topology.Node{Part: topology.Middleman, Index: 1}, r.s.cfg.Self))
	if shard := asked(); shard != 1 {
		t.Errorf("shard %d was asked, want 1 of the new map", shard)
	}
}

func TestCountGoesToAnotherRing(t *testing.T) {
	for what, fail := range map[string]func(r *rig, m *causal.Message){
		"has lost its data": func(r *rig, m *causal.Message) {
			r.step(causal.CountReply{ID: m.Count().ID, Err: causal.ErrDataLost}.Message(m.To, m.From))
		},
		"cannot read it": func(r *rig, m *causal.Message) {
			r.step(causal.CountReply{ID: m.Count().ID, Err: causal.ErrStorage}.Message(m.To, m.From))
		},
		"gives no answer": func(*rig, *causal.Message) {},
	} {
		t.Run(what, func(t *testing.T) {
			r := newRig(t)
			id := r.start(Op{Kind: OpCount})
			first := r.request(causal.KindCount)
			if first.To != r.shard(near) {
				t.Errorf("asked %v first", first.To)
			}
			fail(r, first)
			r.tick(2 * time.Second)
			r.mustBeUnfinished(id)
			second := r.request(causal.KindCount)
			if second.To != r.shard(middle) {
				t.Errorf("then asked %v", second.To)
			}
			r.step(causal.CountReply{ID: first.Count().ID, Keys: 7}.Message(first.To, first.From)) // too late
			r.step(causal.CountReply{ID: second.Count().ID, Keys: 5}.Message(second.To, second.From))
			if n := r.mustResult(id).Count; n != 5 {
				t.Errorf("counted %d keys, want 5", n)
			}
		})
	}
}

func TestEachSessionShowsItsState(t *testing.T) {
	r := newRig(t)
	r.s.Open(2)
	r.read("x", version(10), causal.InFlight, near)
	r.write("k", "v", ownVersion(20))
	got := map[uint64]Status{}
	r.s.EachSession(func(id uint64, st Status) { got[id] = st })
	want := map[uint64]Status{
		1: {Restrictions: 1, OldestRestriction: version(10), OldestSlot: topology.SlotOf("x"),
			Rings: topology.RingsOf(near), IncompleteWrites: 1},
		2: {Rings: topology.RingsOf(near, middle, far)},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}
