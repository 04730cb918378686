package causal

import (
	"maps"
	"slices"

	"github.com/causalstore/causalstore/sidecar/topology"
)

// The records go over in lists that the giver makes, a chunk at a time: the first list is of everything in the
// slots, the last one of what was written while the one before was read. A giver that starts anew begins with everything
// again, and so does a taker. One that has stopped serving says so: the list that it makes then is the last.
//
//	KindPull    Map Hash(the old map) ID(life of the taker) Epoch(life of the giver) Session(list) Seq(of the first record)
//	            Clean(the taker has its copy of everything)
//	KindPulled  Map ID Epoch Session Seq Moved Hit(end of the list) Clean(last list) HLC(tombstone horizon)

// pull asks for the next chunk.
func (m *Mover) pull(now Now, s *moveSource) {
	s.askAt = now.Mono + int64(pullAgain)
	m.send(Message{Kind: KindPull, From: m.cfg.Self, To: s.node, Map: m.cfg.Topology.Map(m.ring), Hash: uint64(m.from.Map(m.ring)),
		ID: m.cfg.Life, Epoch: s.life, Session: s.list, Seq: s.next, Clean: m.copied()})
}

// wipe removes what storage holds of the slots that are taken in: from an earlier time at which this middleman had them, or
// from a copy that was not finished. A key that has been deleted since would come back.
func (m *Mover) wipe() {
	m.wiped = true
	if m.cfg.Broken.has(MoveOntoOld) {
		return
	}
	for _, s := range m.sources {
		s.busy = true
	}
	self, from, to, ring := m.cfg.Self, m.from, m.cfg.Topology, m.ring
	gains := func(s topology.Slot) bool { return from.Owner(ring, s) != self && to.Owner(ring, s) == self }
	if !slices.Contains(from.Members(ring), self) {
		gains = func(topology.Slot) bool { return true }
	}
	m.op(MoveOp{Kind: MoveWipe, Want: gains}, func(MoveResult) {
		for _, s := range m.sources {
			s.busy = false
		}
	})
}

// give answers a pull.
func (m *Mover) give(now Now, msg *Message) {
	i := slices.IndexFunc(m.targets, func(t *moveTarget) bool { return t.node == msg.From })
	if i < 0 || msg.Map != m.cfg.Topology.Map(m.ring) || msg.Hash != uint64(m.from.Map(m.ring)) {
		return
	}
	t := m.targets[i]
	if msg.ID != t.life {
		*t = moveTarget{node: t.node, life: msg.ID, dirty: map[string]struct{}{}}
		m.listAll(t)
		return
	}
	list, seq := msg.Session, msg.Seq
	if msg.Epoch != m.cfg.Life {
		list, seq = 1, 0 // with the first chunk it hears of this life
	}
	if list == t.list+1 && !t.final && !t.listing {
		t.ready = t.ready || msg.Clean
		m.listRest(t)
	}
	if list == t.list && !t.listing {
		m.chunk(t, seq)
	}
}

// stopped reports whether the old map is out of use here, durably.
func (m *Mover) stopped() bool {
	return m.phase == moverDone || m.phase == moverFrozen && m.stand.Frozen
}

// listAll begins with everything in the slots that go to t.
func (m *Mover) listAll(t *moveTarget) {
	t.listing = true
	life, final := t.life, m.stopped()
	to, ring, node := m.cfg.Topology, m.ring, t.node
	m.op(MoveOp{Kind: MoveList, Want: func(s topology.Slot) bool { return to.Owner(ring, s) == node }}, func(r MoveResult) {
		if t.life == life {
			t.keys, t.list, t.listing, t.final = r.Keys, 1, false, final
			m.chunk(t, 0)
		}
	})
}

// listRest makes the last list, once this middleman serves no more.
func (m *Mover) listRest(t *moveTarget) {
	if !m.stopped() {
		return
	}
	t.keys, t.list, t.final = slices.Sorted(maps.Keys(t.dirty)), t.list+1, true
	if m.cfg.Broken.has(MoveWithoutRest) {
		t.keys = nil
	}
}

// chunkBytes is about how much goes into one message, if that is more than one record.
const chunkBytes = 1 << 20

// chunk reads and sends a part of the list.
func (m *Mover) chunk(t *moveTarget, seq uint64) {
	from := int(min(seq, uint64(len(t.keys))))
	upTo := min(from+m.cfg.Chunk, len(t.keys))
	answer := Message{Kind: KindPulled, From: m.cfg.Self, To: t.node, Map: m.cfg.Topology.Map(m.ring), ID: t.life, Epoch: m.cfg.Life,
		Session: t.list, Seq: seq, Clean: t.final}
	left := len(t.keys) - from
	m.op(MoveOp{Kind: MoveRead, Keys: t.keys[from:upTo]}, func(r MoveResult) {
		n, bytes := 0, 0
		for n < len(r.Records) && (n == 0 || bytes < chunkBytes) {
			bytes += len(r.Records[n].Key) + r.Records[n].Record.Value.Size()
			n++
		}
		answer.Moved, answer.HLC, answer.Hit = r.Records[:n], r.Horizon, n == left
		m.send(answer)
	})
}

// taken takes a chunk in.
func (m *Mover) taken(now Now, msg *Message) {
	i := slices.IndexFunc(m.sources, func(s *moveSource) bool { return s.node == msg.From })
	if i < 0 || msg.ID != m.cfg.Life || m.phase == moverDone {
		return
	}
	s := m.sources[i]
	switch {
	case s.busy || s.done:
		return
	case msg.Epoch > s.life && msg.Session == 1 && msg.Seq == 0: // the first that is heard of it, or it has started anew
		*s = moveSource{node: s.node, life: msg.Epoch, list: 1}
	case msg.Epoch != s.life || msg.Session != s.list || msg.Seq != s.next:
		return
	}
	s.busy = true
	n, last, final := uint64(len(msg.Moved)), msg.Hit, msg.Clean
	m.op(MoveOp{Kind: MoveApply, Records: msg.Moved, Horizon: msg.HLC}, func(MoveResult) {
		s.busy, s.askAt, s.final = false, 0, final
		s.next += n
		if last {
			s.copied, s.done = true, final
			s.list, s.next = s.list+1, 0
		}
	})
}

// arrive makes the new map durable: from here on it is served by it.
func (m *Mover) arrive() {
	m.ending = true
	s := Stand{Map: m.cfg.Topology.Map(m.ring), Left: len(m.targets) > 0}
	m.keep(s, func() { m.phase, m.ending = moverDone, false })
}

// clean removes what has been given away, once all who got it serve.
func (m *Mover) clean(now Now) {
	if !m.stand.Left || m.ending {
		return
	}
	ask, waiting := now.Mono >= m.askAt, false
	for _, t := range m.targets {
		waiting = waiting || !t.there
		if ask && !t.there {
			m.askAt = now.Mono + int64(askMapEvery)
			m.send(Message{Kind: KindPing, From: m.cfg.Self, To: t.node})
		}
	}
	if waiting {
		return
	}
	m.ending = true
	self, to, ring := m.cfg.Self, m.cfg.Topology, m.ring
	foreign := func(s topology.Slot) bool { return to.Owner(ring, s) != self && !m.cfg.Broken.has(MoveOntoOld) }
	m.op(MoveOp{Kind: MoveWipe, Want: foreign}, func(MoveResult) {
		m.keep(Stand{Map: to.Map(ring)}, func() { m.ending = false })
	})
}
