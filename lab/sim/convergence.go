package sim

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/coordinator"
	"github.com/causalstore/causalstore/sidecar/causal/member"
	"github.com/causalstore/causalstore/sidecar/causal/process"
	"github.com/causalstore/causalstore/sidecar/causal/session"
	"github.com/causalstore/causalstore/sidecar/causal/shard"
	"github.com/causalstore/causalstore/topology"
)

// convergenceTimeout bounds the virtual time from the last fault until the deployment is quiescent.
const convergenceTimeout = 60 * time.Second

// convergeAndCheck ends faults and load, waits until every accepted write is complete, compares the rings, and reads
// every key in every data center. It returns the violations.
func (wl *workload) convergeAndCheck(c *faultInjector) []string {
	w := wl.world
	if wrong := w.checkCounts(); len(wrong) > 0 { // under load
		return wrong
	}
	wl.issuing = false
	c.heal()
	w.upgradeRest()
	wl.scaler.stop()
	if wl.scaler.divided != nil {
		wl.resolveDivision()
	}
	idle := func() bool {
		return len(wl.pending) == 0 && (w.lostWrites || w.isQuiescent()) && wl.scaler.hasConverged() &&
			!wl.scaler.inProgress && w.haveJoined() && w.haveRefilled()
	}
	for range 2 {
		// what a storage was asked for while it did not respond comes late, and its member may have to join again
		if !w.runUntilIdle(idle) {
			return []string{"liveness: operations or writes are incomplete, though all faults ended " +
				convergenceTimeout.String() + " ago" + wl.unfinishedWork()}
		}
		w.Run(5*time.Second, nil) // vectors, leases, tombstones
	}
	if w.readsAtCuts() { // clocks that are far behind delay the cut, though everything is complete
		newest := w.newestHLC()
		w.Run(convergenceTimeout, func() bool { return w.haveCutsReached(newest) })
	}
	if w.lostWrites {
		return nil
	}
	violations := slices.Concat(w.compareRings(), w.compareMembers(), w.checkCounts(), w.checkRest())
	if wl.scaler.divided != nil { // sessions may have seen what is lost
		return append(violations, wl.checkKept()...)
	}
	for _, n := range append([]*node(nil), w.order...) {
		if n.id.Part == topology.Sidecar {
			wl.readAll(n.id)
		}
	}
	if !w.Run(convergenceTimeout, func() bool { return len(wl.pending) == 0 }) {
		violations = append(violations, "liveness: final reads were not answered within "+convergenceTimeout.String())
	}
	return violations
}

// runUntilIdle reports whether the deployment becomes idle in time. Logs that were given up together complete what was
// salvaged one write after the other (PROTOCOL LOG-5), so it goes on for as long as that makes
// progress.
func (w *World) runUntilIdle(idle func() bool) bool {
	for before := math.MaxInt; !idle() && !w.Run(convergenceTimeout, idle); {
		left := w.salvagedWrites()
		if left >= before || left == 0 && before == math.MaxInt {
			return false
		}
		before = left
	}
	return true
}

// salvagedWrites returns how many writes of logs that were given up are incomplete.
func (w *World) salvagedWrites() (writes int) {
	for _, n := range w.order {
		if c := serving(n); c != nil {
			writes += len(c.Recovered())
		}
	}
	return writes
}

// haveRefilled reports whether no shard lacks data that it can get: all coordinators have to answer.
func (w *World) haveRefilled() bool {
	refilled := true
	for _, n := range w.order {
		if c := serving(n); c != nil && len(c.DataLost()) > 0 {
			return true
		}
		refilled = refilled && (n.id.Part != topology.Middleman || n != w.process(n.id.Group()) ||
			n.disk.Loss == shard.NoLoss)
	}
	return refilled
}

// serving returns the coordinator that serves in a process; nil if there is none.
func serving(n *node) *coordinator.Coordinator {
	if m, ok := n.m.(*member.Coordinator); ok {
		return m.Serving()
	}
	return nil
}

// newestHLC returns the newest HLC in any storage.
func (w *World) newestHLC() (newest causal.HLC) {
	for _, n := range w.order {
		if n.disk != nil {
			for _, rec := range n.disk.records {
				newest = max(newest, rec.Version.HLC)
			}
		}
	}
	return newest
}

// readsAtCuts reports whether sessions read at cuts.
func (w *World) readsAtCuts() bool {
	return slices.ContainsFunc(w.order, func(n *node) bool {
		s, ok := n.m.(*session.Sidecar)
		return ok && s.UsesCuts()
	})
}

// haveCutsReached reports whether the cuts of all sidecars are at or above h, and what reads at them have to return.
func (w *World) haveCutsReached(h causal.HLC) bool {
	for _, n := range w.order {
		if s, ok := n.m.(*session.Sidecar); ok && min(s.Cut(), s.CutBase()) < h {
			return false
		}
	}
	return true
}

// unfinishedWork lists the operations, writes and puts that have not finished.
func (wl *workload) unfinishedWork() string {
	text := fmt.Sprintf(": %d operations", len(wl.pending))
	for _, n := range wl.world.order {
		switch m := n.m.(type) {
		case *member.Coordinator:
			c := m.Serving()
			if c == nil && wl.world.serving(n.id.Group()) != nil {
				continue
			}
			if c == nil {
				text += fmt.Sprintf(", %s is %+v", n.id, m.Status())
				continue
			}
			if writes, _ := c.Pending(); writes > 0 {
				text += fmt.Sprintf(", %s has %d incomplete writes", n.id, writes)
			}
			if is := c.Membership(); is != coordinator.Serving {
				text += fmt.Sprintf(", %s is %s and waits for %v", n.id, is, c.Unanswered())
			}
		case *process.Shard:
			text += unfinishedShard(n, m)
		case *process.Member:
			switch {
			case m.Starting() != nil:
				text += unfinishedShard(n, m.Starting())
			case wl.world.serving(n.id.Group()) == nil:
				text += fmt.Sprintf(", %s is %+v", n.id, m.Status())
			}
		}
	}
	return text
}

func unfinishedShard(n *node, p *process.Shard) string {
	if p.Machine() == nil {
		return fmt.Sprintf(", %s has not started: %v", n.id, p.Failure())
	}
	if mm := p.Serving(); mm != nil {
		if puts, _, _, _ := mm.Depth(); puts > 0 {
			return fmt.Sprintf(", %s has %d unacknowledged puts", n.id, puts)
		}
		if p, ok := mm.Backfill(); ok {
			return fmt.Sprintf(", %s is refilled, loss %d of %q: %+v", n.id, n.disk.Loss, n.disk.Missing, p)
		}
	} else if !n.removed {
		return fmt.Sprintf(", %s serves nothing and waits for %v", n.id, p.Machine().Unanswered())
	}
	return ""
}

// readAll reads every key in a new session, each in a process of its own that starts after all other operations.
func (wl *workload) readAll(sidecar topology.Node) {
	id := uint64(1000)
	withMachine(wl.world, sidecar, func(m *session.Sidecar, _ causal.Now) { m.Open(id) })
	for i, key := range wl.keys {
		name := fmt.Sprintf("final-%d-%d", sidecar.DC, i)
		p := &client{load: wl, session: name, name: name, id: id, sidecar: sidecar, scripted: true, final: true}
		p.issue(session.Op{Kind: session.OpGet, Key: key})
	}
}

// compareRings returns the differences between the live records of the rings; there must be none.
func (w *World) compareRings() []string {
	var found []string
	first := map[string]causal.Record{}
	for r := range w.topo.Rings {
		all := map[string]causal.Record{}
		for _, n := range w.middlemenOf(topology.RingID(r)) {
			for k, rec := range n.disk.records {
				if w.topo.Owner(topology.RingID(r), topology.SlotOf(k)) == n.id.Group() && !isGone(rec.Value) &&
					!w.isLost(k) {
					all[k] = rec
				}
			}
		}
		if r == 0 {
			first = all
			continue
		}
		for k, rec := range all {
			if first[k].Version != rec.Version || shownValue(first[k]) != shownValue(rec) {
				found = append(found, fmt.Sprintf("convergence: ring %d holds %s=%s, ring 0 holds %s", r, k,
					rec.Version, first[k].Version))
			}
		}
		for k, rec := range first {
			if _, ok := all[k]; !ok {
				found = append(found, fmt.Sprintf("convergence: ring 0 holds %s=%s, ring %d nothing", k,
					rec.Version, r))
			}
		}
	}
	slices.Sort(found)
	return found
}

// isLost reports whether a shard that has lost its data owns a key.
func (w *World) isLost(key string) bool {
	for r := range w.topo.Rings {
		if w.process(w.topo.Owner(topology.RingID(r), topology.SlotOf(key))).disk.Loss != shard.NoLoss {
			return true
		}
	}
	return false
}

// middlemenOf returns the processes that hold what the middlemen of a ring serve: of one with members, that which
// serves.
func (w *World) middlemenOf(r topology.RingID) []*node {
	var ns []*node
	for _, n := range w.order {
		if n.id.Part == topology.Middleman && w.topo.RingOf(n.id.DC) == r && n == w.process(n.id.Group()) {
			ns = append(ns, n)
		}
	}
	return ns
}
