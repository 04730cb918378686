package middleman

import (
	"slices"

	"github.com/causalstore/causalstore/sidecar/causal"
)

// Exclusions of data centers (PROTOCOL, Excluded data centers). A middleman goes by an exclusion once that is durable: what it has stored may
// rely on it.

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

// dropDepsOnExcluded ends the waits of p for shards of excluded data centers, as far as it is not said to depend on them any more: who has
// sent it does without these shards, and they serve again only after they have what it depends on.
func (m *Middleman) dropDepsOnExcluded(now causal.Now, p *put, writes, lanes []causal.Dep) {
	if len(m.exclusion.active) == 0 {
		return
	}
	t, processed, clean := m.cfg.Topology, 0, 0
	isP := func(q *put) bool { return q == p }
	for _, d := range m.deps.unresolved {
		owner := t.Owner(m.ring, d.slot)
		isNamed := slices.ContainsFunc(writes, func(n causal.Dep) bool { return n.Version == d.version })
		if d.clean || isNamed || owner == m.cfg.Self || m.exclusion.active.Of(owner.DC) == 0 {
			continue
		}
		processed += removeAll(&d.awaitProcessed, isP)
		clean += removeAll(&d.awaitClean, isP)
		if len(d.awaitProcessed)+len(d.awaitClean) == 0 {
			d.clean = true // the next tick removes it
			delete(m.deps.awaited, d.version)
		}
	}
	for _, f := range m.lanesTo(p) {
		isNamed := slices.ContainsFunc(lanes, func(n causal.Dep) bool { return t.Owner(m.ring, n.Slot) == f.key.shard })
		if isNamed || f.key.shard == m.cfg.Self || m.exclusion.active.Of(f.key.shard.DC) == 0 {
			continue
		}
		waitsForP := func(w laneWait) bool { return w.put == p }
		processed += removeAll(&f.awaitReceived, waitsForP)
		clean += removeAll(&f.awaitClean, waitsForP)
	}
	for range processed {
		m.depProcessed(now, p)
	}
	for range clean {
		m.depClean(now, p)
	}
}

// removeAll removes the elements for which f returns true, and returns how many there were.
func removeAll[T any](list *[]T, f func(T) bool) int {
	before := len(*list)
	*list = slices.DeleteFunc(*list, f)
	return before - len(*list)
}
