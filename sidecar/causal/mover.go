package causal

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/causalstore/causalstore/sidecar/topology"
)

// Mover brings a middleman from the old map of its ring to the new one while the shards of the ring change
// (topology.DataCenter.ShardsBefore). A middleman that takes slots in pulls what they hold from those that give them away:
//
//  1. Copy. The giver goes on serving. It lists the keys of the slots, hands out their records, and notes what is written
//     meanwhile.
//  2. Handover. Once all who take slots from it have their copy, the giver stops for good to serve by the old map, makes that
//     durable, and hands out the rest: what was written since the copy.
//  3. The taker makes durable that it has all, and serves by the new map, as does the giver.
//
// To go over to another map a middleman starts anew, with nothing of what it had in memory: that is a crash, and everything
// that makes crashes harmless makes this harmless. Coordinators send again what is not acknowledged, caches lose what they
// got from its earlier life, leases are waited for, bound readers wait until the lanes are in step. What was acknowledged is
// in storage, and so in what is handed over.
//
// Invariants: of all middlemen of a ring at most one serves a slot at any time, by whichever map; it holds everything that
// this ring has acknowledged of the slot.
type Mover struct {
	outbox
	cfg  MoverConfig
	ring topology.RingID
	from *topology.Topology
	maps mapping

	stand   Stand // durable
	phase   moverPhase
	sources []*moveSource
	targets []*moveTarget

	ops    []MoveOp
	nextOp uint64
	asked  map[uint64]func(MoveResult)
	retry  []MoveOp
	wiped  bool
	noted  bool // stand is durable
	ending bool // the last step of the phase is being made durable
	askAt  int64
	tickAt int64 // the first
	doneAt int64 // when it had come to serve by the new map, in this life
	rested bool  // and the leases of before have run out since
}

// MoverConfig is what a mover is told at its start.
type MoverConfig struct {
	// Topology is one in which the shards of the ring change.
	Topology *topology.Topology
	Self     topology.Node
	// Life is not zero, and greater than that of every earlier start on this storage.
	Life uint64
	// Stand is what was made durable last; zero for a storage that has not been used.
	Stand Stand
	// Lease is that of the middlemen.
	Lease time.Duration
	// Notice is how long a middleman goes on serving by the old map at least: time for sidecars to hear of the change.
	Notice time.Duration
	// Chunk is how many records are handed out at a time, at most.
	Chunk  int
	Broken Faults
}

// DefaultMoverConfig returns the defaults.
func DefaultMoverConfig(t *topology.Topology, self topology.Node) MoverConfig {
	return MoverConfig{Topology: t, Self: self, Lease: DefaultLease, Notice: 5 * time.Second, Chunk: 128}
}

// Stand is how far a middleman has come, as its storage knows it.
type Stand struct {
	// Map is the map by which the storage holds what it should; 0: it holds nothing of worth.
	Map topology.MapID
	// Frozen says that by this map nothing is served any more: others have been handed slots, or are about to be. Without a
	// map, that slots are being taken in for the first time.
	Frozen bool
	// Left says that the storage also holds what has been given away.
	Left bool
}

// Moved is a key as it is handed over. A record without a version: it is not there.
type Moved struct {
	Key    string
	Record Record
}

type moverPhase uint8

const (
	moverCopies moverPhase = iota // serves by the old map, if it is in it, and takes in copies
	moverStops                    // is to stop serving
	moverFrozen                   // serves nothing, and takes in the rest
	moverDone                     // serves by the new map, if it is in it
)

// moveSource is a middleman that gives slots to this one.
type moveSource struct {
	node   topology.Node
	life   uint64 // whose list is being read
	list   uint64 // its number, from 1
	next   uint64 // record
	copied bool   // one list has been read to its end
	final  bool   // the list that is read is the last one
	done   bool
	busy   bool // a chunk is being applied
	askAt  int64
}

// moveTarget is a middleman that gets slots from this one.
type moveTarget struct {
	node    topology.Node
	life    uint64
	list    uint64
	keys    []string
	final   bool
	listing bool
	ready   bool // it has its copy
	dirty   map[string]struct{}
	there   bool // it serves by the new map
}

// MoveOp is a request to the storage; MoveResult answers it.
type MoveOp struct {
	ID   uint64
	Kind MoveKind
	// Want says which slots are meant, for MoveList and MoveWipe.
	Want func(topology.Slot) bool
	Keys []string // MoveRead
	// Records are to be set, or removed if they have no version, and Horizon is to be raised: MoveApply.
	Records []Moved
	Horizon HLC
	Stand   Stand // MoveStand
}

// MoveKind is what a MoveOp does. Apply, Wipe and Stand must be durable before they are answered.
type MoveKind uint8

// The storage requests of a mover.
const (
	MoveList  MoveKind = iota // all keys of the wanted slots
	MoveRead                  // the records of keys, and the horizon
	MoveApply                 // set and remove records, raise the horizon
	MoveWipe                  // remove everything in the wanted slots
	MoveStand                 // keep Stand
)

// MoveResult answers a MoveOp. A failed request is made again.
type MoveResult struct {
	ID      uint64
	Keys    []string
	Records []Moved
	Horizon HLC
	Failed  bool
}

// NewMover makes the mover of a middleman whose ring changes.
func NewMover(cfg MoverConfig) *Mover {
	t := cfg.Topology
	m := &Mover{cfg: cfg, ring: t.RingOf(cfg.Self.DC), maps: newMapping(t), stand: cfg.Stand, asked: map[uint64]func(MoveResult){}}
	m.from = t.Before(topology.RingsOf(m.ring))
	if slices.Contains(m.from.Members(m.ring), cfg.Self) {
		if m.stand.Map == 0 {
			m.stand.Map = m.from.Map(m.ring) // it has not been noted yet: this is the first start
		}
	} else if m.stand.Map != t.Map(m.ring) {
		m.stand = Stand{Frozen: true} // what it holds is of a time when it was here before
	}
	m.noted = m.stand == cfg.Stand
	switch {
	case m.stand.Map == t.Map(m.ring):
		m.phase, m.wiped = moverDone, true
	case m.stand.Frozen:
		m.phase = moverFrozen
	}
	gains, gives := map[topology.Node]bool{}, map[topology.Node]bool{}
	for s := range topology.Slots {
		was, is := m.from.Owner(m.ring, topology.Slot(s)), t.Owner(m.ring, topology.Slot(s))
		if was != is && is == cfg.Self {
			gains[was] = true
		} else if was != is && was == cfg.Self {
			gives[is] = true
		}
	}
	for _, n := range m.from.Members(m.ring) {
		if gains[n] {
			m.sources = append(m.sources, &moveSource{node: n, list: 1, done: m.phase == moverDone})
		}
	}
	for _, n := range t.Members(m.ring) {
		if gives[n] {
			m.targets = append(m.targets, &moveTarget{node: n, dirty: map[string]struct{}{}})
		}
	}
	if len(m.sources) == 0 {
		m.wiped = true
	}
	return m
}

// Serve returns the topology by which the middleman is to serve now, and false if it is not to serve at all. Whenever the
// answer is another one, the middleman that runs is stopped, Stopped is called, and one that serves by the new answer is
// started, if there is one; never as a fresh one.
func (m *Mover) Serve() (*topology.Topology, bool) {
	t := m.from
	switch m.phase {
	case moverStops, moverFrozen:
		return nil, false
	case moverDone:
		t = m.cfg.Topology
	}
	return t, slices.Contains(t.Members(m.ring), m.cfg.Self)
}

// TookIn reports whether others have given slots to this middleman: see MiddlemanConfig.Inherited.
func (m *Mover) TookIn() bool { return len(m.sources) > 0 }

// Done reports whether this middleman has nothing to do for the change any more: it serves by the new map, or has left,
// holds nothing that others own, and no cache holds anything of before.
func (m *Mover) Done() bool { return m.phase == moverDone && !m.stand.Left && m.rested }

// Gone reports whether it has left the ring, and its storage is empty.
func (m *Mover) Gone() bool {
	return m.Done() && !slices.Contains(m.cfg.Topology.Members(m.ring), m.cfg.Self)
}

// CheckStand says why a middleman cannot start by a topology on a storage with the given stand, or nil.
func CheckStand(t *topology.Topology, self topology.Node, s Stand) error {
	ring := t.RingOf(self.DC)
	from := t.Before(topology.RingsOf(ring))
	member := slices.Contains(from.Members(ring), self)
	good := s.Map == t.Map(ring) || s.Map == from.Map(ring) || !member
	switch {
	case s.Frozen && s.Map == 0:
		good = !member // it has not got what it would have to serve
	case s.Frozen:
		good = t.Changing().Has(ring) && s.Map == from.Map(ring) // it may have given away what it would have to serve
	case s.Map == 0:
		good = true
	}
	if good {
		return nil
	}
	if t.Changing().Has(ring) {
		return errors.New("the storage is in the midst of another change of shards; " +
			"go back to the numbers of shards of that change, with shardsBefore, and begin another one once it has ended")
	}
	return fmt.Errorf("the storage holds the slots of other numbers of shards than the topology of ring %q gives; "+
		"a change of shards has not ended here: put shardsBefore back until it has", t.Rings[ring].Name)
}

// State names what it does: "copying" while the old map is in use here or slots are copied for the first time, "moving" while
// no map is in use, "cleaning" when the new one is and only old copies have to go, "done", and "gone" once it has left the
// ring and its storage is empty.
func (m *Mover) State() string {
	switch {
	case m.Gone():
		return "gone"
	case m.Done():
		return "done"
	case m.phase == moverDone:
		return "cleaning"
	case m.phase == moverCopies || !m.copied():
		return "copying"
	}
	return "moving"
}

// Stand returns what is durable.
func (m *Mover) Stand() Stand { return m.stand }

// Progress returns how many of the middlemen that give slots to this one have been copied, and how many there are.
func (m *Mover) Progress() (copied, all int) {
	for _, s := range m.sources {
		if s.copied || s.done {
			copied++
		}
	}
	return copied, len(m.sources)
}

// Wrote tells of a key that the middleman has asked storage to write or remove, and again when that is done.
func (m *Mover) Wrote(key string) {
	if m.phase == moverDone {
		return
	}
	to := m.cfg.Topology.Owner(m.ring, topology.SlotOf(key))
	for _, t := range m.targets {
		if t.node == to {
			t.dirty[key] = struct{}{}
		}
	}
}

// Stopped says that the middleman has stopped, and that storage does nothing of what it had asked for any more.
func (m *Mover) Stopped() {
	if m.phase != moverStops {
		return
	}
	m.phase = moverFrozen
	s := m.stand
	s.Frozen = true
	m.keep(s, nil)
}

// keep makes a stand durable.
func (m *Mover) keep(s Stand, then func()) {
	m.op(MoveOp{Kind: MoveStand, Stand: s}, func(MoveResult) {
		m.stand = s
		if then != nil {
			then()
		}
	})
}

func (m *Mover) op(op MoveOp, then func(MoveResult)) {
	m.nextOp++
	op.ID = m.nextOp
	m.asked[op.ID] = then
	m.ops = append(m.ops, op)
}

// Ops appends the storage requests to dst and empties the list.
func (m *Mover) Ops(dst []MoveOp) []MoveOp {
	dst = append(dst, m.ops...)
	clear(m.ops)
	m.ops = m.ops[:0]
	return dst
}

// OpDone takes the answer to a request.
func (m *Mover) OpDone(op MoveOp, r MoveResult) {
	if r.Failed {
		m.retry = append(m.retry, op)
		return
	}
	then := m.asked[r.ID]
	delete(m.asked, r.ID)
	if then != nil {
		then(r)
	}
}

// Step takes one message.
func (m *Mover) Step(now Now, msg *Message) {
	switch msg.Kind {
	case KindPull:
		m.give(now, msg)
	case KindPulled:
		m.taken(now, msg)
	case KindPong:
		m.maps.heard(msg)
		for _, t := range m.targets {
			t.there = t.there || t.node == msg.From && msg.ID == m.cfg.Life && msg.Map == m.cfg.Topology.Map(m.ring)
		}
	}
}

// pullAgain is when an unanswered question is repeated.
const pullAgain = 300 * time.Millisecond

// Tick does what is due.
func (m *Mover) Tick(now Now) {
	m.ops = append(m.ops, m.retry...)
	m.retry = m.retry[:0]
	if m.tickAt == 0 {
		m.tickAt = now.Mono
	}
	if !m.noted {
		if !m.ending {
			m.ending = true
			m.keep(m.stand, func() { m.noted, m.ending = true, false })
		}
		return
	}
	switch m.phase {
	case moverDone:
		if m.doneAt == 0 {
			m.doneAt = now.Mono
		}
		m.rested = now.Mono-m.doneAt >= int64(m.cfg.Lease)
		m.clean(now)
		return
	case moverCopies:
		if len(m.sources)+len(m.targets) == 0 {
			m.maps.ask(now, m.cfg.Self, m.send) // its slots stay, and nobody tells it when the others change
		}
		if now.Mono-m.tickAt >= int64(m.cfg.Notice) && m.mayStop() {
			m.phase = moverStops
		}
	case moverFrozen:
		if m.stand.Frozen && m.hasAll() && !m.ending {
			m.arrive()
		}
	}
	if !m.wiped {
		m.wipe()
		return
	}
	for _, s := range m.sources {
		if !s.done && !s.busy && now.Mono >= s.askAt {
			m.pull(now, s)
		}
	}
}

// mayStop reports whether it is time to stop serving by the old map: all who get slots from here have their copy, this one
// has its own, and somebody waits for it to stop, or has stopped already.
func (m *Mover) mayStop() bool {
	if !m.copied() {
		return false
	}
	for _, t := range m.targets {
		if !t.ready {
			return false
		}
	}
	others := m.maps.old == 0 || !m.maps.old.Has(m.ring)
	return len(m.targets) > 0 || others || slices.ContainsFunc(m.sources, func(s *moveSource) bool { return s.final })
}

// copied reports whether all who give slots to this one have been copied once.
func (m *Mover) copied() bool {
	return !slices.ContainsFunc(m.sources, func(s *moveSource) bool { return !s.copied && !s.done })
}

func (m *Mover) hasAll() bool {
	return !slices.ContainsFunc(m.sources, func(s *moveSource) bool { return !s.done })
}
