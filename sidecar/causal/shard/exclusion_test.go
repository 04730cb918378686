package shard

import (
	"testing"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/middleman"
	"github.com/causalstore/causalstore/topology"
)

// excludedRings has two rings of one data center with one shard each, of which the first was excluded n times.
func excludedRings(t *testing.T, n int) *topology.Topology {
	t.Helper()
	topo, err := topology.New(1, []topology.DataCenter{{Name: "a", Coordinators: 1, Shards: 1, Exclusions: n},
		{Name: "b", Ring: 1, Coordinators: 1, Shards: 1}},
		[]topology.Ring{{Name: "r", DCs: []topology.DC{0}}, {Name: "s", DCs: []topology.DC{1}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return topo
}

// withdrawing is the shard of the first data center, and other that of the second one.
type withdrawing struct {
	t     *testing.T
	s     *Shard
	now   causal.Now
	other topology.Node
}

// from delivers a message of the other shard, which applies exclusions.
func (w *withdrawing) from(m causal.Message, x causal.Exclusions) {
	var out causal.Outbox
	out.SetExclusions(x)
	out.Send(m)
	for _, m := range out.Take(nil) {
		w.s.Step(w.now, &m)
	}
}

// hears makes the shard hear of the n-th exclusion of its data center, and returns the number of its question whether
// there is a copy.
func (w *withdrawing) hears(n uint32) (question uint64) {
	w.t.Helper()
	w.from(causal.Ping{ID: 1}.Message(w.other, w.s.self), causal.Exclusions{n})
	w.now.Mono += int64(copyQueryInterval)
	w.s.Tick(w.now)
	for _, m := range w.s.Take(nil) {
		if m.Kind == causal.KindPastQuery && m.To == w.other {
			question = m.PastQuery().ID
		}
	}
	if _, withdrawn := w.s.Withdrawn(); !withdrawn || question == 0 {
		w.t.Fatalf("it has withdrawn: %v, and asks with %d", withdrawn, question)
	}
	return question
}

// Who does not apply the exclusion may take what it has from this shard, or hear of another exclusion and begin again.
func TestOnlyAShardThatGoesByTheExclusionHasACopy(t *testing.T) {
	topo := excludedRings(t, 1)
	w := &withdrawing{t: t, now: causal.Now{Mono: int64(time.Hour)},
		other: topology.Node{DC: 1, Part: topology.Middleman}}
	w.s = New(topo, topology.Node{Part: topology.Middleman}, nil, Past{Starts: 1, ID: 7})
	question := w.hears(1)
	copied := causal.PastReply{ID: question, HasAll: true, Map: topo.Map(1)}.Message(w.other, w.s.self)
	w.from(copied, nil)
	if _, withdrawn := w.s.Withdrawn(); !withdrawn {
		t.Error("it has given up its data for those of a shard that does not know of the exclusion")
	}
	w.from(copied, causal.Exclusions{1})
	if _, withdrawn := w.s.Withdrawn(); withdrawn {
		t.Error("it keeps its data though another shard has said that it has them")
	}
}

// The answer may be of a shard that has withdrawn since.
func TestAnAnswerAboutAnEarlierExclusionDoesNotCount(t *testing.T) {
	w := &withdrawing{t: t, now: causal.Now{Mono: int64(time.Hour)},
		other: topology.Node{DC: 1, Part: topology.Middleman}}
	w.s = New(excludedRings(t, 1), topology.Node{Part: topology.Middleman}, nil, Past{Starts: 1, ID: 7})
	first := w.hears(1)
	topo := excludedRings(t, 2)
	w.s.SetTopology(topo, nil)
	if second := w.hears(2); second == first {
		t.Errorf("it asks with %d again", second)
	}
	w.from(causal.PastReply{ID: first, HasAll: true, Map: topo.Map(1)}.Message(w.other, w.s.self), causal.Exclusions{2})
	if _, withdrawn := w.s.Withdrawn(); !withdrawn {
		t.Error("it has given up its data for an answer to what it has asked before")
	}
}

// The host stops the middleman some time later. Until then, it would answer with what was there before.
func TestAMiddlemanWithDataFromBeforeAnExclusionGetsNothing(t *testing.T) {
	topo, self := excludedRings(t, 1), topology.Node{Part: topology.Middleman}
	w := &withdrawing{t: t, now: causal.Now{Mono: int64(time.Hour)},
		other: topology.Node{DC: 1, Part: topology.Middleman}}
	w.s = New(topo, self, nil, Past{Starts: 1, ID: 7})
	plan, ok := w.s.PlanStart(w.now, middleman.DefaultConfig(topo, self), History{Starts: 1})
	if !ok {
		t.Fatal("it does not start")
	}
	m := middleman.New(plan.Config, w.now)
	w.s.Start(m, plan)
	w.hears(1)
	w.s.Take(nil)
	m.Ops(nil)
	get := causal.Get{ID: 1, Key: "k"}.Message(topology.Node{Part: topology.Sidecar, Index: 1}, self)
	w.s.Step(w.now, &get)
	if sent, ops := w.s.Take(nil), m.Ops(nil); len(sent)+len(ops) > 0 {
		t.Errorf("it sends %v, and asks its storage for %v", sent, ops)
	}
}

// Between two middlemen, the shard applies what the first one applied.
func TestAShardGoesByTheExclusionsOfTheMiddlemanThatItHasStopped(t *testing.T) {
	topo, self := excludedRings(t, 1), topology.Node{DC: 1, Part: topology.Middleman}
	s := New(topo, self, nil, Past{Starts: 1, ID: 7})
	x := causal.Exclusions{1}
	plan, ok := s.PlanStart(causal.Now{}, middleman.DefaultConfig(topo, self), History{Starts: 1, Exclusions: x})
	if !ok {
		t.Fatal("it does not start")
	}
	s.Start(middleman.New(plan.Config, causal.Now{Mono: 1}), plan)
	if s.Stop(); !s.exclusions().Covers(x) {
		t.Errorf("it applies %v, and has applied %v", s.exclusions(), x)
	}
}
