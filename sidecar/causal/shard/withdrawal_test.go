package shard

import (
	"testing"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/middleman"
	"github.com/causalstore/causalstore/topology"
)

// threeRings returns a topology of three rings with a shard each, of which the first one is keepsData.
func threeRings(t *testing.T, keepsData int) *topology.Topology {
	t.Helper()
	dcs := []topology.DataCenter{{Name: "a", Coordinators: 1, Shards: 1, Exclusions: keepsData, KeepsData: keepsData},
		{Name: "b", Coordinators: 1, Shards: 1}, {Name: "c", Coordinators: 1, Shards: 1}}
	topo, err := topology.New(1, dcs, []topology.Ring{{Name: "r", DCs: []topology.DC{0}},
		{Name: "s", DCs: []topology.DC{1}}, {Name: "u", DCs: []topology.DC{2}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return topo
}

// A damaged shard begins again once another one has what it lacks, by its word of the last 2 s. Before, it keeps what
// it has and answers nothing.
func TestADamagedShardKeepsWhatItHasUntilAnotherRingHasWhatItLacks(t *testing.T) {
	topo, self := threeRings(t, 0), topology.Node{Part: topology.Middleman}
	x, y := causal.KeyRanges{causal.OneKey("x")}, causal.KeyRanges{causal.OneKey("y")}
	for _, c := range []struct {
		what   string
		loss   Loss
		word   causal.PastReply
		begins bool
		clears bool
	}{
		{"nothing is said", LossPartial, causal.PastReply{}, false, false},
		{"another one has all data", LossPartial, causal.PastReply{HasAll: true}, true, false},
		{"another one lacks other keys", LossPartial, causal.PastReply{Vouches: true, Lacks: y}, true, false},
		{"another one lacks the same", LossPartial, causal.PastReply{Vouches: true, Lacks: x.With(y[0])}, false, false},
		{"another one lacks the same, and a person has accepted that", LossPartial,
			causal.PastReply{Vouches: true, Lacks: x, Accepted: true}, true, false},
		{"another one has all data, for one of which nothing tells what it lacks", LossFound,
			causal.PastReply{HasAll: true}, true, true},
		{"another one lacks some, for one of which nothing tells what it lacks", LossFound,
			causal.PastReply{Vouches: true, Lacks: y}, false, false},
	} {
		s := New(topo, self, nil, Past{Starts: 4, Loss: c.loss, Missing: x, ID: 7,
			HasWritesOf: func(topology.Origin) bool { return false }})
		now := causal.Now{Mono: 1, WallMs: 1000}
		if _, ok := s.PlanStart(now, middleman.DefaultConfig(topo, self), History{Starts: 4}); ok {
			t.Fatalf("%s: it serves before it has asked", c.what)
		}
		ask := func() (asked []causal.Message) {
			s.Tick(now)
			return s.Take(nil)
		}
		asked := ask()
		if len(asked) != 2 {
			t.Fatalf("%s: asked are %v", c.what, asked)
		}
		now.Mono += int64(copyRound) // a word that comes late is of no use
		late := asked[0]
		asked = ask()
		c.word.Map = topo.Map(1)
		answer := func(m causal.Message) {
			c.word.ID = m.PastQuery().ID
			reply := c.word.Message(m.To, self)
			s.Step(now, &reply)
		}
		otherMap := c.word // it need not have the slots of this one
		otherMap.Map, otherMap.ID = topo.Map(1)+1, asked[0].PastQuery().ID
		reply := otherMap.Message(asked[0].To, self)
		s.Step(now, &reply)
		answer(late)
		if w, withdrawn := s.Withdrawn(); !withdrawn || len(w.Without) != 2 || w.Excluded {
			t.Errorf("%s: after a late word, and one under another slot map: %+v, %v", c.what, w, withdrawn)
		}
		answer(asked[0])
		w, withdrawn := s.Withdrawn()
		if withdrawn == c.begins || c.loss == LossPartial && withdrawn && !w.Missing.Has("x") {
			t.Errorf("%s: withdrawn %v: %+v", c.what, withdrawn, w)
		}
		if got := len(w.Nowhere) > 0; got != (c.loss == LossPartial && c.word.Vouches && !c.begins) {
			t.Errorf("%s: lost everywhere are %q", c.what, w.Nowhere)
		}
		plan, ok := s.PlanStart(now, middleman.DefaultConfig(topo, self),
			History{Starts: 4, Lineage: causal.Lineage{}.With(4, causal.Position{})})
		if ok != c.begins || ok && (plan.Clear != c.clears || !plan.Config.DataLost ||
			plan.Config.Missing.Has("x") == c.clears) {
			t.Errorf("%s: it begins: %v, %+v", c.what, ok, plan)
		}
		if ok && plan.Config.Lineage.HasPast() == c.clears { // without, nobody would notice that it is an older copy
			t.Errorf("%s: the lineage is %v", c.what, plan.Config.Lineage)
		}
	}
}

// What is known to lack some keys gives the others, also while it waits; what was lost is refused.
func TestAShardThatWaitsTellsOthersWhatItLacks(t *testing.T) {
	topo, self, other := threeRings(t, 0), topology.Node{Part: topology.Middleman},
		topology.Node{DC: 1, Part: topology.Middleman}
	missing := causal.KeyRanges{causal.OneKey("x")}
	s := New(topo, self, nil, Past{Starts: 4, Loss: LossPartial, Missing: missing})
	now := causal.Now{Mono: 1}
	for _, m := range []causal.Message{causal.PastQuery{ID: 3}.Message(other, self),
		causal.Scan{ID: 4}.Message(other, self), causal.Get{ID: 5, Key: "k"}.Message(other, self)} {
		s.Step(now, &m)
	}
	sent := s.Take(nil)
	if len(sent) != 3 {
		t.Fatalf("sent are %v", sent)
	}
	if r := sent[0].PastReply(); r.HasAll || !r.Vouches || !r.Lacks.Has("x") || r.Map != topo.Map(0) || r.ID != 3 {
		t.Errorf("it says %+v", r)
	}
	if r := sent[1].ScanReply(); r.Err != causal.ErrDataLost || !r.Lacks.Has("x") {
		t.Errorf("a scan: %+v", r)
	}
	if r := sent[2].GetReply(); r.Err != causal.ErrDataLost {
		t.Errorf("a get: %+v", r)
	}
}

// That a person lets the data of a ring count is not said of a storage that has lost some.
func TestTheDataOfADamagedShardDoNotCountByAnExclusion(t *testing.T) {
	topo, self := threeRings(t, 1), topology.Node{Part: topology.Middleman}
	for _, loss := range []Loss{LossFound, LossPartial, LossCleared} {
		s := New(topo, self, nil, Past{Starts: 4, Loss: loss, Missing: causal.KeyRanges{causal.OneKey("x")}})
		now := causal.Now{Mono: 1}
		var from causal.Outbox
		from.SetExclusions(causal.Exclusions{1})
		from.Send(causal.Ping{ID: 1}.Message(topology.Node{DC: 1, Part: topology.Coordinator}, self))
		for _, m := range from.Take(nil) {
			s.Step(now, &m)
		}
		for range 60 {
			now.Mono += int64(250 * time.Millisecond)
			s.Tick(now)
			s.Take(nil)
		}
		if w, withdrawn := s.Withdrawn(); !withdrawn || !w.Excluded {
			t.Errorf("loss %d: it goes on with what it has: %+v", loss, w)
		}
	}
}

// A storage that lacks some keys and is an older copy has nothing that is known to be as it was acknowledged. A
// coordinator tells.
func TestADamagedOlderCopyCountsAsLost(t *testing.T) {
	topo, self := threeRings(t, 0), topology.Node{Part: topology.Middleman}
	missing := causal.KeyRanges{causal.OneKey("x")}
	s := New(topo, self, nil, Past{Starts: 4, Loss: LossPartial, Missing: missing, ID: 7})
	now := causal.Now{Mono: 1, WallMs: 1000}
	s.Tick(now)
	reply := causal.PastReply{ID: s.Take(nil)[0].PastQuery().ID, HasAll: true,
		Map: topo.Map(1)}.Message(topology.Node{DC: 1, Part: topology.Middleman}, self)
	s.Step(now, &reply)
	plan, ok := s.PlanStart(now, middleman.DefaultConfig(topo, self), History{Starts: 4})
	if !ok {
		t.Fatal("it does not begin")
	}
	s.Start(middleman.New(plan.Config, now), plan)
	now.Mono += int64(time.Second)
	s.Tick(now)
	for _, m := range s.Take(nil) {
		if m.Kind == causal.KindLaneHello {
			h := m.LaneHello()
			answer := causal.LaneSync{Incarnation: h.Incarnation, Round: h.Round, Map: h.Map, Away: ^uint64(1),
				Surpassed: 9}.Message(m.To, self)
			s.Step(now, &answer)
		}
	}
	if s.IsCurrent() {
		t.Fatal("it goes on")
	}
	s.Stop()
	s.Drained()
	if _, ok := s.PlanStart(now, middleman.DefaultConfig(topo, self), History{Starts: 5}); ok {
		t.Error("it begins before another ring has all data")
	}
	s.Tick(now)
	for _, m := range s.Take(nil) {
		if m.Kind == causal.KindPastQuery {
			reply := causal.PastReply{ID: m.PastQuery().ID, HasAll: true,
				Map: topo.Map(topo.RingOf(m.To.DC))}.Message(m.To, self)
			s.Step(now, &reply)
		}
	}
	if plan, ok := s.PlanStart(now, middleman.DefaultConfig(topo, self), History{Starts: 5}); !ok || !plan.Clear ||
		plan.Config.Incarnation < 10 {
		t.Errorf("it begins: %v, %+v", ok, plan)
	}
}

// Each answer of another shard makes it look at all slots. It did assign all slots anew for each of them.
func TestAShardThatWithdrawsDuringAReshardingLooksUpTheOldMapOnce(t *testing.T) {
	dcs := []topology.DataCenter{{Name: "a", Coordinators: 1, Shards: 1},
		{Name: "b", Coordinators: 1, Shards: 2, ShardsBefore: 1}}
	topo, err := topology.New(1, dcs, []topology.Ring{{Name: "r", DCs: []topology.DC{0}},
		{Name: "s", DCs: []topology.DC{1}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	s := New(topo, topology.Node{Part: topology.Middleman}, nil, Past{Starts: 4, Loss: LossFound, ID: 7,
		HasWritesOf: func(topology.Origin) bool { return false }})
	if s.Tick(causal.Now{Mono: 1, WallMs: 1000}); len(s.Take(nil)) != 2 {
		t.Fatal("it does not ask the shard that had all slots, and the one that takes some")
	}
	if n := testing.AllocsPerRun(1, func() { s.Withdrawn() }); n > 3*float64(topology.Slots) {
		t.Errorf("a look at all %d slots allocates %v times", topology.Slots, n)
	}
}
