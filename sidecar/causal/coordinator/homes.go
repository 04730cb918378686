package coordinator

import (
	"slices"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// hasOthers reports whether the data center has other homes beside this one, or is about to.
func (h *home) hasOthers() bool { return h.change.hasOthers() }

// isOf reports whether this is the home of a slot.
func (h *home) isOf(slot topology.Slot) bool { return h.change.isHomeOf(slot) }

// homeOf returns the home of a slot.
func (h *home) homeOf(slot topology.Slot) topology.Node {
	return h.change.homeOf(slot, h.change.count())
}

// isOfAll reports whether this is the home of all keys of a read.
func (h *home) isOfAll(r *causal.HomeRead) bool {
	if !h.isOf(topology.SlotOf(r.Key)) {
		return false
	}
	for i := range r.More {
		if !h.isOf(topology.SlotOf(r.More[i].Key)) {
			return false
		}
	}
	return true
}

// isOfCommit reports whether this is the home of all keys of a commit.
func (h *home) isOfCommit(m *causal.HomeCommit) bool {
	return !h.hasOthers() || !slices.ContainsFunc(m.Keys, func(k causal.CommitKey) bool {
		return !h.isOf(topology.SlotOf(k.Key))
	})
}

// hasAll reports whether the home has what a put names of it.
func (h *home) hasAll(p *causal.Put) bool {
	for i := range p.Deps {
		if v := p.Deps[i].Version; v.Origin == h.origin && !h.has(v.HLC) {
			return false
		}
	}
	return h.has(p.Local)
}

// isOfHome reports whether a write is of the home of its key, this one or another one of the data center.
func (h *home) isOfHome(d causal.Dep) bool {
	return h.cfg.Topology.OriginOf(h.homeOf(d.Slot)) == d.Version.Origin
}

// joinHomes leaves of the writes of each other home the newest one. A reader need not know more of them: its puts name
// what it has read here, and a ring that has this has them (PROTOCOL HOM-10).
func (h *home) joinHomes(deps []causal.Dep) []causal.Dep {
	if !h.hasOthers() || len(deps) == 0 {
		return deps
	}
	joined := make([]causal.Dep, 0, len(deps))
	place := [topology.MaxCoordinators]int{} // in joined, counted from 1
	for _, d := range deps {
		home := h.homeOf(d.Slot)
		at := &place[home.Index]
		switch {
		case h.cfg.Topology.OriginOf(home) != d.Version.Origin:
			joined = append(joined, d)
		case *at == 0:
			joined = append(joined, d)
			*at = len(joined)
		case joined[*at-1].Version.Less(d.Version):
			joined[*at-1] = d
		}
	}
	return joined
}
