package causal

import (
	"time"

	"github.com/causalstore/causalstore/topology"
)

// SlotMaps tracks which slot map of each ring a part uses during resharding. The middlemen decide: each switches to the
// new map on its own (package shard) and refuses what is sent under any other map. All other parts use the old map of a
// ring until they learn that one of its middlemen uses the new one.
type SlotMaps struct {
	target  *topology.Topology // the topology that was configured
	view    *topology.Topology // the topology as it is used: with the old map in the rings of pending
	pending topology.RingSet   // rings whose old map is still in use
	askAt   int64
}

// NewSlotMaps returns the slot maps of t. Rings that are being resharded start with their old map.
func NewSlotMaps(t *topology.Topology) SlotMaps {
	m := SlotMaps{view: t}
	m.Load(t)
	return m
}

// Load takes a topology that differs in the numbers of coordinators, shards and caches only. Rings that use the new map
// already keep it.
func (m *SlotMaps) Load(t *topology.Topology) {
	var pending topology.RingSet
	for r := range t.Rings {
		if id := topology.RingID(r); t.Resharding().Has(id) && (m.target == nil || m.view.Map(id) != t.Map(id)) {
			pending = pending.With(id)
		}
	}
	m.target, m.pending, m.view = t, pending, t.WithOldMaps(pending)
}

// Observe looks at the slot map that a message of a middleman names. If this is the first message that names the new
// map of a ring, Observe returns the ring and true: from here on the new map is used.
func (m *SlotMaps) Observe(msg *Message) (topology.RingID, bool) {
	if m.pending == 0 || msg.From.Part != topology.Middleman {
		return topology.NoRing, false
	}
	used := msg.slotMap()
	r := m.target.RingOf(msg.From.DC)
	if used == 0 || !m.pending.Has(r) || used != m.target.Map(r) {
		return topology.NoRing, false
	}
	m.pending = m.pending.Without(r)
	m.view = m.target.WithOldMaps(m.pending)
	return r, true
}

// View returns the topology to be used now.
func (m *SlotMaps) View() *topology.Topology { return m.view }

// Pending returns the rings whose old map is still in use.
func (m *SlotMaps) Pending() topology.RingSet { return m.pending }

// SlotMapPollInterval is how often the middlemen of a ring that is being resharded are asked which map they use.
const SlotMapPollInterval = 500 * time.Millisecond

// NextPoll returns when Poll has something to do next.
func (m *SlotMaps) NextPoll() int64 {
	if m.pending == 0 {
		return Never
	}
	return m.askAt
}

// Poll asks the middlemen that own slots in the new map. Those that do not use it yet do not answer, or name the old
// map.
func (m *SlotMaps) Poll(now Now, self topology.Node, send func(Message)) {
	if m.pending == 0 || now.Mono < m.askAt {
		return
	}
	m.askAt = now.Mono + int64(SlotMapPollInterval)
	for r := range m.target.Rings {
		if id := topology.RingID(r); m.pending.Has(id) {
			for _, n := range m.target.RingMiddlemen(id) {
				if n != self {
					send(Ping{}.Message(self, n))
				}
			}
		}
	}
}
