package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/causalstore/causalstore/history"
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// division is what happens when the network between two sides is cut, and a person on each side excludes the data
// centers of the other one. After the cut all parts hear of both.
type division struct {
	// keeps is a ring of one side, and with are the data centers of that side. The others are those of the other side.
	keeps, otherRing topology.RingID
	with, otherSide  []topology.DC
}

// divide cuts the network between two sides, of which each has a whole ring, and lets each exclude the other.
func (c *faultInjector) divide(duration int64) {
	w, rng := c.w, c.w.rng
	w.countFault(Divide)
	sides := [2][]topology.DC{}
	first := topology.RingID(rng.IntN(len(w.topo.Rings)))
	second := (first + 1) % topology.RingID(len(w.topo.Rings))
	for dc := range topology.DC(len(w.topo.DCs)) {
		side := rng.IntN(2)
		switch w.topo.RingOf(dc) {
		case first:
			side = 0
		case second:
			side = 1
		}
		sides[side] = append(sides[side], dc)
	}
	for _, a := range sides[0] {
		for _, b := range sides[1] {
			w.net.cut(a, b, 1)
		}
	}
	c.scaler.divided = &division{keeps: first, otherRing: second, with: sides[0], otherSide: sides[1]}
	for i := range sides {
		c.later(rng.Int64N(duration), func() { c.scaler.excludeAt(sides[i], sides[1-i]) })
	}
	healed := duration + int64(time.Second) + rng.Int64N(int64(3*time.Second))
	c.later(healed, func() {
		for _, a := range sides[0] {
			for _, b := range sides[1] {
				w.net.cut(a, b, -1)
			}
		}
	})
	c.later(healed+rng.Int64N(int64(2*time.Second))-int64(time.Second), c.scaler.merge)
}

// excludeAt gives the nodes of some data centers a topology in which others were excluded once more.
func (r *scaler) excludeAt(at, excluded []topology.DC) {
	var t *topology.Topology
	for _, n := range r.w.order {
		if n.removed || !slices.Contains(at, n.id.DC) {
			continue
		}
		if t == nil {
			dcs := slices.Clone(n.topo.DCs)
			for _, dc := range excluded {
				dcs[dc].Exclusions++
			}
			t = r.mustMake(dcs)
		}
		r.give(n, t)
	}
}

// merge gives all nodes a topology with every exclusion that one of them has.
func (r *scaler) merge() {
	dcs := slices.Clone(r.w.topo.DCs)
	for _, n := range r.w.order {
		for dc := range dcs {
			dcs[dc].Exclusions = max(dcs[dc].Exclusions, n.topo.DCs[dc].Exclusions)
		}
	}
	r.propagate(dcs)
}

// keepData delivers a topology in which a person has said that the data of a ring count.
func (r *scaler) keepData(ring topology.RingID) {
	dcs := slices.Clone(r.w.topo.DCs)
	for _, dc := range r.w.topo.Rings[ring].DCs {
		dcs[dc].KeepsData = dcs[dc].Exclusions
	}
	r.propagate(dcs)
}

// haveWithdrawn reports whether some shard keeps its data and answers nothing.
func (w *World) haveWithdrawn() bool {
	return slices.ContainsFunc(w.order, func(n *node) bool {
		return n.hasWithdrawn()
	})
}

// resolveDivision ends a division after the faults: a person lets the data of a ring count, if no shard can begin again
// without that. It is one that has all of its data.
func (wl *workload) resolveDivision() {
	w, d := wl.world, wl.scaler.divided
	if w.Run(20*time.Second, nil); w.haveWithdrawn() {
		if !w.isWhole(d.keeps) {
			d.keeps, d.with = d.otherRing, d.otherSide
		}
		wl.scaler.keepData(d.keeps)
	}
}

// isWhole reports whether no shard of a ring is without data that it had.
func (w *World) isWhole(ring topology.RingID) bool {
	return !slices.ContainsFunc(w.order, func(n *node) bool {
		s := n.shard()
		if s == nil || w.topo.RingOf(n.id.DC) != ring {
			return false
		}
		lost, _ := s.DataLost()
		return lost
	})
}

// checkKept returns the writes that coordinators of a side have accepted and that the ring of this side does not have.
// What was complete on the other side only may be lost.
func (wl *workload) checkKept() (lost []string) {
	w, d := wl.world, wl.scaler.divided
	newest := map[string]history.Op{}
	deleted := map[string]bool{} // perhaps after the newest value
	for _, op := range wl.history {
		isWrite := op.Kind == history.Put || op.Kind == history.Delete
		switch {
		case !isWrite:
		case op.Kind == history.Delete || !op.OK:
			deleted[op.Key] = deleted[op.Key] || op.Kind == history.Delete
		case slices.Contains(d.with, w.topo.CoordinatorOf(op.Version.Origin).DC) &&
			newest[op.Key].Version.Less(op.Version):
			newest[op.Key] = op
		}
	}
	for _, key := range wl.keys {
		op, written := newest[key]
		rec, found := w.process(w.topo.Owner(d.keeps, topology.SlotOf(key))).disk.records[key]
		switch {
		case !written || found && !rec.Version.Less(op.Version) || !found && deleted[key]:
		default:
			lost = append(lost, fmt.Sprintf("lost: %s=%s of %s was acknowledged, and ring %d has %s", key, op.Version,
				op.Session, d.keeps, has(rec, found)))
		}
	}
	return lost
}

func has(rec causal.Record, found bool) string {
	if !found {
		return "nothing"
	}
	return rec.Version.String()
}
