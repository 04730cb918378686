package shard

import (
	"slices"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/middleman"
	"github.com/causalstore/causalstore/sidecar/causal/transfer"
	"github.com/causalstore/causalstore/topology"
)

// Mover brings a middleman from the old slot map of its ring to the new one (topology.DataCenter.ShardsBefore). A
// middleman that takes slots in pulls their records from the middlemen that give them away:
//
//  1. Copy. The giver goes on serving. It lists the keys of the slots, hands out their records, and notes which keys
//     are written meanwhile.
//  2. Handover. Once all that take slots from it have a copy, the giver stops serving under the old map for good, makes
//     that durable, and hands out what was written since the copy.
//  3. The taker makes durable that it has everything, and serves under the new map, as does the giver.
//
// A switch to another map is a restart without the memory of before, so everything that makes crashes harmless makes it
// harmless: coordinators send again what is not acknowledged, caches drop what they got from the earlier life, leases
// are waited for, and bound readers wait until the lanes are in step. What was acknowledged is in storage, and so is
// handed over.
//
// Invariants: at most one middleman of a ring serves a slot at any time, under whichever map; it holds everything that
// the ring has acknowledged of the slot.
type Mover struct {
	causal.Outbox
	cfg    MoverConfig
	limit  causal.TimeLimit
	ring   topology.RingID
	before *topology.Topology // with the old map of the ring
	maps   causal.SlotMaps

	state   MigrationState // durable, once stateSaved
	phase   phase
	sources []*source
	targets []*target

	ops           []MoveOp
	lastOp        uint64
	requests      map[uint64]func(MoveResult)
	retry         []MoveOp
	wiped         bool  // old records of the slots that are taken in are removed
	stateSaved    bool  // the state of the start is durable
	saving        bool  // the last step of the phase is being made durable
	pingAt        int64 // when targets are asked again whether they serve
	startedAt     int64
	switchedAt    int64
	leasesExpired bool // those granted before the switch
}

// MoverConfig configures a Mover.
type MoverConfig struct {
	// Topology is one in which the shards of the ring change.
	Topology *topology.Topology
	Self     topology.Node
	// Life is not zero, and greater than that of every earlier start on this storage.
	Life uint64
	// State is what was made durable last.
	State MigrationState
	// Lease is that of the middlemen.
	Lease time.Duration
	// Notice is how long a middleman goes on serving under the old map at least, so that sidecars learn of the
	// resharding.
	Notice time.Duration
	// Chunk bounds the records handed out at a time.
	Chunk  int
	Broken causal.Mutations
}

// DefaultMoverConfig returns the defaults.
func DefaultMoverConfig(t *topology.Topology, self topology.Node) MoverConfig {
	return MoverConfig{Topology: t, Self: self, Lease: middleman.DefaultLease, Notice: 5 * time.Second, Chunk: 128}
}

// source is a middleman that gives slots to this one.
type source struct {
	node topology.Node
	transfer.Receiver
}

// target is a middleman that takes slots from this one.
type target struct {
	node topology.Node
	transfer.Sender
	keys    []string // of the list
	busy    bool     // storage is listing keys, or reading a chunk
	hasCopy bool
	dirty   map[string]struct{} // keys written since the list was made
	serving bool                // under the new map
}

func newTarget(n topology.Node) *target { return &target{node: n, dirty: map[string]struct{}{}} }

// MoveOp is a request to the storage; MoveResult answers it.
type MoveOp struct {
	ID   uint64
	Kind MoveKind
	// Want says which slots are meant, for MoveList and MoveWipe.
	Want func(topology.Slot) bool
	Keys []string // for MoveRead
	// Records are to be set, or removed if they have no version, and Horizon is to be raised: for MoveApply.
	Records []causal.Moved
	Horizon causal.HLC
	State   MigrationState // for MoveSaveState
}

// MoveKind is what a MoveOp does.
type MoveKind uint8

// The storage requests of a mover. MoveApply, MoveWipe and MoveSaveState must be durable before they are answered.
const (
	MoveList MoveKind = iota // the keys of the wanted slots
	// the records of the first of Keys, until they have ChunkBytes, and the tombstone horizon read after them
	MoveRead
	MoveApply
	MoveWipe // remove the records of the wanted slots
	MoveSaveState
)

// MoveResult answers a MoveOp.
type MoveResult struct {
	ID      uint64
	Keys    []string
	Records []causal.Moved
	Horizon causal.HLC
	Failed  bool
}

// NewMover makes a mover for a middleman whose ring is being resharded.
func NewMover(cfg MoverConfig) *Mover {
	t := cfg.Topology
	m := &Mover{cfg: cfg, ring: t.RingOf(cfg.Self.DC), maps: causal.NewSlotMaps(t), state: cfg.State,
		requests: map[uint64]func(MoveResult){}}
	m.before = t.WithOldMaps(topology.RingsOf(m.ring))
	if slices.Contains(m.before.RingMiddlemen(m.ring), cfg.Self) {
		if m.state.Map == 0 {
			m.state.Map = m.before.Map(m.ring) // it has not been saved yet: this is the first start
		}
	} else if m.state.Map != t.Map(m.ring) {
		m.state = MigrationState{Stopped: true} // what storage holds is from an earlier membership
	}
	m.stateSaved = m.state == cfg.State
	switch {
	case m.state.Map == t.Map(m.ring):
		m.phase, m.wiped = phaseSwitched, true
	case m.state.Stopped:
		m.phase = phaseStopped
	}
	m.findPeers()
	if len(m.sources) == 0 {
		m.wiped = true
	}
	return m
}

// findPeers determines who gives slots to this middleman and who takes slots from it.
func (m *Mover) findPeers() {
	t, self := m.cfg.Topology, m.cfg.Self
	gives, takes := map[topology.Node]bool{}, map[topology.Node]bool{}
	for s := range topology.Slots {
		old, now := m.before.Owner(m.ring, topology.Slot(s)), t.Owner(m.ring, topology.Slot(s))
		if old != now && now == self {
			gives[old] = true
		} else if old != now && old == self {
			takes[now] = true
		}
	}
	for _, n := range m.before.RingMiddlemen(m.ring) {
		if gives[n] {
			s := &source{node: n, Receiver: transfer.NewReceiver(transfer.Config{Run: m.cfg.Life,
				Repeat: pullRetryInterval, Broken: m.cfg.Broken})}
			if m.phase == phaseSwitched {
				s.Finish()
			}
			m.sources = append(m.sources, s)
		}
	}
	for _, n := range t.RingMiddlemen(m.ring) {
		if takes[n] {
			m.targets = append(m.targets, newTarget(n))
		}
	}
}

// ServingTopology returns the topology under which the middleman is to serve now, or false if it is to serve nothing.
func (m *Mover) ServingTopology() (*topology.Topology, bool) {
	t := m.before
	switch m.phase {
	case phaseStopping, phaseStopped:
		return nil, false
	case phaseSwitched:
		t = m.cfg.Topology
	}
	return t, slices.Contains(t.RingMiddlemen(m.ring), m.cfg.Self)
}

// TakesSlots reports whether others give slots to this middleman: see middleman.Config.Inherited.
func (m *Mover) TakesSlots() bool { return len(m.sources) > 0 }

// IsDone reports whether nothing is left to do for the resharding: the middleman serves under the new map or has left
// the ring, its storage holds no slot of others, and no cache holds a copy from before.
func (m *Mover) IsDone() bool {
	return m.phase == phaseSwitched && !m.state.HoldsMovedSlots && m.leasesExpired
}

// isBusy reports whether tick has something to do. A mover that is done still answers those that are not.
func (m *Mover) isBusy() bool { return !m.IsDone() || len(m.retry) > 0 }

// HasLeft reports whether the middleman has left the ring, and its storage is empty.
func (m *Mover) HasLeft() bool {
	return m.IsDone() && !slices.Contains(m.cfg.Topology.RingMiddlemen(m.ring), m.cfg.Self)
}

// Stage names what the mover does: "copying" while the old map is served here or slots are copied for the first time,
// "moving" while no map is served, "cleaning" when the new one is served and old copies have to go, "done", and "gone"
// once it has left the ring and its storage is empty.
func (m *Mover) Stage() string {
	switch {
	case m.HasLeft():
		return "gone"
	case m.IsDone():
		return "done"
	case m.phase == phaseSwitched:
		return "cleaning"
	case m.phase == phaseCopying || !m.hasCopies():
		return "copying"
	}
	return "moving"
}

// Progress returns how many of the middlemen that give slots to this one have been copied, and how many there are.
func (m *Mover) Progress() (copied, all int) {
	for _, s := range m.sources {
		if s.HasPass() {
			copied++
		}
	}
	return copied, len(m.sources)
}

// noteWrite records that the middleman has asked storage to write or remove a key, or that this has been done.
func (m *Mover) noteWrite(key string) {
	if m.phase == phaseSwitched {
		return
	}
	to := m.cfg.Topology.Owner(m.ring, topology.SlotOf(key))
	for _, t := range m.targets {
		if t.node == to {
			t.dirty[key] = struct{}{}
		}
	}
}

// noteStopped records that no middleman serves here, and that storage has finished everything that one had asked for.
func (m *Mover) noteStopped() {
	if m.phase != phaseStopping {
		return
	}
	m.phase = phaseStopped
	s := m.state
	s.Stopped = true
	m.saveState(s, nil)
}

// saveState makes a state durable, and then calls then.
func (m *Mover) saveState(s MigrationState, then func()) {
	m.request(MoveOp{Kind: MoveSaveState, State: s}, func(MoveResult) {
		m.state = s
		if then != nil {
			then()
		}
	})
}

func (m *Mover) request(op MoveOp, then func(MoveResult)) {
	m.lastOp++
	op.ID = m.lastOp
	m.requests[op.ID] = then
	m.ops = append(m.ops, op)
}

// takeOps appends the storage requests to dst and empties the list.
func (m *Mover) takeOps(dst []MoveOp) []MoveOp {
	dst = append(dst, m.ops...)
	clear(m.ops)
	m.ops = m.ops[:0]
	return dst
}

// OpDone handles the answer to a storage request. A failed request is repeated at the next tick.
func (m *Mover) OpDone(op MoveOp, r MoveResult) {
	if r.Failed {
		m.retry = append(m.retry, op)
		return
	}
	then := m.requests[r.ID]
	delete(m.requests, r.ID)
	if then != nil {
		then(r)
	}
}

// step handles one message.
func (m *Mover) step(now causal.Now, msg *causal.Message) {
	switch msg.Kind {
	case causal.KindPull:
		m.handlePull(msg.From, msg.Pull())
	case causal.KindPulled:
		m.handlePulled(now, msg.From, msg.Pulled())
	case causal.KindPong:
		m.maps.Observe(msg)
		for _, t := range m.targets {
			p := msg.Pong()
			t.serving = t.serving || t.node == msg.From && p.ID == m.cfg.Life && p.Map == m.cfg.Topology.Map(m.ring)
		}
	}
}

// tick does what is due.
func (m *Mover) tick(now causal.Now) {
	m.ops = append(m.ops, m.retry...)
	m.retry = m.retry[:0]
	if m.startedAt == 0 {
		m.startedAt = now.Mono
	}
	if !m.stateSaved {
		if !m.saving {
			m.saving = true
			m.saveState(m.state, func() { m.stateSaved, m.saving = true, false })
		}
		return
	}
	switch m.phase {
	case phaseSwitched:
		if m.switchedAt == 0 {
			m.switchedAt = now.Mono
		}
		m.leasesExpired = now.Mono-m.switchedAt >= int64(m.cfg.Lease)
		m.removeMovedSlots(now)
		return
	case phaseCopying:
		if len(m.sources)+len(m.targets) == 0 {
			m.maps.Poll(now, m.cfg.Self, m.Send) // its slots stay, so nobody else tells it when the others switch
		}
		if now.Mono-m.startedAt >= int64(m.cfg.Notice) && m.mayStop() {
			m.phase = phaseStopping
		}
	case phaseStopped:
		if m.state.Stopped && m.hasEverything() && !m.saving {
			m.switchToNewMap()
		}
	}
	if !m.wiped {
		m.wipe()
		return
	}
	for _, s := range m.sources {
		m.requestChunk(now, s)
	}
}

// mayStop reports whether it is time to stop serving under the old map: all that take slots from here have a copy, this
// middleman has its own, and somebody waits for it to stop or has stopped already.
func (m *Mover) mayStop() bool {
	if !m.hasCopies() {
		return false
	}
	for _, t := range m.targets {
		if !t.hasCopy {
			return false
		}
	}
	othersSwitched := !m.maps.Pending().Has(m.ring)
	return len(m.targets) > 0 || othersSwitched || slices.ContainsFunc(m.sources, func(s *source) bool {
		return s.IsLast()
	})
}

// hasCopies reports whether every source has been copied once.
func (m *Mover) hasCopies() bool {
	return !slices.ContainsFunc(m.sources, func(s *source) bool { return !s.HasPass() })
}

// hasEverything reports whether every source has handed out its last list.
func (m *Mover) hasEverything() bool {
	return !slices.ContainsFunc(m.sources, func(s *source) bool { return !s.IsDone() })
}
