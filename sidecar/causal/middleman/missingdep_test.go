package middleman

import (
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// answerProbes answers the probes that were sent to a shard: the dependency is missing there.
func (r *rig) answerProbes(shard topology.Node) int {
	probes := r.received(causal.KindDepProbe, shard)
	for _, m := range probes {
		p := m.DepProbe()
		r.step(causal.DepMissing{ID: p.ID, Incarnation: p.Incarnation, Dep: p.Dep, Lane: p.Lane}.Message(shard, self))
	}
	return len(probes)
}

// probe asks the middleman for a dependency, as another shard does, and reports whether it says that it is missing.
func (r *rig) probe(d causal.Dep, lane bool) bool {
	r.step(causal.DepProbe{ID: 7, Incarnation: 3, Dep: d, Lane: lane, Map: r.topo.Map(0)}.Message(peer, self))
	return len(r.received(causal.KindDepMissing, peer)) > 0
}

// A coordinator may have stopped before it sent a dependency to this ring.
func TestABoundReaderPassesAStagedPutThatLacksADependencyAfterItsArrival(t *testing.T) {
	ruleHolds(t, causal.MissingLongAgo, func(r *rig) string {
		key := r.key(self, 0)
		r.put(key, record(version(10)), after(version(5), r.key(peer, 0)))
		if _, ok := r.get(causal.Get{Key: key, Seen: 10}); ok {
			return "a read was answered before anything is known of the dependency"
		}
		id := r.lastID
		r.wait(probeDelay)
		if n := r.answerProbes(peer); n != 1 {
			r.t.Fatalf("%d probes", n)
		}
		if reply, ok := r.reply(id); !ok || reply.Record.Version.Written() {
			r.t.Fatalf("the read is answered: %v, with %s", ok, reply.Record.Version)
		}
		if _, ok := r.get(causal.Get{Key: key, Seen: 10}); ok {
			return "a read was answered though the dependency may have arrived before it, and been seen"
		}
		return ""
	})
}

func TestALaneThatIsNotReceivedIsProbedToo(t *testing.T) {
	r := newRig(t)
	key := r.key(self, 0)
	r.put(key, record(version(10)), afterLane(version(5), r.key(peer, 0)))
	r.get(causal.Get{Key: key, Seen: 10})
	id := r.lastID
	r.wait(probeDelay)
	r.answerProbes(peer)
	if _, ok := r.reply(id); !ok {
		t.Error("the read was not answered")
	}
}

func TestADependencyOfTheSameShardIsProbedHere(t *testing.T) {
	r := newRig(t)
	key := r.key(self, 0)
	other := causal.Version{HLC: 5, Origin: 2}
	r.put(key, record(version(10)), after(other, r.key(self, 1)))
	r.get(causal.Get{Key: key, Seen: 10})
	id := r.lastID
	r.wait(probeDelay)
	if _, ok := r.reply(id); !ok {
		t.Error("the read was not answered")
	}
}

func TestAnAnswerToAProbeOfAnEarlierIncarnationIsIgnored(t *testing.T) {
	r := newRig(t)
	key, dep := r.key(self, 0), causal.Dep{Version: version(5), Slot: topology.SlotOf(r.key(peer, 0))}
	r.put(key, record(version(10)), after(dep.Version, r.key(peer, 0)))
	r.get(causal.Get{Key: key, Seen: 10})
	r.step(causal.DepMissing{ID: 99, Incarnation: r.config.Incarnation - 1, Dep: dep}.Message(peer, self))
	if _, ok := r.reply(r.lastID); ok {
		t.Error("the read was answered")
	}
}

func TestAMiddlemanSaysOfAWriteThatItIsMissingOnlyIfThatIsCertain(t *testing.T) {
	r := newRig(t)
	key := r.key(self, 0)
	dep := func(hlc causal.HLC) causal.Dep { return causal.Dep{Version: version(hlc), Slot: topology.SlotOf(key)} }
	if !r.probe(dep(10), false) || !r.probe(dep(10), true) {
		t.Error("a write that has not arrived is not reported")
	}
	r.put(key, record(version(10)), after(causal.Version{HLC: 4, Origin: 2}, r.key(peer, 0)))
	if r.probe(dep(10), true) {
		t.Error("the lane is reported as missing, though it is received")
	}
	if r.probe(dep(10), false) {
		t.Error("a staged write is reported as missing, though its dependency may be met")
	}
	r.wait(0)
	r.answerProbes(peer)
	if len(r.received(causal.KindDepMissing, peer)) != 1 {
		t.Error("a staged write whose own dependency is missing is not reported")
	}
	r.step(causal.DepStatus{Version: causal.Version{HLC: 4, Origin: 2}}.Message(peer, self))
	if r.probe(dep(10), false) {
		t.Error("a processed write is reported as missing")
	}
	if elsewhere := (causal.Dep{Version: version(20), Slot: topology.SlotOf(r.key(peer, 0))}); r.probe(elsewhere,
		false) {
		t.Error("a write of another shard is reported as missing")
	}
}

// What was received before a restart may have been seen, and may be forgotten.
func TestARestartedMiddlemanReportsNothingAsMissingUntilItsLaneIsInStep(t *testing.T) {
	ruleHolds(t, causal.MissingUnsynced, func(r *rig) string {
		key := r.key(self, 0)
		dep := causal.Dep{Version: version(10), Slot: topology.SlotOf(key)}
		r.put(key, record(version(10)), after(causal.Version{HLC: 4, Origin: 2}, r.key(peer, 0)))
		r.restart()
		if r.probe(dep, true) || r.probe(dep, false) {
			return "it reports a write as missing that it had received"
		}
		r.step(causal.LaneSync{Incarnation: r.config.Incarnation, Newest: 10,
			Map: r.topo.Map(0)}.Message(coordinator, self))
		if r.probe(dep, true) {
			return "it reports a write as missing that the coordinator is about to send again"
		}
		r.lastPut = map[topology.Origin]causal.HLC{}
		r.put(key, record(version(10)), after(causal.Version{HLC: 4, Origin: 2}, r.key(peer, 0)))
		if later := (causal.Dep{Version: version(11), Slot: dep.Slot}); !r.probe(later, true) {
			r.t.Error("in step again, it does not report a write that was never sent")
		}
		return ""
	})
}

// A put whose questions are all answered, and that is asked about again before the next tick, is in the list once.
func TestAPutThatIsAskedAboutAgainIsLookedAtOnce(t *testing.T) {
	r := newRig(t)
	key := r.key(self, 0)
	r.put(key, record(version(10)), after(version(5), r.key(peer, 0)))
	for range 3 {
		if _, ok := r.get(causal.Get{Key: key, Seen: 10}); ok {
			t.Fatal("a read is answered before anything is known of the dependency")
		}
		id := r.lastID
		r.wait(probeInterval)
		if n := r.answerProbes(peer); n != 1 {
			t.Fatalf("%d probes", n)
		}
		if _, ok := r.reply(id); !ok {
			t.Fatal("the read is not answered")
		}
	}
	if n := len(r.m.staged.questioned); n != 1 {
		t.Errorf("a put is in the list of those with questions %d times", n)
	}
}
