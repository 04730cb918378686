package causal

import (
	"slices"
	"time"

	"github.com/causalstore/causalstore/sidecar/topology"
)

// A put names the writes of its own origin that it follows by how far the lanes to the shards of the ring must have been
// received, not by asking each shard for each write: a burst of n puts that follow each other then becomes visible one way
// across the WAN and one way inside the ring later, and not after n ways. What makes that safe:
//
//   - a put becomes visible only when everything in its past is at its shard in this ring (received, or, from other
//     origins, visible), so whatever a reader can follow from it is at least waiting where it will be looked for;
//   - a reader that has seen something in-flight says how new it was, and a shard lets it wait for puts of the key that are
//     older than that and not yet visible.

// inlane is what a middleman has received from one coordinator.
//
// Invariant: every write of the origin for this shard at or below received is here: written, acknowledged or in puts.
// Every one at or below clean is written, and its own invalidations are confirmed.
type inlane struct {
	received HLC
	clean    HLC
	base     HLC   // everything up to here was acknowledged
	order    []HLC // received, above clean, ascending
	early    []earlyPut
	cleaned  map[HLC]struct{}
	target   HLC // after a restart: what must be received before all that was received earlier is here again
	synced   bool
	strange  bool // the coordinator sends by another map
}

type earlyPut struct{ previous, hlc HLC }

// maxEarly bounds the puts that are remembered as having overtaken others; those beyond are sent again anyway.
const maxEarly = 4096

// arrived notes that the write hlc is here, which comes after previous in the lane.
func (l *inlane) arrived(hlc, previous, base HLC) {
	l.acknowledged(base)
	l.early = append(l.early, earlyPut{previous, hlc})
	for again := true; again; {
		again = false
		l.early = slices.DeleteFunc(l.early, func(e earlyPut) bool {
			if e.hlc <= l.received {
				return true
			}
			if e.previous > l.received {
				return false
			}
			l.received, again = e.hlc, true
			l.order = append(l.order, e.hlc)
			return true
		})
	}
	if len(l.early) > maxEarly {
		l.early = l.early[1:]
	}
	l.advance()
}

// acknowledged says that everything up to base is done with.
func (l *inlane) acknowledged(base HLC) {
	l.base, l.received, l.clean = max(l.base, base), max(l.received, base), max(l.clean, base)
	n := 0
	for n < len(l.order) && l.order[n] <= base {
		delete(l.cleaned, l.order[n])
		n++
	}
	l.order = l.order[n:]
}

// advance moves clean over the writes that are.
func (l *inlane) advance() {
	n := 0
	for n < len(l.order) {
		if _, ok := l.cleaned[l.order[n]]; !ok {
			break
		}
		l.clean = l.order[n]
		delete(l.cleaned, l.clean)
		n++
	}
	l.order = l.order[n:]
	if !l.synced && l.received >= l.target && l.target != 0 {
		l.synced = true
	}
}

// frontKey names the lane of an origin to a shard of this ring.
type frontKey struct {
	mm     topology.Node
	origin topology.Origin
}

// front is how far a lane is known to have come, and who waits for it.
type front struct {
	key             frontKey
	received, clean HLC
	forReceived     []frontWait // ascending
	forClean        []frontWait
}

type frontWait struct {
	hlc HLC
	put *put
}

func (m *Middleman) front(mm topology.Node, o topology.Origin) *front {
	k := frontKey{mm, o}
	f := m.fronts[k]
	if f == nil {
		f = &front{key: k}
		m.fronts[k] = f
		m.frontOrder = append(m.frontOrder, f)
	}
	return f
}

// requireLane makes p wait for the lane of its origin to another shard: received, to be visible; clean, to be acknowledged.
func (m *Middleman) requireLane(p *put, d Dep) {
	f := m.front(m.cfg.Topology.Owner(m.ring, d.Slot), d.Version.Origin)
	done := m.known.rv[m.ring][d.Version.Origin]
	if d.Version.HLC > max(f.received, done) && !m.cfg.Broken.has(IgnoreLanes) {
		f.forReceived = insertWait(f.forReceived, frontWait{d.Version.HLC, p})
		p.unprocessed++
	}
	if d.Version.HLC > max(f.clean, done) && !m.cfg.Broken.has(IgnoreLanesClean) {
		f.forClean = insertWait(f.forClean, frontWait{d.Version.HLC, p})
		p.unclean++
	}
}

func insertWait(ws []frontWait, w frontWait) []frontWait {
	i := len(ws)
	for i > 0 && ws[i-1].hlc > w.hlc {
		i--
	}
	return slices.Insert(ws, i, w)
}

// raise takes news of a lane and lets go who waited for it.
func (m *Middleman) raise(now Now, f *front, received, clean HLC) {
	f.received, f.clean = max(f.received, received), max(f.clean, clean)
	for len(f.forReceived) > 0 && f.forReceived[0].hlc <= f.received {
		p := f.forReceived[0].put
		f.forReceived = f.forReceived[1:]
		if p.unprocessed--; p.unprocessed == 0 {
			m.write(now, p)
		}
	}
	for len(f.forClean) > 0 && f.forClean[0].hlc <= f.clean {
		p := f.forClean[0].put
		f.forClean = f.forClean[1:]
		p.unclean--
		m.maybeAck(now, p)
	}
}

// moved tells who waits here, and soon the others of the ring, how far a lane to this shard has come.
func (m *Middleman) moved(now Now, o topology.Origin) {
	l := m.lanes[o]
	f := m.front(m.cfg.Self, o)
	if l.received > f.received || l.clean > f.clean {
		m.gossip = true
		m.raise(now, f, l.received, l.clean)
	}
}

// frontier takes another shard's word.
func (m *Middleman) frontier(now Now, msg *Message) {
	if !m.sameSlots(msg) {
		return
	}
	for _, e := range msg.Vectors {
		if len(e.RV) == 1 && int(e.Origin) < len(m.lanes) {
			m.raise(now, m.front(msg.From, e.Origin), e.RV[0], e.SV)
		}
	}
}

const (
	gossipEvery = 200 * time.Millisecond // at least, for messages that were lost
	helloEvery  = 500 * time.Millisecond
)

// tellRing sends how far the lanes have come to the other shards of the ring.
func (m *Middleman) tellRing(now Now) {
	if !m.gossip && now.Mono-m.gossipAt < int64(gossipEvery) || len(m.peers) == 0 {
		return
	}
	m.gossip, m.gossipAt = false, now.Mono
	var vectors []VectorEntry
	for o := 1; o < len(m.lanes); o++ {
		if l := m.lanes[o]; l.received > 0 {
			vectors = append(vectors, VectorEntry{Origin: topology.Origin(o), SV: l.clean, RV: []HLC{l.received}})
		}
	}
	if len(vectors) == 0 {
		return
	}
	for _, n := range m.peers {
		m.send(Message{Kind: KindFrontier, From: m.cfg.Self, To: n, Vectors: vectors, Map: m.slots()})
	}
}

// hello asks the coordinators to send again what was received before a restart and is not written, and tells those that
// send by another map which one is in use here. A leader says which of the others are away.
func (m *Middleman) hello(now Now) {
	if now.Mono < m.helloAt {
		return
	}
	m.helloAt = now.Mono + int64(helloEvery)
	m.allSynced = true
	for dc := range m.writers.DCs {
		greet := func(i int, l *inlane) {
			to := topology.Node{DC: topology.DC(dc), Part: topology.Coordinator, Index: uint64(i)}
			m.send(Message{Kind: KindLaneHello, From: m.cfg.Self, To: to, Epoch: m.cfg.Incarnation, Map: m.slots(), Clean: l.synced && !l.strange})
			l.strange = false
		}
		lead := m.writers.OriginOf(m.writers.Leader(topology.DC(dc)))
		all := true
		for i := range topology.MaxCoordinators {
			l := m.lanes[lead+topology.Origin(i)]
			all = all && l.synced
			if i > 0 && (i < m.writers.DCs[dc].Writers() || l.received > 0) && (!l.synced || l.strange) {
				greet(i, l)
			}
		}
		if l := m.lanes[lead]; !all || l.strange {
			greet(0, l)
		}
		m.allSynced = m.allSynced && all
	}
}

func (m *Middleman) laneSync(now Now, msg *Message) {
	if msg.Epoch != m.cfg.Incarnation || !m.sameSlots(msg) {
		return // an answer to an earlier life, or of another lane
	}
	o := m.cfg.Topology.OriginOf(msg.From)
	l := m.lanes[o]
	l.acknowledged(msg.Cut)
	l.target = max(msg.HLC, 1)
	l.synced = l.synced || l.received >= msg.HLC
	l.advance()
	m.moved(now, o)
	for i := range topology.MaxCoordinators {
		if msg.Seq&(1<<i) != 0 {
			m.lanes[o-topology.Origin(msg.From.Index)+topology.Origin(i)].synced = true
		}
	}
}

// missesLanes reports whether writes older than seen may have been received before a restart and not be here again yet.
func (m *Middleman) missesLanes(seen HLC) bool {
	if m.allSynced || m.cfg.Broken.has(RestartUnsynced) {
		return false
	}
	for o := 1; o < len(m.lanes); o++ {
		if !m.lanes[o].synced && m.known.rv[m.ring][o] < seen {
			return true
		}
	}
	return false
}

// maxParked bounds the reads that wait for puts to become visible.
const maxParked = 1 << 14

// hold lets a bound reader wait if a put of the key that it may have to see is here and not yet visible.
func (m *Middleman) hold(now Now, msg *Message) bool {
	if msg.Kind != KindGet || msg.HLC == 0 || msg.Cut != 0 && !msg.Older {
		return false
	}
	if m.missesLanes(msg.HLC) {
		m.send(Message{Kind: KindGetReply, From: m.cfg.Self, To: msg.From, ID: msg.ID, Err: ErrStarting})
		return true
	}
	if m.cfg.Broken.has(ReadPastStaged) {
		return false
	}
	for _, p := range m.staged[msg.Key] {
		if p.rec.Version.HLC > msg.HLC {
			continue
		}
		if m.parked >= maxParked {
			m.send(Message{Kind: KindGetReply, From: m.cfg.Self, To: msg.From, ID: msg.ID, Err: ErrBusy})
			return true
		}
		p.parked = append(p.parked, parkedRead{*msg, now.Mono})
		m.parked++
		return true
	}
	return false
}

// stage notes a put that is here and not on its way to storage.
func (m *Middleman) stage(p *put) { m.staged[p.key] = append(m.staged[p.key], p) }

// unstage: the write of p is in its key's queue, so what reads the key later sees it.
func (m *Middleman) unstage(now Now, p *put) {
	if ps := slices.DeleteFunc(m.staged[p.key], func(q *put) bool { return q == p }); len(ps) > 0 {
		m.staged[p.key] = ps
	} else {
		delete(m.staged, p.key)
	}
	parked := p.parked
	p.parked = nil
	m.parked -= len(parked)
	for i := range parked {
		m.read(now, &parked[i].msg)
	}
}

// parkedRead is a read that waits for a put to become visible.
type parkedRead struct {
	msg Message
	at  int64
}

// parkedFor is how long a read is kept waiting: its sidecar has long asked elsewhere.
const parkedFor = 5 * time.Second

func (m *Middleman) dropParked(now Now) {
	for _, p := range m.puts {
		n := 0
		for n < len(p.parked) && now.Mono-p.parked[n].at > int64(parkedFor) {
			n++
		}
		p.parked = p.parked[n:]
		m.parked -= n
	}
}
