package middleman

import (
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// Exclusions of data centers (PROTOCOL EXC-2). A middleman goes by an exclusion once that is durable:
// what it has stored may rely on it.

// exclusionState is what a middleman goes by.
type exclusionState struct {
	active, saving causal.Exclusions
}

// Exclusions returns what the middleman goes by.
func (m *Middleman) Exclusions() causal.Exclusions { return m.exclusion.active }

func (m *Middleman) setExclusions(x causal.Exclusions) {
	m.exclusion.active = x
	m.SetExclusions(x)
}

// GoBy makes further exclusions durable, and then goes by them.
func (m *Middleman) GoBy(x causal.Exclusions) {
	e := &m.exclusion
	if m.cfg.Broken.Has(causal.ExclusionForgotten) {
		m.setExclusions(e.active.With(x))
		return
	}
	if len(e.saving) == 0 {
		e.saving = e.active.With(x)
		m.tasks.request(StorageOp{Kind: StorageExclusions, Exclusions: e.saving}, &task{kind: taskExclusions})
	}
}

// finishExclusions takes whether exclusions are durable. If not, the next message with them tries again.
func (m *Middleman) finishExclusions(failed bool) {
	x := m.exclusion.saving
	m.exclusion.saving = nil
	if !failed {
		m.setExclusions(x)
	}
}

// askOtherRings asks for a dependency whose shard here is one of an excluded data center, and may be away. What is
// complete is in all rings but for such shards, so it is waited for no more.
func (m *Middleman) askOtherRings(d *dependency) {
	t := m.cfg.Topology
	if m.exclusion.active.Of(t.Owner(m.ring, d.slot).DC) == 0 {
		return
	}
	for r := range t.Rings {
		if id := topology.RingID(r); id != m.ring {
			m.Send(causal.DepCheck{Version: d.version, Slot: d.slot}.Message(m.cfg.Self, t.Owner(id, d.slot)))
		}
	}
}

// takeDepStatus takes a shard's answer to a DepCheck. It counts only from the shard that owns the slot; that of another
// ring only if it was asked for and the write is complete.
func (m *Middleman) takeDepStatus(now causal.Now, from topology.Node, s causal.DepStatus) {
	d := m.deps.awaited[s.Version]
	switch {
	case d == nil, int(s.Ring) >= len(m.cfg.Topology.Rings), from != m.cfg.Topology.Owner(s.Ring, d.slot):
	case s.Ring == m.ring:
		m.resolveDep(now, s.Version, s.Clean)
	case s.Complete && m.exclusion.active.Of(m.cfg.Topology.Owner(m.ring, d.slot).DC) > 0:
		m.resolveDep(now, s.Version, true)
	}
}
