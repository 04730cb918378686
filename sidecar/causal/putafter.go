package causal

import (
	"slices"

	"github.com/causalstore/causalstore/sidecar/topology"
)

// put is a put-after until it is acknowledged.
type put struct {
	key         string
	rec         Record
	from        topology.Node
	unprocessed int // dependencies that are not processed in this ring
	unclean     int // dependencies that are not acknowledged, with theirs, in this ring
	waits       int // caches that have not confirmed
	written     bool
	parked      []parkedRead // that wait for it
}

// need is a dependency that puts of this shard wait for.
type need struct {
	version   Version
	slot      topology.Slot
	processed bool
	clean     bool
	askedAt   int64
	waiting   []*put // for processed
	cleaning  []*put // for clean
}

// watcher is a node that asked for a write of this shard.
type watcher struct {
	node topology.Node
	told bool // that it is processed
}

// putAfter takes a put from a coordinator, again and again until it is acknowledged.
func (m *Middleman) putAfter(now Now, msg *Message) {
	v := msg.Record.Version
	if int(v.Origin) >= len(m.lanes) {
		return // a coordinator that this topology does not know
	}
	lane := m.lanes[v.Origin]
	if !m.sameSlots(msg) {
		lane.strange = true // it will hear which map is in use here
		return
	}
	if msg.Clean || m.cleanHere(v, topology.SlotOf(msg.Key)) {
		if !msg.Clean {
			m.ack(msg.From, v)
		}
		if v.HLC > lane.clean {
			lane.cleaned[v.HLC] = struct{}{}
		}
		lane.arrived(v.HLC, msg.HLC, msg.Cut)
		m.moved(now, v.Origin)
		return
	}
	if p := m.puts[v]; p != nil {
		p.from = msg.From
		return
	}
	m.stats.Puts++
	p := &put{key: msg.Key, rec: msg.Record, from: msg.From}
	m.puts[v] = p
	m.stage(p)
	lane.arrived(v.HLC, msg.HLC, msg.Cut)
	m.moved(now, v.Origin)
	if m.cfg.Broken.has(LoserSkipsDeps) && v.Less(m.faultLatest[p.key]) {
		m.write(now, p)
		return
	}
	byID := max(len(msg.Deps)-int(msg.Seq), 0)
	for _, d := range msg.Deps[:byID] {
		m.require(now, p, d)
	}
	for _, d := range msg.Deps[byID:] {
		m.requireLane(p, d)
	}
	if p.unprocessed == 0 {
		m.write(now, p)
	} else {
		m.stats.DepWaits++
	}
}

// require makes p wait for d. The test is on the write's id: that the key holds this version or a greater one says
// nothing about the dependencies of the smaller one (PROTOCOL §5).
func (m *Middleman) require(now Now, p *put, d Dep) {
	if m.cleanHere(d.Version, d.Slot) {
		return
	}
	n := m.needs[d.Version]
	if n == nil {
		n = &need{version: d.Version, slot: d.Slot}
		m.needs[d.Version] = n
		m.asking = append(m.asking, n)
		if m.local(d.Slot) {
			_, n.processed = m.processed[d.Version]
		} else {
			m.ask(now, n)
		}
	}
	if !n.processed {
		n.waiting = append(n.waiting, p)
		p.unprocessed++
	}
	n.cleaning = append(n.cleaning, p)
	p.unclean++
}

func (m *Middleman) local(s topology.Slot) bool {
	return m.cfg.Topology.Owner(m.ring, s) == m.cfg.Self
}

func (m *Middleman) ask(now Now, n *need) {
	n.askedAt = now.Mono
	m.send(Message{Kind: KindDepCheck, From: m.cfg.Self, To: m.cfg.Topology.Owner(m.ring, n.slot), Versions: []Version{n.version}, Seq: uint64(n.slot)})
}

func (m *Middleman) askAgain(now Now) {
	m.asking = slices.DeleteFunc(m.asking, func(n *need) bool { return n.clean })
	for _, n := range m.asking {
		if !m.local(n.slot) && now.Mono-n.askedAt >= int64(m.cfg.AskAgain) {
			m.ask(now, n)
		}
	}
}

// resolve says that a write is processed in this ring, and if clean, also acknowledged.
func (m *Middleman) resolve(now Now, v Version, clean bool) {
	n := m.needs[v]
	if n == nil {
		return
	}
	if !n.processed {
		n.processed = true
		waiting := n.waiting
		n.waiting = nil
		for _, p := range waiting {
			if p.unprocessed--; p.unprocessed == 0 {
				m.write(now, p)
			}
		}
	}
	if clean && !n.clean {
		n.clean = true
		delete(m.needs, v)
		for _, p := range n.cleaning {
			p.unclean--
			m.maybeAck(now, p)
		}
		n.cleaning = nil
	}
}

// processedNow follows the write to storage in the same step: from here on readers of this ring may see it, in-flight, so
// puts that depend on it may be processed; caches that hold older values are told.
func (m *Middleman) processedNow(now Now, p *put, superseded bool) {
	v := p.rec.Version
	p.written = true
	m.processed[v] = &done{key: p.key}
	if m.faultLatest != nil {
		if m.faultLatest[p.key].Less(v) {
			m.faultLatest[p.key] = v
		}
		m.faultMarked[p.key] = false
	}
	if superseded {
		m.stats.Superseded++
	}
	m.invalidate(now, p, superseded)
	m.resolve(now, v, false)
	m.tell(v, false)
	m.locallyClean(now, p)
	m.maybeAck(now, p)
}

// locallyClean moves the lane on once p is written and no cache holds an older value of its key.
func (m *Middleman) locallyClean(now Now, p *put) {
	if !p.written || p.waits > 0 {
		return
	}
	v := p.rec.Version
	if l := m.lanes[v.Origin]; v.HLC > l.clean {
		l.cleaned[v.HLC] = struct{}{}
		l.advance()
		m.moved(now, v.Origin)
	}
}

// maybeAck acknowledges last (PROTOCOL §5): the write is out of the ring's caches, and so are the writes that it depends
// on. Were the latter not waited for, a session released by this write's completion could read an older value of a
// dependency from a cache whose invalidation is still under way.
func (m *Middleman) maybeAck(now Now, p *put) {
	if !p.written || p.waits > 0 && !m.cfg.Broken.has(AckBeforeInvalidation) || p.unclean > 0 && !m.cfg.Broken.has(AckBeforeDepsClean) {
		return
	}
	v := p.rec.Version
	if m.puts[v] != p {
		return
	}
	delete(m.puts, v)
	m.ack(p.from, v)
	m.settled(now, v)
}

// settled notes that v is processed and clean.
func (m *Middleman) settled(now Now, v Version) {
	if d := m.processed[v]; d != nil {
		d.clean = true
	}
	m.resolve(now, v, true)
	m.tell(v, true)
}

// depCheck answers at once what is known, and the rest when it happens.
func (m *Middleman) depCheck(now Now, msg *Message) {
	v := msg.Versions[0]
	if !m.local(topology.Slot(msg.Seq)) {
		return // who asks will learn who owns it
	}
	if m.cleanHere(v, topology.Slot(msg.Seq)) || m.cfg.Broken.has(DepByGreater) && m.greaterInSlot(topology.Slot(msg.Seq), v) {
		m.depStatus(msg.From, v, true)
		return
	}
	_, processed := m.processed[v]
	if processed {
		m.depStatus(msg.From, v, false)
	}
	ws := m.watchers[v]
	for i := range ws {
		if ws[i].node == msg.From {
			ws[i].told = processed
			return
		}
	}
	if ws == nil {
		m.watched = append(m.watched, v)
	}
	m.watchers[v] = append(ws, watcher{node: msg.From, told: processed})
}

func (m *Middleman) greaterInSlot(s topology.Slot, v Version) bool {
	for key, latest := range m.faultLatest {
		if topology.SlotOf(key) == s && !latest.Less(v) {
			return true
		}
	}
	return false
}

// tell answers the nodes that asked for v.
func (m *Middleman) tell(v Version, clean bool) {
	ws := m.watchers[v]
	for i := range ws {
		if clean || !ws[i].told {
			ws[i].told = true
			m.depStatus(ws[i].node, v, clean)
		}
	}
	if clean {
		delete(m.watchers, v)
	}
}

func (m *Middleman) depStatus(to topology.Node, v Version, clean bool) {
	m.send(Message{Kind: KindDepStatus, From: m.cfg.Self, To: to, Versions: []Version{v}, Ring: m.ring, Clean: clean})
}
