package middleman

import (
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// Exclusions of data centers (PROTOCOL EXC-2). A middleman applies an exclusion once that is durable:
// what it has stored may rely on it.

// exclusion is what a middleman applies.
type exclusion struct {
	*shared
	active, saving causal.Exclusions
}

// set applies exclusions that are durable.
func (x *exclusion) set(all causal.Exclusions) {
	x.active = all
	x.SetExclusions(all)
}

// apply makes further exclusions durable, and then applies them.
func (x *exclusion) apply(further causal.Exclusions) {
	if x.cfg.Broken.Has(causal.ExclusionForgotten) {
		x.set(x.active.With(further))
		return
	}
	if len(x.saving) == 0 {
		x.saving = x.active.With(further)
		x.tasks.request(StorageOp{Kind: StorageExclusions, Exclusions: x.saving}, &task{kind: taskExclusions})
	}
}

// finish takes whether exclusions are durable. If not, the next message with them tries again.
func (x *exclusion) finish(failed bool) {
	saved := x.saving
	x.saving = nil
	if !failed {
		x.set(saved)
	}
}

// isExcluded reports whether the shard of a slot in this ring is one of an excluded data center.
func (x *exclusion) isExcluded(slot topology.Slot) bool {
	return x.active.Of(x.cfg.Topology.Owner(x.ring, slot).DC) > 0
}

// askOtherRings asks for a dependency whose shard here is one of an excluded data center, and may be away. What is
// complete is in all rings but for such shards, so it is waited for no more.
func (x *exclusion) askOtherRings(d *dependency) {
	if !x.isExcluded(d.slot) {
		return
	}
	t := x.cfg.Topology
	for r := range t.Rings {
		if id := topology.RingID(r); id != x.ring {
			x.Send(causal.DepCheck{Version: d.version, Slot: d.slot}.Message(x.cfg.Self, t.Owner(id, d.slot)))
		}
	}
}

// Exclusions returns what the middleman applies.
func (m *Middleman) Exclusions() causal.Exclusions { return m.exclusion.active }

// ApplyExclusions makes further exclusions durable, and then applies them.
func (m *Middleman) ApplyExclusions(x causal.Exclusions) { m.exclusion.apply(x) }
