package coordinator

import (
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// A coordinator whose shards are slow everywhere has an incomplete write in each ring, so its vectors stand still. It
// is not silent for that (PROTOCOL ADO-1): to adopt what is on its way anyway would be work that slows the same
// shards down further. So leaders tell each other which coordinators of their data centers they hear.

// heardFor is how long after it was last heard a coordinator counts as being there. Coordinators publish at least twice
// a second.
const heardFor = time.Second

// heardCoordinators are when the coordinators of the own data center were last heard, by index: those that are in use.
type heardCoordinators [topology.MaxCoordinators]int64

// note notes that a coordinator is there.
func (h *heardCoordinators) note(now causal.Now, index uint64) {
	if index < uint64(len(h)) {
		h[index] = max(now.Mono, 1)
	}
}

// bits returns a bit for each coordinator that is there.
func (h *heardCoordinators) bits(now causal.Now) (bits uint64) {
	for i, at := range h {
		if at != 0 && now.Mono-at < int64(heardFor) {
			bits |= 1 << i
		}
	}
	return bits
}

// noteHeard notes which coordinators are there, by vectors from one of this data center, or from another leader.
func (c *Coordinator) noteHeard(now causal.Now, from topology.Node, v causal.Vectors) {
	if c.leader == nil {
		return
	}
	if from.DC == c.cfg.Self.DC {
		c.leader.heard.note(now, from.Index)
		v.Heard |= 1 << from.Index
	}
	for i := range uint64(topology.MaxCoordinators) {
		if v.Heard&(1<<i) != 0 {
			c.adopter.noteHeard(now, c.cfg.Topology.OriginOf(topology.Node{DC: from.DC, Part: topology.Coordinator,
				Index: i}))
		}
	}
}
