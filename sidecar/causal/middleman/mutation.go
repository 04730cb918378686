package middleman

import (
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// mutationState is what the mutations need to break their rules. It is empty unless mutations are set.
type mutationState struct {
	latest     map[string]causal.Version // by key: the greatest processed version
	complete   map[string]bool           // by key: whether its last processed write is marked complete
	lateCopies []lateCopy
}

// lateCopy is a copy that is registered only after the reply has been sent.
type lateCopy struct {
	hash uint64
	dc   topology.DC
}

func (f *mutationState) init(m *Middleman) {
	if !m.cfg.Broken.Any() {
		return
	}
	f.latest, f.complete = map[string]causal.Version{}, map[string]bool{}
	if m.cfg.Broken.Has(causal.SyncInUse) {
		m.lanes.assumeSynced(func(index uint64) bool { return index > 0 })
	}
}

func (f *mutationState) noteProcessed(key string, v causal.Version) {
	if f.latest == nil {
		return
	}
	if f.latest[key].Less(v) {
		f.latest[key] = v
	}
	f.complete[key] = false
}

func (f *mutationState) noteComplete(w *write) {
	if f.complete != nil && w.processed {
		f.complete[w.key] = true
	}
}

func (f *mutationState) registerLateCopies(c *copies) {
	for _, l := range f.lateCopies {
		c.cachedAt.add(l.hash, l.dc)
	}
	f.lateCopies = f.lateCopies[:0]
}

// holdsGreater reports whether some key of the slot has a processed version at or above v.
func (f *mutationState) holdsGreater(s topology.Slot, v causal.Version) bool {
	for key, latest := range f.latest {
		if topology.SlotOf(key) == s && !latest.Less(v) {
			return true
		}
	}
	return false
}

// readsUnserialized reports whether reads bypass the queue of their key.
func (m *Middleman) readsUnserialized() bool {
	return m.cfg.Broken.Has(causal.StatusNotAtomic) || m.cfg.Broken.Has(causal.RegisterLate)
}

func (m *Middleman) brokenStatus(key string, v causal.Version) (s causal.Status, broken bool) {
	switch {
	case m.cfg.Broken.Has(causal.StatusPerKey):
		if m.mutations.complete[key] {
			return causal.Stable, true
		}
	case m.cfg.Broken.Has(causal.RestartStable):
		if !m.writes.isProcessed(v) {
			return causal.Stable, true
		}
	}
	return causal.InFlight, false
}

// dropsByClock drops what has expired by the clock, instead of by the rule.
func (m *Middleman) dropsByClock(now causal.Now) bool {
	if !m.cfg.Broken.Has(causal.ExpiredByClock) {
		return false
	}
	m.startDrops(causal.HLCAt(now.WallMs))
	return true
}
