package shard

import (
	"maps"
	"slices"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/transfer"
	"github.com/causalstore/causalstore/topology"
)

// Records are handed over in lists that the giver makes, a chunk at a time: the passes and pages of a transfer, of
// which a Pull counts the records. The first list holds everything in the slots; the second one, which is the last,
// what was written while the first one was read. It is made once the giver has stopped serving. A giver that restarts
// begins with everything again, and so does a taker: their lives are those of the source, and the numbers of runs.

// pullRetryInterval is how long an unanswered Pull waits before it is repeated.
const pullRetryInterval = 300 * time.Millisecond

// requestChunk asks a source for its next chunk, if that is due.
func (m *Mover) requestChunk(now causal.Now, s *source) {
	if r, _, ok := s.Ask(now); ok {
		m.Send(causal.Pull{Map: m.cfg.Topology.Map(m.ring), OldMap: m.before.Map(m.ring), TakerLife: r.Run,
			GiverLife: r.Life, List: r.At.Pass, First: r.At.Seq, Copied: m.hasCopies()}.Message(m.cfg.Self, s.node))
	}
}

// wipe removes what storage holds of the slots that are taken in, from an earlier membership or an unfinished copy: a
// key that was deleted since would otherwise come back.
func (m *Mover) wipe() {
	m.wiped = true
	cleared := func(MoveResult) {
		for _, s := range m.sources {
			s.Cleared()
		}
	}
	if m.cfg.Broken.Has(causal.MoveOntoOld) {
		cleared(MoveResult{})
		return
	}
	self, before, t, ring := m.cfg.Self, m.before, m.cfg.Topology, m.ring
	isTaken := func(s topology.Slot) bool { return before.Owner(ring, s) != self && t.Owner(ring, s) == self }
	if !slices.Contains(before.RingMiddlemen(ring), self) {
		isTaken = func(topology.Slot) bool { return true }
	}
	m.request(MoveOp{Kind: MoveWipe, Want: isTaken}, cleared)
}

// wipeSource removes what was copied from a giver that has restarted: it has forgotten which keys were written
// meanwhile, so its new list may lack keys that were deleted.
func (m *Mover) wipeSource(s *source) {
	before, t, ring, self, node := m.before, m.cfg.Topology, m.ring, m.cfg.Self, s.node
	isCopied := func(x topology.Slot) bool { return before.Owner(ring, x) == node && t.Owner(ring, x) == self }
	m.request(MoveOp{Kind: MoveWipe, Want: isCopied}, func(MoveResult) { s.Cleared() })
}

// handlePull hands out a chunk.
func (m *Mover) handlePull(from topology.Node, p causal.Pull) {
	i := slices.IndexFunc(m.targets, func(t *target) bool { return t.node == from })
	if i < 0 || p.Map != m.cfg.Topology.Map(m.ring) || p.OldMap != m.before.Map(m.ring) || !m.stateSaved {
		return
	}
	t := m.targets[i]
	switch t.Asked(transfer.Request{Run: p.TakerLife, Life: p.GiverLife,
		At: transfer.Place{Pass: p.List, Seq: p.First}}) {
	case transfer.NewRun, transfer.UnknownRun: // the taker learns of this life with the first chunk
		*t = *newTarget(t.node)
		t.Begin(p.TakerLife, m.cfg.Life, transfer.First())
		m.startFullList(t)
	case transfer.NextPass:
		if !t.busy {
			t.hasCopy = t.hasCopy || p.Copied
			m.startLastList(t)
		}
	case transfer.ThisPage:
		m.sendChunk(t)
	case transfer.Late:
	}
}

// hasStopped reports whether the old map is durably out of use here.
func (m *Mover) hasStopped() bool {
	return m.phase == phaseSwitched || m.phase == phaseStopped && m.state.Stopped
}

// startFullList lists everything in the slots that t takes.
func (m *Mover) startFullList(t *target) {
	t.busy = true
	run, last := t.Run(), m.hasStopped()
	before, now, ring, self, node := m.before, m.cfg.Topology, m.ring, m.cfg.Self, t.node
	isGiven := func(s topology.Slot) bool { return before.Owner(ring, s) == self && now.Owner(ring, s) == node }
	m.request(MoveOp{Kind: MoveList, Want: isGiven}, func(r MoveResult) {
		if t.Run() != run {
			return
		}
		t.keys, t.busy = r.Keys, false
		if last {
			t.EndWithPass()
		}
		m.sendChunk(t)
	})
}

// startLastList makes the last list, once this middleman has stopped serving.
func (m *Mover) startLastList(t *target) {
	if !m.hasStopped() {
		return
	}
	t.BeginPass()
	t.EndWithPass()
	t.keys = slices.Sorted(maps.Keys(t.dirty))
	if m.cfg.Broken.Has(causal.MoveWithoutRest) {
		t.keys = nil
	}
	m.sendChunk(t)
}

// ChunkBytes is about how much one message carries, in bytes; a single record may be larger.
const ChunkBytes = transfer.PageBytes

// sendChunk reads and sends the part of the list that is wanted.
func (m *Mover) sendChunk(t *target) {
	asked, wanted := t.Wanted()
	if !wanted || t.busy {
		return
	}
	t.busy = true
	from := int(min(asked.At.Seq, uint64(len(t.keys))))
	upTo := min(from+m.cfg.Chunk, len(t.keys))
	reply := causal.Pulled{Map: m.cfg.Topology.Map(m.ring), TakerLife: asked.Run, GiverLife: m.cfg.Life,
		List: asked.At.Pass, First: asked.At.Seq, LastList: t.IsLast()}
	left := len(t.keys) - from
	m.request(MoveOp{Kind: MoveRead, Keys: t.keys[from:upTo]}, func(r MoveResult) {
		if t.Run() != asked.Run {
			return
		}
		t.busy = false
		if t.Answered(asked) {
			n := transfer.Fit(r.Records, ChunkBytes)
			reply.Moved, reply.Horizon, reply.ListEnd = r.Records[:n], r.Horizon, n == left
			m.Send(reply.Message(m.cfg.Self, t.node))
		}
		m.sendChunk(t)
	})
}

// isPulledFrom reports whether a giver may hand a chunk over: it gives keys of slots that it had and that this shard
// takes, and no timestamp that could not be there. Else it could replace any key here, and a horizon from the future
// would make every later write be dropped as an old one.
func (m *Mover) isPulledFrom(from topology.Node, p *causal.Pulled, limit causal.HLC) bool {
	return p.Horizon <= limit && !slices.ContainsFunc(p.Moved, func(r causal.Moved) bool {
		slot := topology.SlotOf(r.Key)
		return m.before.Owner(m.ring, slot) != from || m.cfg.Topology.Owner(m.ring, slot) != m.cfg.Self ||
			r.Record.Version.HLC > limit
	})
}

// handlePulled takes a chunk in.
func (m *Mover) handlePulled(now causal.Now, from topology.Node, p causal.Pulled) {
	i := slices.IndexFunc(m.sources, func(s *source) bool { return s.node == from })
	if i < 0 || m.phase == phaseSwitched || !m.isPulledFrom(from, &p, m.limit.At(now)) {
		return
	}
	s := m.sources[i]
	if p.GiverLife < s.Life() {
		return // it is late: lives ascend
	}
	at := transfer.Place{Pass: p.List, Seq: p.First}
	switch s.Take(&transfer.Page{Run: p.TakerLife, Life: p.GiverLife, At: at, Records: p.Moved,
		Next: at.Follows(uint64(len(p.Moved)), ""), End: p.ListEnd, Last: p.LastList}) {
	case transfer.StartOver:
		m.wipeSource(s)
	case transfer.Write:
		m.request(MoveOp{Kind: MoveApply, Records: p.Moved, Horizon: p.Horizon}, func(MoveResult) { s.Written() })
	case transfer.Ignore:
	}
}

// switchToNewMap makes the new map durable: from here on it is served.
func (m *Mover) switchToNewMap() {
	m.saving = true
	s := MigrationState{Map: m.cfg.Topology.Map(m.ring), HoldsMovedSlots: len(m.targets) > 0}
	m.saveState(s, func() { m.phase, m.saving = phaseSwitched, false })
}

// removeMovedSlots removes what was given away, once all that took it serve it.
func (m *Mover) removeMovedSlots(now causal.Now) {
	if !m.state.HoldsMovedSlots || m.saving {
		return
	}
	ask, waiting := now.Mono >= m.pingAt, false
	for _, t := range m.targets {
		waiting = waiting || !t.serving
		if ask && !t.serving {
			m.pingAt = now.Mono + int64(causal.SlotMapPollInterval)
			m.Send(causal.Ping{ID: m.cfg.Life}.Message(m.cfg.Self, t.node))
		}
	}
	if waiting {
		return
	}
	m.saving = true
	self, t, ring := m.cfg.Self, m.cfg.Topology, m.ring
	isMoved := func(s topology.Slot) bool { return t.Owner(ring, s) != self && !m.cfg.Broken.Has(causal.MoveOntoOld) }
	m.request(MoveOp{Kind: MoveWipe, Want: isMoved}, func(MoveResult) {
		m.saveState(MigrationState{Map: t.Map(ring)}, func() { m.saving = false })
	})
}
