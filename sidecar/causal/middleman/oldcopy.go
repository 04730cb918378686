package middleman

import (
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// A storage may be an older copy of what this shard had: nothing in it tells (PROTOCOL OLD).
// Coordinators remember how far the storage had come, as acknowledgements have said, and say that in their answers to a
// LaneHello. The shard compares it with the lineage of its storage. If somebody remembers what is not in that, the
// storage has lost what it lacks.
//
// Before it has heard enough of them, the shard answers no read and hands out nothing: what others rely on may be
// missing. It takes puts, and acknowledges them later.

const (
	// hearFor is how long a shard waits, after a start, for coordinators that do not answer. One at least has to.
	hearFor = 3 * time.Second
	// reportInterval is how often the first coordinators of all data centers are told how far the storage has come, at
	// most.
	reportInterval = time.Second
)

// ownHistory is what this start knows of how far the storage has come, and who remembers what of that.
type ownHistory struct {
	*shared
	lanes     *lanes
	startedAt int64 // monotonic
	changes   uint64
	heard     []bool // by origin: its coordinator has said what it remembers
	unsure    []bool // by origin: its coordinator may have forgotten what it sends again
	anyHeard  bool
	checked   bool // enough of them have
	isOld     bool // one of them remembers more
	remembers causal.Reach
	reminder  topology.Node

	told     []uint64 // by origin: how far its coordinator knows that the storage has come
	reports  bool     // some coordinator is to be told, at reportAt
	reportAt int64
}

func newOwnHistory(s *shared, ls *lanes, now causal.Now) ownHistory {
	cfg := &s.cfg
	n := cfg.Topology.Origins() + 1
	return ownHistory{shared: s, lanes: ls, startedAt: now.Mono, changes: cfg.Changes,
		heard: make([]bool, n), unsure: make([]bool, n), told: make([]uint64, n),
		reports: cfg.Lineage.HasPast() || cfg.DataLost, reportAt: now.Mono + int64(reportInterval),
		checked: !hasPast(cfg) || cfg.Broken.Has(causal.ServeUnheard)}
}

// hasPast reports whether the shard may have acknowledged what its storage lacks. A storage that is empty, though
// somebody has heard of the shard, is compared, too: who knew what it had acknowledged may have restarted and forgotten
// that, while the vectors of others still cover it.
func hasPast(cfg *Config) bool {
	return cfg.Lineage.HasPast() || cfg.Emptied && !cfg.Broken.Has(causal.ServeEmptied)
}

// compare takes what the coordinator of an origin remembers of the storage.
func (h *ownHistory) compare(now causal.Now, o topology.Origin, from topology.Node, s *causal.LaneSync) {
	h.heard[o], h.unsure[o], h.anyHeard = true, s.Unsure && !s.Recovering, true
	if r := s.Reached; !h.cfg.Lineage.Holds(r) && !h.isOld && !h.cfg.Broken.Has(causal.ServeOldCopy) {
		h.isOld, h.remembers, h.reminder = true, s.Reached, from
	}
	h.check(now)
}

// check decides whether enough coordinators were heard: all, or after a while any.
func (h *ownHistory) check(now causal.Now) {
	if h.checked {
		return
	}
	h.checked = h.anyHeard && (h.allHeard() || now.Mono-h.startedAt >= int64(hearFor))
}

// allHeard reports whether every coordinator that is in use was heard.
func (h *ownHistory) allHeard() bool {
	ls := h.lanes
	for dc := range ls.coordinators.DCs {
		leader := ls.coordinators.OriginOf(ls.coordinators.Leader(topology.DC(dc)))
		for i := range ls.coordinators.DCs[dc].RunningCoordinators() {
			o := leader + topology.Origin(i)
			if h.awaitsWordOf(o) {
				return false
			}
		}
	}
	return true
}

// awaitsWordOf reports whether the coordinator of an origin has not said what it remembers, or what it may have
// forgotten is not here again. One that is away has nothing to say.
func (h *ownHistory) awaitsWordOf(o topology.Origin) bool {
	l := h.lanes.of(o)
	switch {
	case l == nil:
		return false
	case h.heard[o]:
		return h.unsure[o] && !l.isClean()
	}
	return !l.synced
}

// noteChanges takes note that a request to the storage is durable.
func (h *ownHistory) noteChanges(now causal.Now, r *StorageResult) {
	if r.Failed || r.Changes <= h.changes {
		return
	}
	h.changes = r.Changes
	h.reportLater(now)
}

// changesFor returns how far the coordinator of an origin is to remember that the storage has come; 0: it is not told.
// What it remembers would be forgotten, and may be more than this storage has, until it has said it.
func (h *ownHistory) changesFor(o topology.Origin) uint64 {
	if int(o) >= len(h.heard) || !h.heard[o] && hasPast(&h.cfg) && !h.cfg.Broken.Has(causal.ReachUnheard) ||
		h.isOld {
		return 0
	}
	h.told[o] = h.changes
	return h.changes
}

// reportLater has the first coordinators of all data centers told how far the storage has come. Those that write here
// know it from acknowledgements; the others are asked after a start as well.
func (h *ownHistory) reportLater(now causal.Now) {
	if !h.reports {
		h.reports, h.reportAt = true, now.Mono+int64(reportInterval)
	}
}

// tick tells the first coordinators that do not know it how far the storage has come, if that is due.
func (h *ownHistory) tick(now causal.Now) {
	if !h.reports || now.Mono < h.reportAt {
		return
	}
	h.reports = false
	t := h.lanes.coordinators
	for dc := range t.DCs {
		leader := t.Leader(topology.DC(dc))
		o := t.OriginOf(leader)
		if h.told[o] == h.changes {
			continue
		}
		if changes := h.changesFor(o); changes > 0 {
			h.Send(causal.PutAck{Incarnation: h.cfg.Incarnation, Changes: changes}.Message(h.cfg.Self, leader))
		} else {
			h.reportLater(now) // it has not said yet what it remembers
		}
	}
}

// reportAgain is called when a coordinator can be reached again: what it was told last may be lost.
func (h *ownHistory) reportAgain(now causal.Now, coordinator topology.Node) {
	if o := h.cfg.Topology.OriginOf(coordinator); int(o) < len(h.told) && h.told[o] > 0 {
		h.told[o] = 0
		h.reportLater(now)
	}
}

// nextTick returns when tick has something to do.
func (h *ownHistory) nextTick() int64 {
	if h.reports {
		return h.reportAt
	}
	return causal.Never
}

// isInDoubt reports whether a put has to be written though it is known to be in the ring: this storage may have lost
// it.
func (m *Middleman) isInDoubt(v causal.Version) bool {
	l := m.lanes.of(v.Origin)
	return !m.history.checked && v.HLC > l.ackedUpTo && v.HLC > m.tombstones.horizon
}

// IsChecked reports whether the storage is known to be the newest, as far as coordinators that could be heard remember.
func (m *Middleman) IsChecked() bool { return m.history.checked && !m.history.isOld }

// IsOldCopy reports whether a coordinator remembers that the storage had come further than it has, which one, and what.
func (m *Middleman) IsOldCopy() (isOld bool, coordinator topology.Node, remembers causal.Reach) {
	return m.history.isOld, m.history.reminder, m.history.remembers
}

// Unheard returns the coordinators that have not said yet what they remember of the storage; none once enough have.
func (m *Middleman) Unheard() (nodes []topology.Node) {
	if m.history.checked {
		return nil
	}
	for o := 1; o < len(m.lanes.byOrigin); o++ {
		n := m.lanes.coordinators.CoordinatorOf(topology.Origin(o))
		if int(n.Index) < m.lanes.coordinators.DCs[n.DC].RunningCoordinators() &&
			m.history.awaitsWordOf(topology.Origin(o)) {
			nodes = append(nodes, n)
		}
	}
	return nodes
}
