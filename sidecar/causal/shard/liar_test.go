package shard

import (
	"testing"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// What a part with a certificate of its own may say, and cannot know.

func TestAGiverHandsOverOnlyWhatItHadAndNothingFromTheFuture(t *testing.T) {
	r := newRing(t, 1, 1, 0)
	r.run(time.Second)
	taker := &host{id: topology.Node{Part: topology.Middleman, Index: 1}, topo: oneRing(t, 2, 1),
		disk: &storage{records: map[string]causal.Record{}}}
	taker.boot(t)
	m := taker.s.Mover()
	giver, kept, taken := topology.Node{Part: topology.Middleman}, "", ""
	for _, key := range keys(50) {
		if m.cfg.Topology.Owner(0, topology.SlotOf(key)) == taker.id {
			taken = key
		} else {
			kept = key
		}
	}
	limit := causal.HLC(100)
	record := func(hlc causal.HLC) causal.Record { return causal.Record{Version: causal.Version{HLC: hlc, Origin: 1}} }
	for name, c := range map[string]struct {
		p    causal.Pulled
		from topology.Node
		want bool
	}{
		"what it gives": {causal.Pulled{Horizon: 100,
			Moved: []causal.Moved{{Key: taken, Record: record(100)}}}, giver, true},
		"a key of another slot": {causal.Pulled{Moved: []causal.Moved{{Key: kept, Record: record(5)}}},
			giver, false},
		"what another shard gives": {causal.Pulled{Moved: []causal.Moved{{Key: taken, Record: record(5)}}},
			taker.id, false},
		"a timestamp from the future": {causal.Pulled{Moved: []causal.Moved{{Key: taken, Record: record(101)}}},
			giver, false},
		"a horizon from the far future": {causal.Pulled{Horizon: 101}, giver, false},
	} {
		if got := m.isPulledFrom(c.from, &c.p, limit); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestAnEmptyStorageBelievesNoImpossibleIncarnationAndOnlyLeadersOnWhoIsAway(t *testing.T) {
	second := topology.Node{Part: topology.Coordinator, Index: 1}
	s := New(twoCoordinators(t), topology.Node{Part: topology.Middleman}, nil,
		Past{ID: 7, HasWritesOf: func(topology.Origin) bool { return false }})
	s.handlePastReply(causal.Now{}, second, causal.PastReply{ID: s.inquiry.id, Away: 1, Incarnation: causal.MaxCounter})
	if n := s.Unanswered(); len(n) != 1 || n[0] != leaderA {
		t.Fatalf("still to be asked: %v", n)
	}
	s.handlePastReply(causal.Now{}, leaderA, causal.PastReply{ID: s.inquiry.id})
	if s.past.Starts != 0 {
		t.Errorf("it starts as incarnation %d", s.past.Starts+1)
	}
}
