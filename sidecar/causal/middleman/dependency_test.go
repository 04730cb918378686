package middleman

import (
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

func TestPutWaitsForItsDependenciesToBeProcessedAndItsAcknowledgementForThemToBeClean(t *testing.T) {
	ruleHolds(t, causal.AckBeforeDepsClean, func(r *rig) string {
		key, dep := r.key(self, 0), r.key(peer, 0)
		r.put(key, record(version(10)), after(version(5), dep))
		checks := r.received(causal.KindDepCheck, peer)
		if len(checks) != 1 || checks[0].DepCheck() != (causal.DepCheck{Version: version(5),
			Slot: topology.SlotOf(dep)}) {
			return "the owner of the dependency was not asked for it"
		}
		if len(r.writes) > 0 {
			return "the put was written before its dependency"
		}
		r.step(causal.DepStatus{Version: version(5)}.Message(peer, self))
		if len(r.writes) != 1 {
			return "the put was not written once its dependency was processed"
		}
		if len(r.acked(coordinator)) > 0 {
			return "the put was acknowledged before its dependency was clean"
		}
		r.step(causal.DepStatus{Version: version(5), Clean: true}.Message(peer, self))
		if len(r.acked(coordinator)) != 1 {
			return "the put was not acknowledged once its dependency was clean"
		}
		return ""
	})
}

func TestDependencyOnAWriteOfTheSameShardWaitsForThatVeryWrite(t *testing.T) {
	r := newRig(t)
	first, second := r.key(self, 0), r.key(self, 1)
	r.put(second, record(version(10)), after(causal.Version{HLC: 5, Origin: 2}, first))
	r.put(first, record(version(20))) // a greater version of the key is not the dependency
	if _, written := r.records[second]; written {
		t.Fatal("the put was written before its dependency")
	}
	r.put(first, record(causal.Version{HLC: 5, Origin: 2}))
	if _, written := r.records[second]; !written {
		t.Error("the put was not written after its dependency")
	}
	if len(r.received(causal.KindDepCheck, self)) > 0 {
		t.Error("the middleman asked itself")
	}
}

func TestPutsThatWaitForTheSameWriteShareOneCheck(t *testing.T) {
	r := newRig(t)
	dep := r.key(peer, 0)
	for i := range 3 {
		r.put(r.key(self, i), record(version(causal.HLC(10+i))), after(version(5), dep))
	}
	if n := len(r.received(causal.KindDepCheck, peer)); n != 1 {
		t.Errorf("%d checks, want 1", n)
	}
	r.step(causal.DepStatus{Version: version(5), Clean: true}.Message(peer, self))
	if n := len(r.acked(coordinator)); n != 3 {
		t.Errorf("%d puts were acknowledged, want 3", n)
	}
}

func TestUnansweredDependencyCheckIsRepeatedUntilTheWriteIsClean(t *testing.T) {
	r := newRig(t)
	r.put(r.key(self, 0), record(version(10)), after(version(5), r.key(peer, 0)))
	r.received(causal.KindDepCheck, peer)
	for _, step := range []struct {
		wait  bool
		clean bool
		want  int
	}{{wait: false, want: 0}, {wait: true, want: 1}, {wait: false, want: 0}, {wait: true, want: 1},
		{wait: true, clean: true, want: 0}} {
		if step.clean {
			r.step(causal.DepStatus{Version: version(5), Clean: true}.Message(peer, self))
		}
		d := r.config.DepRetryInterval / 2
		if step.wait {
			d = r.config.DepRetryInterval
		}
		r.wait(d)
		if !step.wait {
			r.now.Mono -= int64(d)
		}
		if n := len(r.received(causal.KindDepCheck, peer)); n != step.want {
			t.Errorf("%+v: %d checks", step, n)
		}
	}
}

func TestDependencyThatRVCoversIsResolvedWithoutAnAnswer(t *testing.T) {
	r := newRig(t)
	r.put(r.key(self, 0), record(version(10)), after(version(5), r.key(peer, 0)))
	r.step(causal.Vectors{Entries: []causal.VectorEntry{{Origin: 1, RV: []causal.HLC{5}}}}.Message(coordinator, self))
	if len(r.acked(coordinator)) != 1 {
		t.Error("the put still waits")
	}
	r.put(r.key(self, 1), record(version(20)), after(version(5), r.key(peer, 0)))
	if len(r.acked(coordinator)) != 1 {
		t.Error("a put waits for a dependency that RV covers")
	}
}

func TestDependencyThatIsMarkedCompleteIsResolved(t *testing.T) {
	r := newRig(t)
	r.put(r.key(self, 0), record(version(10)), after(version(5), r.key(peer, 0)))
	r.step(causal.StableMarks{Versions: []causal.Version{version(5)}}.Message(coordinator, self))
	if len(r.acked(coordinator)) != 1 {
		t.Error("the put still waits")
	}
}

func TestDependencyCheckIsAnsweredWhenTheWriteIsProcessedAndWhenItIsClean(t *testing.T) {
	r := newRig(t)
	key := r.key(self, 0)
	check := causal.DepCheck{Version: version(10), Slot: topology.SlotOf(key)}
	statuses := func(to topology.Node) (clean []bool) {
		for _, m := range r.received(causal.KindDepStatus, to) {
			if s := m.DepStatus(); s.Version == version(10) {
				clean = append(clean, s.Clean)
			}
		}
		return clean
	}
	r.step(check.Message(peer, self))
	if got := statuses(peer); len(got) != 0 {
		t.Fatalf("answers %v before the write arrived", got)
	}
	r.put(key, record(version(10)), after(version(5), r.key(peer, 0)))
	r.step(causal.DepStatus{Version: version(5)}.Message(peer, self))
	if got := statuses(peer); len(got) != 1 || got[0] {
		t.Fatalf("answers %v once the write is processed, want one", got)
	}
	r.step(check.Message(sidecar, self)) // another node asks meanwhile
	if got := statuses(sidecar); len(got) != 1 || got[0] {
		t.Fatalf("answers %v to a node that asks later, want one", got)
	}
	r.step(causal.DepStatus{Version: version(5), Clean: true}.Message(peer, self))
	for _, to := range []topology.Node{peer, sidecar} {
		if got := statuses(to); len(got) != 1 || !got[0] {
			t.Errorf("answers %v to %v once the write is clean, want one", got, to)
		}
	}
	r.step(check.Message(peer, self))
	if got := statuses(peer); len(got) != 1 || !got[0] {
		t.Errorf("answers %v to a check of a clean write, want one", got)
	}
}

func TestDependencyCheckIsAnsweredByTheOwnerOfTheSlotOnly(t *testing.T) {
	r := newRig(t)
	r.step(causal.DepCheck{Version: causal.Version{}, Slot: topology.SlotOf(r.key(peer, 0))}.Message(sidecar, self))
	if len(r.inbox) > 0 {
		t.Errorf("answered %v", r.inbox)
	}
}

func TestDependencyIsNotMetByAGreaterVersionOfItsKey(t *testing.T) {
	ruleHolds(t, causal.DepByGreater, func(r *rig) string {
		key := r.key(self, 0)
		r.put(key, record(version(20)))
		r.step(causal.DepCheck{Version: causal.Version{HLC: 10, Origin: 2},
			Slot: topology.SlotOf(key)}.Message(peer, self))
		if len(r.received(causal.KindDepStatus, peer)) > 0 {
			return "a write that has not arrived was reported as processed"
		}
		return ""
	})
}

func TestWatchersOfAWriteThatRVCoversAreAnswered(t *testing.T) {
	r := newRig(t)
	r.step(causal.DepCheck{Version: version(10), Slot: topology.SlotOf(r.key(self, 0))}.Message(peer, self))
	r.raiseSV(10)
	if got := r.received(causal.KindDepStatus, peer); len(got) != 1 || !got[0].DepStatus().Clean {
		t.Errorf("answers %v, want one that says clean", got)
	}
	if len(r.m.deps.watched) > 0 || len(r.m.deps.watchers) > 0 {
		t.Error("the watcher is still remembered")
	}
}

func TestRepeatedDependencyCheckOfANodeGetsOneAnswer(t *testing.T) {
	r := newRig(t)
	key := r.key(self, 0)
	for range 3 {
		r.step(causal.DepCheck{Version: version(10), Slot: topology.SlotOf(key)}.Message(peer, self))
	}
	r.put(key, record(version(10)))
	if got := r.received(causal.KindDepStatus, peer); len(got) != 2 || got[0].DepStatus().Clean ||
		!got[1].DepStatus().Clean {
		t.Errorf("answers %v, want one when it is processed and one when it is clean", got)
	}
}

func TestADependencyIsAskedForAgainWhenAnotherMemberServesItsShard(t *testing.T) {
	r := newRig(t)
	r.put(r.key(self, 0), record(version(10)), after(version(5), r.key(peer, 0)))
	r.received(causal.KindDepCheck, peer)
	r.m.LinkUp(r.now, peer)
	r.pump()
	if n := len(r.received(causal.KindDepCheck, peer)); n != 1 {
		t.Errorf("%d checks, want 1", n)
	}
	r.step(causal.DepStatus{Version: version(5), Clean: true}.Message(peer, self))
	r.m.LinkUp(r.now, peer)
	r.pump()
	if n := len(r.received(causal.KindDepCheck, peer)); n != 0 {
		t.Errorf("%d checks for what is clean", n)
	}
}

// A shard of another ring tells what it has of the write. Only that the write is complete says something of this ring.
func TestADependencyOfAnExcludedShardIsMetElsewhereOnlyIfItIsComplete(t *testing.T) {
	dcs := []topology.DataCenter{{Name: "a", Coordinators: 2, Caches: 1, Shards: 2},
		{Name: "b", Coordinators: 1, Caches: 1, Shards: 1}, {Name: "c", Coordinators: 1, Caches: 1, Shards: 1}}
	topo, err := topology.New(1, dcs, []topology.Ring{{Name: "r", DCs: []topology.DC{0, 1}},
		{Name: "s", DCs: []topology.DC{2}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, func(c *Config) { c.Topology, c.Exclusions = topo, causal.Exclusions{0, 1} })
	r.topo = topo
	key, dep := r.key(self, 0), r.key(topology.Node{DC: 1, Part: topology.Middleman}, 0)
	other := topo.Owner(1, topology.SlotOf(dep))
	r.put(key, record(version(10)), after(version(5), dep))
	for _, s := range []causal.DepStatus{{Version: version(5), Ring: 1}, {Version: version(5), Ring: 1, Clean: true},
		{Version: version(5), Ring: 2, Complete: true}} {
		if r.step(s.Message(other, self)); len(r.writes) > 0 {
			t.Fatalf("the put was written after %+v", s)
		}
	}
	r.step(causal.DepStatus{Version: version(5), Ring: 1, Complete: true}.Message(other, self))
	if _, written := r.records[key]; !written {
		t.Error("the put was not written though its dependency is complete")
	}
}
