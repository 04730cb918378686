package process

import (
	"slices"
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/member"
	"github.com/causalstore/causalstore/sidecar/causal/shard"
	"github.com/causalstore/causalstore/topology"
)

// servingRig returns a rig whose member serves, and waits for no coordinator.
func servingRig(t *testing.T) *memberRig {
	t.Helper()
	r := newMemberRig(t, member.Applied{})
	r.m.cfg.Shard.Middleman.Broken = causal.MutationsOf(causal.ServeUnheard)
	if !r.run(3000, r.serves) {
		t.Fatal("it does not serve")
	}
	r.log = nil
	return r
}

func (r *memberRig) count(k EffectKind) (n int) {
	for _, kind := range r.log {
		if kind == k {
			n++
		}
	}
	return n
}

// What an earlier shard of the session has proposed is not in the marks that the next one would read.
func TestAShardStartsOnceWhatTheOneBeforeHasProposedIsApplied(t *testing.T) {
	r := servingRig(t)
	r.hold = []EffectKind{EffectTask}
	op := put("k", 1)
	r.m.shard.addWrite(&op)
	if r.settle(); len(r.held) != 1 || len(r.m.proposals) != 1 {
		t.Fatalf("%d tasks are held, %d effects are proposed", len(r.held), len(r.m.proposals))
	}
	generation := r.m.Generation()
	r.m.shard.failure = errBroken
	r.settle()
	if r.m.Generation() == generation {
		t.Error("another shard has the generation of the one before: who waits for reads does not notice")
	}
	if left := r.m.CheckRest(); slices.ContainsFunc(left, func(s string) bool {
		return s == "effects that were proposed: 1 are left, and nothing is under way"
	}) {
		t.Errorf("of a shard that has ended: %v", left)
	}
	if r.run(500, nil); r.count(EffectLoad) != 0 {
		t.Error("the next shard reads marks before those that were proposed are applied")
	}
	r.hold = nil
	r.m.Done(r.now, r.held[0].ID, EffectResult{})
	if !r.run(2000, r.serves) || r.count(EffectLoad) != 1 {
		t.Errorf("the marks are read %d times, want once", r.count(EffectLoad))
	}
}

// The session may be over that looked the keys up: in the next one the change could undo what others have written
// since.
func TestAChangeOfAnEarlierSessionIsNotProposed(t *testing.T) {
	r := servingRig(t)
	r.hold = []EffectKind{EffectCheck}
	op := shard.MoveOp{Kind: shard.MoveApply, Records: []causal.Moved{
		{Key: "m", Record: causal.Record{Version: causal.Version{HLC: 1, Origin: 1}}}}}
	s := r.m.shard
	s.tasks = append(s.tasks, func() { s.move(&shard.Mover{}, op) })
	if r.settle(); len(r.held) != 1 {
		t.Fatalf("%d effects are held", len(r.held))
	}
	r.m.session = r.m.Session() + 1 // the member has not noticed yet that another one has begun
	r.m.Done(r.now, r.held[0].ID, EffectResult{})
	if len(r.m.proposals) != 0 || r.m.LogBytes() != 0 && !r.m.IsSettled() {
		t.Error("it is proposed in another session")
	}
}

// An announcement that comes late is of a leadership that has ended.
func TestOnlyThePresentLeadershipCountsAsAnnounced(t *testing.T) {
	r := servingRig(t)
	present := r.m.Leadership()
	query := causal.PastQuery{ID: 1}.Message(topology.Node{Part: topology.Coordinator}, self)
	old := present
	old.Life++
	for _, c := range []struct {
		announced causal.Leadership
		acts      bool
	}{{old, false}, {present, true}, {causal.Leadership{}, false}} {
		r.m.Announced(r.now, c.announced)
		r.m.Step(r.now, &query)
		if sent := r.m.Take(nil); (len(sent) > 0) != c.acts {
			t.Errorf("%+v is announced while %+v leads: %d messages", c.announced, present, len(sent))
		}
		if isWhole := r.m.isWhole(r.now); isWhole != c.acts {
			t.Errorf("it says that it has all data: %v", isWhole)
		}
	}
}

// What is applied after that would replace the mark.
func TestNothingIsAppliedOnceALossIsFound(t *testing.T) {
	r := servingRig(t)
	if _, err := r.m.Propose(r.now, member.Change{Writes: []causal.Write{{Key: "k"}}}); err != nil {
		t.Fatal(err)
	}
	r.hold = []EffectKind{EffectLoss, EffectTask}
	r.m.NoteLoss(r.now, errBroken)
	r.settle()
	if len(r.held) != 1 || r.held[0].Kind != EffectLoss {
		t.Errorf("%d effects are under way, want only the one that notes the loss", len(r.held))
	}
}

// A change on a full storage hangs until there is room, on all members.
func TestAFullStorageOnWhichAChangeHangsResponds(t *testing.T) {
	var h storageHealth
	at := func(ms int64) causal.Now { return causal.Now{Mono: ms * 1e6} }
	h.beginTask(at(1), true)
	h.notePing(at(900), &EffectResult{Err: errBroken, Problem: IsFull})
	if h.isStuck(at(2000)) {
		t.Error("a full storage does not respond")
	}
	h.notePing(at(2100), &EffectResult{})
	if !h.isStuck(at(2200)) {
		t.Error("a storage with room on which a change hangs responds")
	}
}
