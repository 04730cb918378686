package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/topology"
)

// settleBound is how long everything may take to become quiet after the last fault.
const settleBound = 60 * time.Second

// settle ends faults and load, waits until every accepted write is complete, and reads everything everywhere.
func (wl *workload) settle(c *chaos) []string {
	w := wl.world
	wl.issuing = false
	c.heal()
	wl.reshape.stop()
	idle := func() bool { return len(wl.byOp) == 0 && w.quiescent() && wl.reshape.settled() && !wl.reshape.under }
	if !idle() && !w.Run(settleBound, idle) {
		return []string{"liveness: after all faults ended, operations or writes were still incomplete after " + settleBound.String() + wl.stuck()}
	}
	w.Run(5*time.Second, nil) // vectors, leases, tombstones
	if w.set.Snapshot {       // clocks that are far behind hold back the cut that sessions read at, though everything is complete
		newest := w.newest()
		w.Run(settleBound, func() bool { return w.cutsReach(newest) })
	}
	violations := w.compareRings()
	for _, n := range append([]*node(nil), w.order...) {
		if n.id.Part == topology.Sidecar {
			wl.readAll(n.id)
		}
	}
	if !w.Run(settleBound, func() bool { return len(wl.byOp) == 0 }) {
		violations = append(violations, "liveness: final reads were not answered")
	}
	return violations
}

// newest is the newest HLC in any storage.
func (w *World) newest() (newest causal.HLC) {
	for _, n := range w.order {
		if n.disk != nil {
			for _, rec := range n.disk.records {
				newest = max(newest, rec.Version.HLC)
			}
		}
	}
	return newest
}

// cutsReach reports whether all sidecars read at a cut that is not below h.
func (w *World) cutsReach(h causal.HLC) bool {
	for _, n := range w.order {
		if s, ok := n.m.(*causal.Sidecar); ok && s.Cut() < h {
			return false
		}
	}
	return true
}

// stuck says what is left to do.
func (wl *workload) stuck() string {
	text := fmt.Sprintf(": %d operations", len(wl.byOp))
	for _, n := range wl.world.order {
		switch m := n.m.(type) {
		case *causal.Coordinator:
			if writes, _ := m.Pending(); writes > 0 {
				text += fmt.Sprintf(", %s has %d writes", n.id, writes)
			}
		case *causal.Middleman:
			if puts, _, _, _ := m.Depth(); puts > 0 {
				text += fmt.Sprintf(", %s has %d puts", n.id, puts)
			}
		}
	}
	return text
}

// readAll reads every key in a new session, as a process that starts after everything else.
func (wl *workload) readAll(sidecar topology.Node) {
	id := uint64(1000)
	wl.world.do(sidecar, func(m machine, _ causal.Now) { m.(*causal.Sidecar).Open(id) })
	for i, key := range wl.keys {
		name := fmt.Sprintf("final-%d-%d", sidecar.DC, i)
		p := &process{w: wl, session: name, name: name, id: id, sidecar: sidecar, stopped: true, final: true}
		p.issue(causal.Op{Kind: causal.OpGet, Key: key})
	}
}

// compareRings compares what stands in storage: every ring holds the same.
func (w *World) compareRings() []string {
	var found []string
	first := map[string]causal.Record{}
	for r := range w.topo.Rings {
		all := map[string]causal.Record{}
		for _, n := range w.middlemen(topology.RingID(r)) {
			for k, rec := range n.disk.records {
				if w.topo.Owner(topology.RingID(r), topology.SlotOf(k)) == n.id && !rec.Value.Tombstone {
					all[k] = rec
				}
			}
		}
		if r == 0 {
			first = all
			continue
		}
		for k, rec := range all {
			if first[k].Version != rec.Version {
				found = append(found, fmt.Sprintf("convergence: ring %d holds %s=%s, ring 0 %s", r, k, rec.Version, first[k].Version))
			}
		}
		for k, rec := range first {
			if _, ok := all[k]; !ok {
				found = append(found, fmt.Sprintf("convergence: ring 0 holds %s=%s, ring %d nothing", k, rec.Version, r))
			}
		}
	}
	slices.Sort(found)
	return found
}

func (w *World) middlemen(r topology.RingID) []*node {
	var ns []*node
	for _, n := range w.order {
		if n.id.Part == topology.Middleman && w.topo.RingOf(n.id.DC) == r {
			ns = append(ns, n)
		}
	}
	return ns
}
