package coordinator

import (
	"iter"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// shared is what the machines that a coordinator is made of have in common: who it is, its clock, what it knows of
// other origins, and the outbox, so that messages leave in the order in which the machines send them. The Coordinator
// alone changes the topology; each machine keeps its own state to itself.
type shared struct {
	causal.Outbox
	cfg    Config // its Topology has the slot maps that are in use
	maps   causal.SlotMaps
	origin topology.Origin
	rings  topology.RingSet
	clock  causal.Clock
	limit  causal.TimeLimit
	known  *causal.Stability
}

func newShared(cfg Config) shared {
	maps := causal.NewSlotMaps(cfg.Topology)
	cfg.Topology = maps.View()
	t := cfg.Topology
	return shared{cfg: cfg, maps: maps, origin: t.OriginOf(cfg.Self), rings: t.AllRings(),
		known: causal.NewStability(t)}
}

// isLeader reports whether this is the first coordinator of its data center.
func (s *shared) isLeader() bool { return s.cfg.Topology.Leader(s.cfg.Self.DC) == s.cfg.Self }

func (s *shared) isInTopology() bool {
	return s.cfg.Self.Index < uint64(s.cfg.Topology.DCs[s.cfg.Self.DC].Coordinators)
}

// originAt returns the origin of the coordinator of this data center with an index.
func (s *shared) originAt(index int) topology.Origin {
	return s.cfg.Topology.OriginOf(topology.Node{DC: s.cfg.Self.DC, Part: topology.Coordinator, Index: uint64(index)})
}

// middlemen yields those of all data centers that run.
func (s *shared) middlemen() iter.Seq[topology.Node] {
	return func(yield func(topology.Node) bool) {
		for dc := range s.cfg.Topology.DCs {
			for i := range s.cfg.Topology.DCs[dc].RunningMiddlemen() {
				if !yield(topology.Node{DC: topology.DC(dc), Part: topology.Middleman, Index: uint64(i)}) {
					return
				}
			}
		}
	}
}

// isResharding reports whether slots of some ring move. What is collected from shards meanwhile may miss some of them.
func (s *shared) isResharding() bool { return s.maps.Pending()|s.cfg.Topology.Resharding() != 0 }

// isPlausible reports whether a log of a generation can have begun by now, by what the clocks of others may be ahead.
func (s *shared) isPlausible(now causal.Now, generation uint64) bool {
	return generation <= uint64(s.limit.At(now).WallMs())
}

// isPlausibleIncarnation reports whether a shard can have come to an incarnation by now.
func (s *shared) isPlausibleIncarnation(now causal.Now, n uint64) bool {
	return causal.IsPlausible(n, causal.IncarnationBits, s.limit.At(now))
}

// settledElsewhere returns the HLC at or below which every write of another origin is complete or lost. What precedes a
// write that is lost, or was recovered, is not known; but it has a smaller timestamp.
func (s *shared) settledElsewhere() causal.HLC {
	upTo := causal.NoLimit
	for o := topology.Origin(1); int(o) <= s.cfg.Topology.Origins(); o++ {
		if o != s.origin {
			upTo = min(upTo, s.known.Settled(o))
		}
	}
	return upTo
}
