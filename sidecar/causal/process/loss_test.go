package process

import (
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/middleman"
	"github.com/causalstore/causalstore/sidecar/causal/shard"
)

// A write whose result comes after a loss was found may be among what is lost: nobody is told that it is durable.
func TestNothingIsReportedOrBegunOnceALossIsFound(t *testing.T) {
	r := newRig(t, twoRings(t, 1, 0), Marks{Starts: 3})
	r.settle()
	r.write(put("k", 3))
	r.collect()
	r.p.tasks = append(r.p.tasks, func() { r.p.move(&shard.Mover{}, shard.MoveOp{Kind: shard.MoveSaveState}) })
	change := r.pending[0]
	r.pending = nil
	r.p.NoteLoss(r.now, errBroken)
	r.p.NoteLoss(r.now, errBroken)
	if r.collect(); len(r.pending) != 1 || r.pending[0].Kind != EffectLoss {
		t.Fatalf("%d effects are under way, want the one that notes the loss: %v", len(r.pending), r.pending)
	}
	r.p.Done(r.now, change.ID, EffectResult{Position: causal.Position{Changes: 9}})
	if r.p.marks.durable.Origins.Has(3) || !r.p.writes.underWay {
		t.Error("a write counts as durable after the loss was found")
	}
	if r.collect(); len(r.pending) != 1 {
		t.Errorf("%d effects are under way after the result of a write", len(r.pending))
	}
	if r.settle(); r.p.Failure() == nil || r.marks.Loss != shard.LossFound {
		t.Errorf("the loss is %d, the failure %v", r.marks.Loss, r.p.Failure())
	}
}

// What the mover writes and what the middleman writes end in any order. A coordinator that is told less than the
// storage has does not notice when the storage comes back as it was in between.
func TestThePositionOfAStorageDoesNotGoBack(t *testing.T) {
	r := newRig(t, twoRings(t, 1, 0), Marks{Starts: 3})
	r.settle()
	r.write(put("x", 1))
	r.settle() // the origin is durable
	moved := shard.MoveOp{Kind: shard.MoveApply, Records: []causal.Moved{
		{Key: "m", Record: causal.Record{Version: causal.Version{HLC: 1, Origin: 1}}}}}
	r.p.tasks = append(r.p.tasks, func() { r.p.move(&shard.Mover{}, moved) })
	r.write(put("y", 1))
	if r.collect(); len(r.pending) != 2 {
		t.Fatalf("%d changes are under way, want 2", len(r.pending))
	}
	at := r.p.position
	r.p.Done(r.now, r.pending[0].ID, EffectResult{Position: causal.Position{Changes: at.Changes + 2}})
	r.p.Done(r.now, r.pending[1].ID, EffectResult{Position: causal.Position{Changes: at.Changes + 1}})
	if r.p.position.Changes != at.Changes+2 {
		t.Errorf("the storage has come to %d, and %d is reported", at.Changes+2, r.p.position.Changes)
	}
	other := causal.Position{Storage: 8, Changes: 1}
	if got := later(at, other); got != other {
		t.Errorf("another storage has come to %v, and %v is reported", other, got)
	}
}

// The next start refuses reads as long as a loss is durable, and lacks what is excluded if that is not.
func TestAStartSavesWhatHasChanged(t *testing.T) {
	saved := func(durable Marks, plan shard.Start) (names []string) {
		r := newRig(t, twoRings(t, 1, 0), durable)
		r.settle()
		plan.Config.Incarnation = 9
		r.p.effects = nil
		r.p.saveStart(plan)
		for _, m := range r.p.effects[0].Change.Meta {
			names = append(names, m.Name)
		}
		return names
	}
	one := causal.Exclusions{0, 1}
	for what, c := range map[string]struct {
		durable Marks
		plan    shard.Start
		want    int
	}{
		"nothing":             {Marks{Starts: 3}, shard.Start{}, 2},
		"a loss that is over": {Marks{Starts: 3, Loss: shard.LossCleared}, shard.Start{}, 3},
		"a loss":              {Marks{Starts: 3}, shard.Start{Loss: shard.LossCleared}, 3},
		"an exclusion":        {Marks{Starts: 3}, shard.Start{Config: middleman.Config{Exclusions: one}}, 3},
		"the exclusion before": {Marks{Starts: 3, Exclusions: one},
			shard.Start{Config: middleman.Config{Exclusions: one}}, 2},
	} {
		if names := saved(c.durable, c.plan); len(names) != c.want {
			t.Errorf("%s: %v are made durable, want %d marks", what, names, c.want)
		}
	}
}
