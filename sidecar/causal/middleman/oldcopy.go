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

func newOwnHistory(cfg *Config, now causal.Now) ownHistory {
	n := cfg.Topology.Origins() + 1
	return ownHistory{startedAt: now.Mono, changes: cfg.Changes, heard: make([]bool, n), unsure: make([]bool, n),
		told:    make([]uint64, n),
		reports: cfg.Lineage.HasPast() || cfg.DataLost, reportAt: now.Mono + int64(reportInterval),
		checked: !cfg.Lineage.HasPast() || cfg.Broken.Has(causal.ServeUnheard)}
}

// compareHistory takes what the coordinator of an origin remembers of the storage.
func (m *Middleman) compareHistory(now causal.Now, o topology.Origin, from topology.Node, s *causal.LaneSync) {
	h := &m.history
	h.heard[o], h.unsure[o], h.anyHeard = true, s.Unsure && !s.Adopting, true
	if r := s.Reached; !m.cfg.Lineage.Holds(r) && !h.isOld && !m.cfg.Broken.Has(causal.ServeOldCopy) {
		h.isOld, h.remembers, h.reminder = true, s.Reached, from
	}
	m.checkHistory(now)
}

// checkHistory decides whether enough coordinators were heard: all, or after a while any.
func (m *Middleman) checkHistory(now causal.Now) {
	h := &m.history
	if h.checked {
		return
	}
	h.checked = h.anyHeard && (m.allHeard() || now.Mono-h.startedAt >= int64(hearFor))
}

// allHeard reports whether every coordinator that is in use was heard.
func (m *Middleman) allHeard() bool {
	ls := &m.lanes
	for dc := range ls.coordinators.DCs {
		leader := ls.coordinators.OriginOf(ls.coordinators.Leader(topology.DC(dc)))
		for i := range ls.coordinators.DCs[dc].RunningCoordinators() {
			o := leader + topology.Origin(i)
			if m.awaitsWordOf(o) {
				return false
			}
		}
	}
	return true
}

// awaitsWordOf reports whether the coordinator of an origin has not said what it remembers, or what it may have
// forgotten is not here again. One that is away has nothing to say.
func (m *Middleman) awaitsWordOf(o topology.Origin) bool {
	l := m.lanes.of(o)
	switch {
	case l == nil:
		return false
	case m.history.heard[o]:
		return m.history.unsure[o] && !l.isClean()
	}
	return !l.synced
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
		if int(n.Index) < m.lanes.coordinators.DCs[n.DC].RunningCoordinators() && m.awaitsWordOf(topology.Origin(o)) {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// noteChanges takes note that a request to the storage is durable.
func (m *Middleman) noteChanges(now causal.Now, r *StorageResult) {
	h := &m.history
	if r.Failed || r.Changes <= h.changes {
		return
	}
	h.changes = r.Changes
	m.reportLater(now)
}

// changesFor returns how far the coordinator of an origin is to remember that the storage has come; 0: it is not told.
// What it remembers would be forgotten, and may be more than this storage has, until it has said it.
func (m *Middleman) changesFor(o topology.Origin) uint64 {
	h := &m.history
	if int(o) >= len(h.heard) || !h.heard[o] && m.cfg.Lineage.HasPast() && !m.cfg.Broken.Has(causal.ReachUnheard) ||
		h.isOld {
		return 0
	}
	h.told[o] = h.changes
	return h.changes
}

// reportLater has the first coordinators of all data centers told how far the storage has come. Those that write here
// know it from acknowledgements; the others are asked after a start as well.
func (m *Middleman) reportLater(now causal.Now) {
	if h := &m.history; !h.reports {
		h.reports, h.reportAt = true, now.Mono+int64(reportInterval)
	}
}

// reportChanges tells the first coordinators that do not know it how far the storage has come, if that is due.
func (m *Middleman) reportChanges(now causal.Now) {
	h := &m.history
	if !h.reports || now.Mono < h.reportAt {
		return
	}
	h.reports = false
	t := m.lanes.coordinators
	for dc := range t.DCs {
		leader := t.Leader(topology.DC(dc))
		o := t.OriginOf(leader)
		if h.told[o] == h.changes {
			continue
		}
		if changes := m.changesFor(o); changes > 0 {
			m.Send(causal.PutAck{Incarnation: m.cfg.Incarnation, Changes: changes}.Message(m.cfg.Self, leader))
		} else {
			m.reportLater(now) // it has not said yet what it remembers
		}
	}
}

// reportAgain is called when a coordinator can be reached again: what it was told last may be lost.
func (m *Middleman) reportAgain(now causal.Now, coordinator topology.Node) {
	h := &m.history
	if o := m.cfg.Topology.OriginOf(coordinator); int(o) < len(h.told) && h.told[o] > 0 {
		h.told[o] = 0
		m.reportLater(now)
	}
}

// nextReport returns when reportChanges has something to do.
func (m *Middleman) nextReport() int64 {
	if m.history.reports {
		return m.history.reportAt
	}
	return causal.Never
}
