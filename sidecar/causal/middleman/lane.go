package middleman

import (
	"cmp"
	"maps"
	"slices"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// lane is the receiving end of the lane from one coordinator to this shard (PROTOCOL LAN).
//
// Invariant: every write of the lane at or below received is here: written, acknowledged or pending. Every one at or
// below clean is processed, and its own invalidations are confirmed.
type lane struct {
	received   causal.HLC
	clean      causal.HLC
	ackedUpTo  causal.HLC              // the coordinator says that everything up to here is acknowledged
	unclean    []laneWrite             // received and above clean, ascending
	cleanAhead map[causal.HLC]struct{} // clean, and not received in the order of the lane yet
	outOfOrder []earlyWrite            // ascending by previous
	// syncTarget, after a restart, is how far the lane must be received until everything that was received before is
	// here again; 0: not known yet.
	syncTarget causal.HLC
	synced     bool
	fresh      bool // the storage had never been used when this middleman started
	otherMap   bool // the coordinator has sent a put under another slot map
}

// laneWrite is a received write at or above the first that is not clean.
type laneWrite struct {
	hlc   causal.HLC
	clean bool
}

// earlyWrite is a write that has arrived before the one in front of it in the lane.
type earlyWrite struct{ previous, hlc causal.HLC }

// maxOutOfOrder bounds the writes that are remembered as out of order. It is more than a coordinator has in flight; the
// coordinator sends the others again.
const maxOutOfOrder = 1 << 15

// maxUnclean bounds the writes behind one that is not clean, of which no memory is counted elsewhere: those that hold
// the lane together. It is more than stays behind one write in ordinary times; what is not taken is passed over once
// the coordinator says that all before it is acknowledged.
const maxUnclean = 1 << 17

func newLane(synced bool) *lane {
	return &lane{cleanAhead: map[causal.HLC]struct{}{}, synced: synced, fresh: synced}
}

// isInStep reports whether everything that was received before a restart is certainly here again.
func (l *lane) isInStep() bool { return l.fresh || l.syncTarget != 0 && l.received >= l.syncTarget }

// receive records the arrival of the write hlc, which follows previous in the lane.
func (l *lane) receive(hlc, previous, ackedUpTo causal.HLC) {
	l.raiseAckedUpTo(ackedUpTo)
	if previous > l.received {
		l.rememberEarly(earlyWrite{previous, hlc})
	} else {
		l.advanceReceived(hlc)
	}
	n := 0
	for n < len(l.outOfOrder) && l.outOfOrder[n].previous <= l.received {
		l.advanceReceived(l.outOfOrder[n].hlc)
		n++
	}
	l.outOfOrder = slices.Delete(l.outOfOrder, 0, n)
	l.advanceClean()
}

// advanceReceived moves received to a write that is here and directly follows what is received.
func (l *lane) advanceReceived(hlc causal.HLC) {
	if hlc > l.received {
		_, clean := l.cleanAhead[hlc]
		if clean {
			delete(l.cleanAhead, hlc)
		}
		l.received = hlc
		l.unclean = append(l.unclean, laneWrite{hlc, clean})
	}
}

// rememberEarly remembers a write that arrived before the one in front of it. At the bound the last in the lane is
// forgotten.
func (l *lane) rememberEarly(w earlyWrite) {
	i, _ := slices.BinarySearchFunc(l.outOfOrder, w, func(a, b earlyWrite) int {
		return cmp.Or(cmp.Compare(a.previous, b.previous), cmp.Compare(a.hlc, b.hlc))
	})
	if i < len(l.outOfOrder) && l.outOfOrder[i] == w {
		return
	}
	l.outOfOrder = slices.Insert(l.outOfOrder, i, w)
	if len(l.outOfOrder) > maxOutOfOrder {
		l.outOfOrder = l.outOfOrder[:maxOutOfOrder]
	}
}

// raiseAckedUpTo records that everything up to hlc is acknowledged.
func (l *lane) raiseAckedUpTo(hlc causal.HLC) {
	if hlc <= l.ackedUpTo {
		return
	}
	l.ackedUpTo, l.received, l.clean = hlc, max(l.received, hlc), max(l.clean, hlc)
	n := 0
	for n < len(l.unclean) && l.unclean[n].hlc <= hlc {
		n++
	}
	l.unclean = l.unclean[n:]
	if len(l.cleanAhead) > 0 {
		maps.DeleteFunc(l.cleanAhead, func(ahead causal.HLC, _ struct{}) bool { return ahead <= hlc })
	}
}

// markClean records that the write hlc is clean, and reports whether that was not known.
func (l *lane) markClean(hlc causal.HLC) bool {
	if hlc <= l.clean {
		return false
	}
	if i, received := slices.BinarySearchFunc(l.unclean, hlc, func(w laneWrite, hlc causal.HLC) int {
		return cmp.Compare(w.hlc, hlc)
	}); received {
		l.unclean[i].clean = true
	} else if len(l.cleanAhead) < maxOutOfOrder {
		// of others, the coordinator says with a later write that they are acknowledged
		l.cleanAhead[hlc] = struct{}{}
	}
	l.advanceClean()
	return true
}

// advanceClean moves clean up to the first write that is not, and ends the synchronization once its target is received.
func (l *lane) advanceClean() {
	n := 0
	for n < len(l.unclean) && l.unclean[n].clean {
		l.clean = l.unclean[n].hlc
		n++
	}
	l.unclean = l.unclean[n:]
	if !l.synced && l.received >= l.syncTarget && l.syncTarget != 0 {
		l.synced = true
	}
}

// sync takes the coordinator's answer to a LaneHello.
func (l *lane) sync(newest, ackedUpTo causal.HLC) {
	l.raiseAckedUpTo(ackedUpTo)
	l.syncTarget = max(newest, 1)
	l.synced = l.synced || l.received >= newest
	l.advanceClean()
}

// lanes are the lanes from all coordinators to this shard.
type lanes struct {
	byOrigin     []*lane // index 0 is unused
	allSynced    bool    // once all are, they stay so
	coordinators *topology.Topology
	nextHelloAt  int64
}

func newLanes(t *topology.Topology, synced bool) lanes {
	ls := lanes{byOrigin: make([]*lane, t.Origins()+1), coordinators: t}
	for o := range ls.byOrigin {
		ls.byOrigin[o] = newLane(synced)
	}
	return ls
}

// of returns the lane of an origin, or nil if the topology does not have it.
func (ls *lanes) of(o topology.Origin) *lane {
	if int(o) >= len(ls.byOrigin) {
		return nil
	}
	return ls.byOrigin[o]
}

// addTo adds the progress of every lane from which anything was received.
func (ls *lanes) addTo(f *causal.Frontier) {
	for o := 1; o < len(ls.byOrigin); o++ {
		if l := ls.byOrigin[o]; l.received > 0 {
			f.Add(causal.LaneProgress{Origin: topology.Origin(o), Received: l.received, Clean: l.clean})
		}
	}
}

// hasReceived reports whether anything was received from any lane.
func (ls *lanes) hasReceived() bool {
	return slices.ContainsFunc(ls.byOrigin, func(l *lane) bool { return l.received > 0 })
}

// nextHello returns when a LaneHello is due next.
func (ls *lanes) nextHello() int64 {
	if ls.allSynced && !slices.ContainsFunc(ls.byOrigin, func(l *lane) bool { return l.otherMap }) {
		return causal.Never
	}
	return ls.nextHelloAt
}

// desynchronize asks every coordinator again how far it has sent its lane.
func (ls *lanes) desynchronize(now causal.Now) {
	for _, l := range ls.byOrigin {
		l.synced, l.syncTarget = false, 0
	}
	ls.allSynced, ls.nextHelloAt = false, now.Mono
}

// isClean reports whether everything up to what the coordinator has named is processed, and out of the caches.
func (l *lane) isClean() bool { return l.synced && (l.syncTarget <= 1 || l.clean >= l.syncTarget) }

// areClean reports that of all lanes.
func (ls *lanes) areClean() bool {
	return !slices.ContainsFunc(ls.byOrigin[1:], func(l *lane) bool { return !l.isClean() })
}

// unclean returns the coordinators whose lanes are not synchronized, or, if clean is set, not clean.
func (ls *lanes) unclean(clean bool) (nodes []topology.Node) {
	for o := 1; o < len(ls.byOrigin); o++ {
		n := ls.coordinators.CoordinatorOf(topology.Origin(o))
		if l := ls.byOrigin[o]; int(n.Index) < ls.coordinators.DCs[n.DC].RunningCoordinators() &&
			(!l.synced || clean && !l.isClean()) {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// assumeSynced takes lanes for synchronized by the index of their coordinator: a mutation.
func (ls *lanes) assumeSynced(isSynced func(index uint64) bool) {
	for o := 1; o < len(ls.byOrigin); o++ {
		if isSynced(ls.coordinators.CoordinatorOf(topology.Origin(o)).Index) {
			ls.byOrigin[o].synced = true
		}
	}
}
