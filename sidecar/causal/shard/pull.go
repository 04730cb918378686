package shard

import (
	"maps"
	"slices"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// Records are handed over in lists that the giver makes, a chunk at a time. The first list holds everything in the
// slots; each later one what was written while the one before was read. A giver that restarts begins with everything
// again, and so does a taker. Once the giver has stopped serving, the list that it makes is the last.

// pullRetryInterval is how long an unanswered Pull waits before it is repeated.
const pullRetryInterval = 300 * time.Millisecond

// requestChunk asks a source for its next chunk.
func (m *Mover) requestChunk(now causal.Now, s *source) {
	s.askAt = now.Mono + int64(pullRetryInterval)
	m.Send(causal.Pull{Map: m.cfg.Topology.Map(m.ring), OldMap: m.before.Map(m.ring), TakerLife: m.cfg.Life,
		GiverLife: s.life,
		List:      s.list, First: s.next, Copied: m.hasCopies()}.Message(m.cfg.Self, s.node))
}

// wipe removes what storage holds of the slots that are taken in, from an earlier membership or an unfinished copy: a
// key that was deleted since would otherwise come back.
func (m *Mover) wipe() {
	m.wiped = true
	if m.cfg.Broken.Has(causal.MoveOntoOld) {
		return
	}
	for _, s := range m.sources {
		s.busy = true
	}
	self, before, t, ring := m.cfg.Self, m.before, m.cfg.Topology, m.ring
	isTaken := func(s topology.Slot) bool { return before.Owner(ring, s) != self && t.Owner(ring, s) == self }
	if !slices.Contains(before.RingMiddlemen(ring), self) {
		isTaken = func(topology.Slot) bool { return true }
	}
	m.request(MoveOp{Kind: MoveWipe, Want: isTaken}, func(MoveResult) {
		for _, s := range m.sources {
			s.busy = false
		}
	})
}

// wipeSource removes what was copied from a giver that has restarted: it has forgotten which keys were written
// meanwhile, so its new list may lack keys that were deleted.
func (m *Mover) wipeSource(s *source) {
	s.busy = true
	before, t, ring, self, node := m.before, m.cfg.Topology, m.ring, m.cfg.Self, s.node
	isCopied := func(x topology.Slot) bool { return before.Owner(ring, x) == node && t.Owner(ring, x) == self }
	m.request(MoveOp{Kind: MoveWipe, Want: isCopied}, func(MoveResult) { s.busy, s.askAt = false, 0 })
}

// handlePull hands out a chunk.
func (m *Mover) handlePull(from topology.Node, p causal.Pull) {
	i := slices.IndexFunc(m.targets, func(t *target) bool { return t.node == from })
	if i < 0 || p.Map != m.cfg.Topology.Map(m.ring) || p.OldMap != m.before.Map(m.ring) {
		return
	}
	t := m.targets[i]
	if p.TakerLife < t.life || !m.stateSaved {
		return
	}
	if p.TakerLife != t.life {
		*t = *newTarget(t.node)
		t.life = p.TakerLife
		m.startFullList(t)
		return
	}
	list, first := p.List, p.First
	if p.GiverLife != m.cfg.Life {
		list, first = 1, 0 // it learns of this life with the first chunk
	}
	if list == t.list+1 && !t.last && !t.listing {
		t.hasCopy = t.hasCopy || p.Copied
		m.startLastList(t)
	}
	if list == t.list && !t.listing {
		m.sendChunk(t, first)
	}
}

// hasStopped reports whether the old map is durably out of use here.
func (m *Mover) hasStopped() bool {
	return m.phase == phaseSwitched || m.phase == phaseStopped && m.state.Stopped
}

// startFullList lists everything in the slots that t takes.
func (m *Mover) startFullList(t *target) {
	t.listing = true
	life, last := t.life, m.hasStopped()
	before, now, ring, self, node := m.before, m.cfg.Topology, m.ring, m.cfg.Self, t.node
	isGiven := func(s topology.Slot) bool { return before.Owner(ring, s) == self && now.Owner(ring, s) == node }
	m.request(MoveOp{Kind: MoveList, Want: isGiven}, func(r MoveResult) {
		if t.life == life {
			t.keys, t.list, t.listing, t.last = r.Keys, 1, false, last
			m.sendChunk(t, 0)
		}
	})
}

// startLastList makes the last list, once this middleman has stopped serving.
func (m *Mover) startLastList(t *target) {
	if !m.hasStopped() {
		return
	}
	t.keys, t.list, t.last = slices.Sorted(maps.Keys(t.dirty)), t.list+1, true
	if m.cfg.Broken.Has(causal.MoveWithoutRest) {
		t.keys = nil
	}
}

// ChunkBytes is about how much one message carries, in bytes; a single record may be larger.
const ChunkBytes = 1 << 20

// sendChunk reads and sends the part of the list that starts at first.
func (m *Mover) sendChunk(t *target, first uint64) {
	from := int(min(first, uint64(len(t.keys))))
	upTo := min(from+m.cfg.Chunk, len(t.keys))
	reply := causal.Pulled{Map: m.cfg.Topology.Map(m.ring), TakerLife: t.life, GiverLife: m.cfg.Life, List: t.list,
		First: first, LastList: t.last}
	to, left := t.node, len(t.keys)-from
	m.request(MoveOp{Kind: MoveRead, Keys: t.keys[from:upTo]}, func(r MoveResult) {
		n, bytes := 0, 0
		for n < len(r.Records) {
			bytes += len(r.Records[n].Key) + r.Records[n].Record.Value.Size()
			if n > 0 && bytes > ChunkBytes {
				break // beside others, even a record that fits alone might not
			}
			n++
		}
		reply.Moved, reply.Horizon, reply.ListEnd = r.Records[:n], r.Horizon, n == left
		m.Send(reply.Message(m.cfg.Self, to))
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
	if i < 0 || p.TakerLife != m.cfg.Life || m.phase == phaseSwitched || !m.isPulledFrom(from, &p, m.limit.At(now)) {
		return
	}
	s := m.sources[i]
	switch {
	case s.busy || s.done:
		return
	case p.GiverLife > s.life && p.List == 1 && p.First == 0: // the first chunk of this life of the giver
		restarted := s.life != 0
		*s = source{node: s.node, life: p.GiverLife, list: 1}
		if restarted {
			m.wipeSource(s)
			return
		}
	case p.GiverLife != s.life || p.List != s.list || p.First != s.next:
		return
	}
	s.busy = true
	n, listEnd, last := uint64(len(p.Moved)), p.ListEnd, p.LastList
	m.request(MoveOp{Kind: MoveApply, Records: p.Moved, Horizon: p.Horizon}, func(MoveResult) {
		s.busy, s.askAt, s.last = false, 0, last
		s.next += n
		if listEnd {
			s.copied, s.done = true, last
			s.list, s.next = s.list+1, 0
		}
	})
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
