package shard

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/middleman"
	"github.com/causalstore/causalstore/topology"
)

var leaderA = topology.Node{Part: topology.Coordinator}

// answered answers the inquiry of a shard: nobody knows of a past.
func answered(s *Shard) *Shard {
	for _, n := range s.Unanswered() {
		s.handlePastReply(causal.Now{}, n, causal.PastReply{ID: s.inquiry.id})
	}
	return s
}

// twoCoordinators is a data center with one ring, one shard and two coordinators.
func twoCoordinators(t *testing.T) *topology.Topology {
	t.Helper()
	topo, err := topology.New(1, []topology.DataCenter{{Name: "a", Coordinators: 2, Caches: 1, Shards: 1}},
		[]topology.Ring{{Name: "r", DCs: []topology.DC{0}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return topo
}

func TestAnEmptyStorageIsServedOnceEveryCoordinatorHasAnswered(t *testing.T) {
	self, second := topology.Node{Part: topology.Middleman}, topology.Node{Part: topology.Coordinator, Index: 1}
	for _, c := range []struct {
		name                        string
		replies                     map[topology.Node]causal.PastReply
		plans, fresh, lost, inquire bool
		incarnation                 uint64
	}{
		{name: "nobody has answered", inquire: true},
		{name: "one has answered", replies: map[topology.Node]causal.PastReply{leaderA: {ID: 7}}, inquire: true},
		{name: "answers to an earlier start",
			replies: map[topology.Node]causal.PastReply{leaderA: {ID: 6, HadData: true}, second: {ID: 6}},
			inquire: true},
		// from the time, which is 0, and the ID
		{name: "nobody knows of it", replies: map[topology.Node]causal.PastReply{leaderA: {ID: 7}, second: {ID: 7}},
			plans: true, fresh: true, incarnation: 8},
		{name: "the leader says that the other one is away",
			replies: map[topology.Node]causal.PastReply{leaderA: {ID: 7, Away: 1 << 1}}, plans: true, fresh: true,
			incarnation: 8},
		{name: "it has started before, and acknowledged nothing",
			replies: map[topology.Node]causal.PastReply{leaderA: {ID: 7, Incarnation: 4}, second: {ID: 7}},
			plans:   true, incarnation: 12},
		{name: "one has acknowledgements of it",
			replies: map[topology.Node]causal.PastReply{leaderA: {ID: 7, Incarnation: 4, HadData: true}},
			plans:   true, lost: true, incarnation: 12},
	} {
		s := New(twoCoordinators(t), self, nil, Past{ID: 7})
		for from, r := range c.replies {
			m := r.Message(from, self)
			s.Step(causal.Now{Mono: 1}, &m)
		}
		s.Tick(causal.Now{Mono: 1})
		asked := 0
		for _, m := range s.Take(nil) {
			if m.Kind == causal.KindPastQuery {
				asked++
			}
		}
		plan, ok := s.PlanStart(causal.Now{}, middleman.DefaultConfig(twoCoordinators(t), self), History{})
		lost, _ := s.DataLost()
		if ok != c.plans || plan.Config.Fresh != c.fresh || plan.Config.DataLost != c.lost ||
			(plan.Loss != NoLoss) != c.lost || lost != c.lost ||
			plan.Config.Emptied != (ok && !c.fresh && !c.lost) || plan.Config.Incarnation != c.incarnation ||
			asked > 0 != c.inquire {
			t.Errorf("%s: plans %v %+v, lost %v, asked %d", c.name, ok, plan, lost, asked)
		}
	}
}

func TestCoordinatorsThatLeaveDuringAnInquiryAreNotWaitedForAndTheirLeaderIsAskedAgain(t *testing.T) {
	self, second := topology.Node{Part: topology.Middleman}, topology.Node{Part: topology.Coordinator, Index: 1}
	one, err := topology.New(2, []topology.DataCenter{{Name: "a", Coordinators: 1, Caches: 1, Shards: 1}},
		[]topology.Ring{{Name: "r", DCs: []topology.DC{0}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, hadData := range []bool{false, true} {
		s := New(twoCoordinators(t), self, nil, Past{ID: 7})
		mono := int64(1)
		ask := func() (id uint64) {
			mono += int64(pastQueryInterval)
			s.Tick(causal.Now{Mono: mono})
			for _, m := range s.Take(nil) {
				if m.Kind == causal.KindPastQuery && m.To == leaderA {
					id = m.PastQuery().ID
				}
			}
			return id
		}
		before := ask()
		// the leader does not know yet what the second one knows
		m := causal.PastReply{ID: before}.Message(leaderA, self)
		s.Step(causal.Now{Mono: mono}, &m)
		s.SetTopology(one, nil)
		if _, ok := s.servingTopology(); ok {
			t.Fatal("it serves on the word of the leader from before")
		}
		after := ask()
		if after == 0 || after == before {
			t.Fatalf("the leader is asked with ID %d, before with %d", after, before)
		}
		for _, r := range []causal.PastReply{{ID: before}, {ID: after, HadData: hadData}} {
			m := r.Message(leaderA, self)
			s.Step(causal.Now{Mono: mono}, &m)
		}
		if lost, _ := s.DataLost(); lost != hadData || s.inquiry != nil {
			t.Errorf("the leader knows of data: %v; lost %v, inquiry %+v, unanswered %v", hadData, lost, s.inquiry,
				s.Unanswered())
		}
		m = causal.PastReply{ID: after, HadData: true}.Message(second, self)
		s.Step(causal.Now{Mono: mono}, &m) // too late for anything
	}
}

func TestAShardThatHasLostItsDataStaysSoAndGivesNoSlots(t *testing.T) {
	topo, self := oneRing(t, 2, 1), topology.Node{Part: topology.Middleman}
	cfg := DefaultMoverConfig(topo, self)
	cfg.Life, cfg.State, cfg.Notice = 1, MigrationState{Map: oneRing(t, 1, 0).Map(0)}, 0
	s := New(topo, self, NewMover(cfg), Past{Starts: 3, Loss: LossFound})
	plan, ok := s.PlanStart(causal.Now{}, middleman.DefaultConfig(topo, self), History{Starts: 3})
	if !ok || !plan.Config.DataLost {
		t.Fatalf("plan %v %+v", ok, plan)
	}
	s.Start(middleman.New(plan.Config, causal.Now{Mono: 1}), plan)
	for mono := int64(1); mono < 20e9; mono += 1e8 {
		s.Tick(causal.Now{Mono: mono})
		if ops := s.MoveOps(nil); len(ops) > 0 {
			t.Fatalf("it moves slots: %+v", ops)
		}
	}
}

func TestACoordinatorWithAnEmptyLogLearnsFromShardsThatItHadWrites(t *testing.T) {
	topo, self := twoCoordinators(t), topology.Node{Part: topology.Middleman}
	for _, stored := range []bool{false, true} {
		s := New(topo, self, nil, Past{Starts: 1, HasWritesOf: func(o topology.Origin) bool {
			return stored &&
				o == topo.OriginOf(leaderA)
		}})
		m := causal.PastQuery{ID: 9}.Message(leaderA, self)
		s.Step(causal.Now{Mono: 1}, &m)
		sent := s.Take(nil)
		if len(sent) != 1 || sent[0].Kind != causal.KindPastReply ||
			!cmp.Equal(sent[0].PastReply(), causal.PastReply{ID: 9, HadData: stored}) {
			t.Errorf("stored %v: %v", stored, sent)
		}
	}
	for _, gaveUp := range []bool{false, true} { // a log of which nothing was written
		var fences causal.Fences
		if gaveUp {
			fences = fences.With(topo.OriginOf(leaderA), 5)
		}
		s := New(topo, self, nil, Past{Starts: 1, HasWritesOf: func(topology.Origin) bool { return false }})
		plan, ok := s.PlanStart(causal.Now{}, middleman.DefaultConfig(topo, self), History{Starts: 1, Fences: fences})
		if !ok {
			t.Fatal("it does not start")
		}
		s.Start(middleman.New(plan.Config, causal.Now{Mono: 1}), plan)
		s.Take(nil)
		m := causal.PastQuery{ID: 9}.Message(leaderA, self)
		s.Step(causal.Now{Mono: 1}, &m)
		sent := s.Take(nil)
		if len(sent) != 1 || sent[0].Kind != causal.KindPastReply || sent[0].PastReply().HadData != gaveUp {
			t.Errorf("a log was given up %v: %v", gaveUp, sent)
		}
	}
	s := New(topo, self, nil, Past{Starts: 1})
	for _, from := range []topology.Node{{Part: topology.Coordinator, DC: 9}, {Part: topology.Coordinator, Index: 99},
		{Part: topology.Cache}} {
		m := causal.PastQuery{ID: 9}.Message(from, self)
		s.Step(causal.Now{Mono: 1}, &m)
		if sent := s.Take(nil); len(sent) > 0 {
			t.Errorf("%s is answered: %v", from, sent)
		}
	}
}
