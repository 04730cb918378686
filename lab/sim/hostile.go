package sim

import (
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// leaderCut partitions two leaders for so long that they hear each other through a third one.
func (c *faultInjector) leaderCut(duration int64) {
	a, b := c.anyDC(), c.anyDC()
	if a == b {
		return
	}
	c.w.countFault(LeaderCut)
	c.cutPair(c.w.nodes[c.w.topo.Leader(a)], c.w.nodes[c.w.topo.Leader(b)], 2*duration)
}

// forgeVectors makes one leader claim to another one that all writes of a third data center, where some are incomplete,
// are complete: in its own name, or as what the third one has signed. Or it sends again what somebody has signed some
// time ago.
func (c *faultInjector) forgeVectors(int64) {
	liar, victim, of := c.anyDC(), c.anyDC(), c.anyWriter().id.DC
	if liar == victim || liar == of {
		return
	}
	c.w.countFault(ForgedVectors)
	if kept := c.w.net.signed; c.w.rng.IntN(3) == 0 && len(kept) > 0 {
		v, to := kept[c.w.rng.IntN(len(kept))].SignedVectors(), c.w.nodes[c.w.topo.Leader(victim)]
		m := v.Message(c.w.topo.Leader(liar), to.id)
		c.w.net.deliverAt(c.w.now, &m, to)
		return
	}
	c.w.forgeVectors(liar, victim, of, c.w.rng.IntN(2) == 0)
}

// maxKept bounds the signed vectors that are kept. A run of a profile has fewer.
const maxKept = 1024

// keepSigned keeps signed vectors.
func (n *network) keepSigned(m *causal.Message) {
	if m.Kind == causal.KindSignedVectors && n.w.settings.FaultsPerMillion > 0 && len(n.signed) < maxKept {
		n.signed = append(n.signed, *m)
	}
}

// forgeVectors delivers to a leader the claim of another one that everything is complete that the coordinators of a
// data center have accepted.
func (w *World) forgeVectors(liar, victim, of topology.DC, signed bool) {
	to := w.nodes[w.topo.Leader(victim)]
	first := w.topo.OriginOf(w.topo.Leader(of))
	claim := []causal.VectorEntry{{Origin: first, Last: first + topology.MaxCoordinators - 1,
		SV: causal.HLCAt(w.clock(to).WallMs)}}
	m := causal.Vectors{Entries: claim}.Message(w.topo.Leader(liar), to.id)
	if signed {
		v := causal.SignedVectors{DC: of, Entries: claim}
		v.Seal = seal(liar, v.Statement())
		m = v.Message(w.topo.Leader(liar), to.id)
	}
	w.net.deliverAt(w.now, &m, to)
}
