package causal

import (
	"slices"

	"github.com/causalstore/causalstore/sidecar/topology"
)

// lane is the way from a coordinator to one shard: its puts in HLC order, a window of them under way.
//
// Invariant: every write of this origin for the shard at or below base is acknowledged; the others are in queue[head:], in
// order, acknowledged ones among them until they are first.
type lane struct {
	mm       topology.Node
	ring     topology.RingID
	index    int
	slot     topology.Slot // one that the shard owns, to name it by
	queue    []*write
	head     int
	next     int // of the first one not sent
	inflight int // sent and not acknowledged
	base     HLC
	resendAt int64
	backoff  int
	seen     uint64    // incarnation of the middleman
	complete []Version // to be marked stable at the next publication
}

// makeLanes makes one to every shard of a ring.
func (c *Coordinator) makeLanes(r topology.RingID) {
	for slot := range topology.Slots {
		mm := c.cfg.Topology.Owner(r, topology.Slot(slot))
		if c.lanes[mm] == nil {
			l := &lane{mm: mm, ring: r, index: len(c.laneOrder), slot: topology.Slot(slot)}
			c.lanes[mm] = l
			c.laneOrder = append(c.laneOrder, l)
		}
	}
}

func (c *Coordinator) laneTo(r topology.RingID, slot topology.Slot) *lane {
	return c.lanes[c.cfg.Topology.Owner(r, slot)]
}

// release puts a durable write on its way to the shard of its slot in every ring.
func (c *Coordinator) release(w *write) {
	w.released = true
	for r := range c.cfg.Topology.Rings {
		l := c.laneTo(topology.RingID(r), w.slot)
		l.queue = append(l.queue, w)
	}
}

func (c *Coordinator) pumpAll(now Now) {
	for _, l := range c.laneOrder {
		c.pump(now, l)
	}
}

// pump sends what the window of the lane has room for.
func (c *Coordinator) pump(now Now, l *lane) {
	for l.next < len(l.queue) && l.inflight < c.cfg.Window {
		if l.inflight == 0 {
			l.resendAt = now.Mono + int64(c.cfg.ResendAfter)<<l.backoff
		}
		c.putAfter(l, l.next)
		if !l.queue[l.next].acked.Has(l.ring) { // an earlier life of this coordinator may have sent it
			l.inflight++
		}
		l.next++
	}
	l.advance()
}

// sent reports whether a write of the lane is among those under way.
func (l *lane) sent(w *write) bool {
	return l.next > l.head && w.rec.Version.HLC <= l.queue[l.next-1].rec.Version.HLC
}

// resend sends again what is under way: to a middleman that has lost its memory all of it, else what it has not
// acknowledged.
func (c *Coordinator) resend(now Now, l *lane, all bool) {
	l.resendAt = now.Mono + int64(c.cfg.ResendAfter)<<l.backoff
	for i := l.head; i < l.next; i++ {
		if all || !l.queue[i].acked.Has(l.ring) {
			c.putAfter(l, i)
		}
	}
}

// putAfter sends the i-th write of a lane: after which one it comes there, which writes must be processed before it, and,
// as the last Seq dependencies, up to where the lanes of this origin to the shards of the ring must have been received.
func (c *Coordinator) putAfter(l *lane, i int) {
	w, previous := l.queue[i], l.base
	if i > l.head {
		previous = l.queue[i-1].rec.Version.HLC
	}
	if w.acked == c.rings {
		// Complete, and its value is gone: it only keeps the lane together.
		c.send(Message{Kind: KindPutAfter, From: c.cfg.Self, To: l.mm, Record: w.rec, Clean: true, HLC: previous, Cut: l.base,
			Map: c.cfg.Topology.Map(l.ring)})
		return
	}
	deps := make([]Dep, 0, len(w.deps)+2)
	for _, d := range w.deps {
		if !c.inRing(l.ring, d.Version) {
			deps = append(deps, d)
		}
	}
	byID := len(deps)
	for j, h := range w.need {
		if o := c.laneOrder[j]; o.ring == l.ring && h > o.base {
			deps = append(deps, Dep{Version{h, c.origin}, o.slot})
		}
	}
	c.send(Message{Kind: KindPutAfter, From: c.cfg.Self, To: l.mm, Key: w.key, Record: w.rec, Deps: deps, Seq: uint64(len(deps) - byID),
		HLC: previous, Cut: l.base, Map: c.cfg.Topology.Map(l.ring)})
}

func (c *Coordinator) inRing(r topology.RingID, v Version) bool {
	if v.Origin == c.origin {
		w := c.byHLC[v.HLC]
		return w == nil || w.acked.Has(r)
	}
	return c.known.ProcessedIn(r, v)
}

// acknowledged takes a middleman's word that puts are processed, with their dependencies, and out of the caches.
func (c *Coordinator) acknowledged(now Now, m *Message) {
	l := c.lanes[m.From]
	if l == nil {
		return
	}
	c.meet(now, l, m.Epoch)
	for _, v := range m.Versions {
		w := c.byHLC[v.HLC]
		if w == nil || v.Origin != c.origin || !w.durable || w.acked.Has(l.ring) {
			continue
		}
		w.acked = w.acked.With(l.ring)
		// The slot may have been moved since the middleman took the put; it was processed all the same.
		if at := c.laneTo(l.ring, w.slot); at.sent(w) {
			at.inflight--
			at.backoff = 0
		}
		c.progress = true
		if w.acked == c.rings {
			c.completed(w)
		}
	}
	head := l.head
	l.advance()
	if l.head != head { // what is first now has not waited for long
		l.resendAt = now.Mono + int64(c.cfg.ResendAfter)
	}
	c.advance()
	c.pump(now, l)
}

// advance drops the acknowledged writes at the head of the queue.
func (l *lane) advance() {
	for l.head < l.next && l.queue[l.head].acked.Has(l.ring) {
		l.base = l.queue[l.head].rec.Version.HLC
		l.queue[l.head] = nil
		l.head++
	}
	if l.head > 1024 && 2*l.head > len(l.queue) {
		l.queue = append(l.queue[:0:0], l.queue[l.head:]...)
		l.next -= l.head
		l.head = 0
	}
}

// meet notices a middleman that has started anew: it gets again what is under way.
func (c *Coordinator) meet(now Now, l *lane, incarnation uint64) {
	if incarnation == l.seen {
		return
	}
	if l.seen != 0 {
		c.resend(now, l, true)
	}
	l.seen = incarnation
}

// introduce answers a middleman that has started anew: up to where this origin has written for it. What an earlier life of
// this coordinator has sent counts too, so all that is durable does.
func (c *Coordinator) introduce(now Now, m *Message) {
	l := c.lanes[m.From]
	if l == nil || m.Map != c.cfg.Topology.Map(l.ring) {
		return
	}
	if !m.Clean {
		c.resend(now, l, true)
		l.seen = m.Epoch
	}
	upTo := l.base
	for i := len(c.writes) - 1; i >= 0; i-- {
		if w := c.writes[i]; w.durable && w.acked != c.rings && c.laneTo(l.ring, w.slot) == l {
			upTo = max(upTo, w.rec.Version.HLC)
			break
		}
	}
	c.send(Message{Kind: KindLaneSync, From: c.cfg.Self, To: l.mm, Epoch: m.Epoch, HLC: upTo, Cut: l.base, Map: m.Map,
		Seq: c.absent()})
}

// completed tells the session and prepares the stable marks.
func (c *Coordinator) completed(w *write) {
	if w.sidecar.Part == topology.Sidecar {
		c.send(Message{Kind: KindComplete, From: c.cfg.Self, To: w.sidecar, Session: w.session, Versions: []Version{w.rec.Version}})
	}
	delete(c.byHLC, w.rec.Version.HLC)
	c.bytes -= w.size
	w.rec.Value, w.deps, w.need = Value{}, nil, nil // an older write may keep its place in the order for long
	for r := range c.cfg.Topology.Rings {
		l := c.laneTo(topology.RingID(r), w.slot)
		l.complete = append(l.complete, w.rec.Version)
	}
}

// advance moves the cursors of the rings and forgets the complete prefix.
func (c *Coordinator) advance() {
	for r := range c.cursor {
		for c.cursor[r] < len(c.writes) && c.writes[c.cursor[r]].acked.Has(topology.RingID(r)) {
			c.cursor[r]++
		}
	}
	done := slices.Min(c.cursor)
	if done == 0 {
		return
	}
	for r := range c.cursor {
		c.cursor[r] -= done
	}
	clear(c.writes[:done])
	c.writes = c.writes[done:]
	c.trim()
}

// trim says what of the log is needed no more. The newest checkpoint is, so that a restart finds where this coordinator stood.
func (c *Coordinator) trim() {
	c.truncate = c.heldAt
	if len(c.writes) > 0 {
		c.truncate = min(c.truncate, c.writes[0].index)
	}
}
