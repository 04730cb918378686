package middleman

import (
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// shared is what the machines that a middleman is made of have in common: who it is, what it knows of other origins,
// and the outbox and the requests to storage, so that these leave in the order in which the machines make them. Each
// machine keeps its own state to itself.
type shared struct {
	causal.Outbox
	cfg   Config
	ring  topology.RingID
	known *causal.Stability
	tasks taskQueues
	limit causal.TimeLimit
	stats Stats
}

func newShared(cfg Config) shared {
	return shared{cfg: cfg, ring: cfg.Topology.RingOf(cfg.Self.DC), known: causal.NewStability(cfg.Topology),
		tasks: newTaskQueues(cfg.Types)}
}

// owns reports whether this middleman owns a slot.
func (s *shared) owns(slot topology.Slot) bool {
	return s.cfg.Topology.Owner(s.ring, slot) == s.cfg.Self
}

// slotMap identifies the slot map that this middleman serves by. It never changes while the middleman runs.
func (s *shared) slotMap() topology.MapID { return s.cfg.Topology.Map(s.ring) }

// usesSlotMap reports whether id is the slot map in use here. Positions in a lane of another map say nothing about the
// lanes of this one: an earlier write of the former may be missing from the latter.
func (s *shared) usesSlotMap(id topology.MapID) bool {
	return id == s.slotMap() || s.cfg.Broken.Has(causal.AnyMap)
}

// knowsType reports whether a write is of a type that is known here. One that is not can be neither written nor lost.
func (s *shared) knowsType(r *causal.Record) bool {
	if s.cfg.Types.Accepts(&r.Value) {
		return true
	}
	s.stats.UnknownTypes++
	return false
}

// timeLimit returns the greatest timestamp of another part to believe.
func (s *shared) timeLimit(now causal.Now) causal.HLC {
	if s.cfg.Broken.Has(causal.AnyClock) {
		return causal.NoLimit
	}
	return s.limit.At(now)
}

// isPlausible reports whether a log of a generation can have begun by now, by what the clocks of others may be ahead.
func (s *shared) isPlausible(now causal.Now, generation uint64) bool {
	return generation <= uint64(s.timeLimit(now).WallMs())
}
