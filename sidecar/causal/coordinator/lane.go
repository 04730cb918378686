package coordinator

import (
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/topology"
)

// lane carries the writes of this coordinator to one shard: in HLC order, with a bounded window of them in flight
// (PROTOCOL §4, lanes).
//
// Invariant: every write of this origin for the shard at or below base is acknowledged. The others are in queue[head:], in
// order; acknowledged ones stay among them until all before them are acknowledged too.
type lane struct {
	mm          topology.Node
	ring        topology.RingID
	index       int
	slot        topology.Slot // one that the shard owns, to name it by
	queue       []*write
	head        int // of the first write that is not acknowledged
	next        int // of the first write that was not sent
	inflight    int // sent and not acknowledged
	base        causal.HLC
	resendAt    int64
	backoff     int
	incarnation uint64           // of the middleman; 0: it has not been heard of
	stableMarks []causal.Version // to be sent with the next publication
	marked      uint64           // the incarnation of which an acknowledgement was noted
}

// maxBackoff bounds the exponent of the interval between two resends.
const maxBackoff = 3

// makeLanes adds a lane to every shard of a ring that has none.
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

// laneTo returns the lane that carries writes of a slot to a ring.
func (c *Coordinator) laneTo(r topology.RingID, slot topology.Slot) *lane {
	return c.lanes[c.cfg.Topology.Owner(r, slot)]
}

// release queues a durable write for the shard of its slot in every ring.
func (c *Coordinator) release(w *write) {
	w.released = true
	for r := range c.cfg.Topology.Rings {
		l := c.laneTo(topology.RingID(r), w.slot)
		l.queue = append(l.queue, w)
	}
}

// pump sends what the window of the lane has room for.
func (c *Coordinator) pump(now causal.Now, l *lane) {
	for l.next < len(l.queue) && l.inflight < c.cfg.Window {
		if l.inflight == 0 {
			l.scheduleResend(now, c)
		}
		c.sendPutAfter(l, l.next)
		if !l.queue[l.next].acked.Has(l.ring) { // it may have been acknowledged to an earlier life of this coordinator
			l.inflight++
		}
		l.next++
	}
	l.dropAckedPrefix()
}

func (l *lane) scheduleResend(now causal.Now, c *Coordinator) {
	l.resendAt = now.Mono + int64(c.cfg.ResendAfter)<<l.backoff
}

// isSent reports whether a write of the lane is in flight or acknowledged.
func (l *lane) isSent(w *write) bool {
	return l.next > l.head && w.rec.Version.HLC <= l.queue[l.next-1].rec.Version.HLC
}

// resend sends again what is in flight: all of it to a middleman that has lost its memory, otherwise what the middleman has
// not acknowledged.
func (c *Coordinator) resend(now causal.Now, l *lane, all bool) {
	l.scheduleResend(now, c)
	for i := l.head; i < l.next; i++ {
		if all || !l.queue[i].acked.Has(l.ring) {
			c.sendPutAfter(l, i)
		}
	}
}

// sendPutAfter sends the i-th write of a lane, with the write before it in the lane and what it must wait for.
func (c *Coordinator) sendPutAfter(l *lane, i int) {
	w := l.queue[i]
	p := causal.PutAfter{Key: w.key, Record: w.rec, Previous: l.base, AckedUpTo: l.base, Map: c.cfg.Topology.Map(l.ring)}
	if i > l.head {
		p.Previous = l.queue[i-1].rec.Version.HLC
	}
	if w.acked == c.rings {
		// Complete, and its value is dropped: it only holds the lane together.
		p.Key, p.Complete = "", true
		c.Send(p.Message(c.cfg.Self, l.mm))
		return
	}
	p.Deps = causal.NewDepList(len(w.deps) + 2)
	for _, d := range w.deps {
		if !c.isInRing(l.ring, d.Version) {
			p.Deps.AddWrite(d)
		}
	}
	for j, h := range w.laneDeps {
		if o := c.laneOrder[j]; o.ring == l.ring && h > o.base {
			p.Deps.AddLane(causal.Dep{Version: causal.Version{HLC: h, Origin: c.origin}, Slot: o.slot})
		}
	}
	c.Send(p.Message(c.cfg.Self, l.mm))
}

// isInRing reports whether ring r is known to have acknowledged v.
func (c *Coordinator) isInRing(r topology.RingID, v causal.Version) bool {
	if v.Origin == c.origin {
		w := c.incomplete[v.HLC]
		return w == nil || w.acked.Has(r)
	}
	return c.known.ProcessedIn(r, v)
}

// dropAckedPrefix drops the acknowledged writes at the head of the queue.
func (l *lane) dropAckedPrefix() {
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

// noteIncarnation detects that a middleman has restarted, and sends it again what is in flight.
func (c *Coordinator) noteIncarnation(now causal.Now, l *lane, incarnation uint64) {
	if incarnation == l.incarnation {
		return
	}
	if l.incarnation != 0 {
		c.resend(now, l, true)
	}
	l.incarnation = incarnation
}

// handleLaneHello tells a middleman that has restarted up to where this origin has written for it. What an earlier life of
// this coordinator has sent counts too, so everything durable does.
func (c *Coordinator) handleLaneHello(now causal.Now, from topology.Node, h causal.LaneHello) {
	l := c.lanes[from]
	if l == nil || h.Map != c.cfg.Topology.Map(l.ring) || !c.isEstablished() {
		return // a log that may be lost knows nothing of what was sent
	}
	c.log.pending.note(causal.ShardMark{DC: from.DC, Index: from.Index, Incarnation: h.Incarnation})
	if !h.AwayOnly {
		c.resend(now, l, true)
		l.incarnation = h.Incarnation
	}
	newest := l.base
	for i := len(c.writes) - 1; i >= 0; i-- {
		if w := c.writes[i]; w.durable && w.acked != c.rings && c.laneTo(l.ring, w.slot) == l {
			newest = max(newest, w.rec.Version.HLC)
			break
		}
	}
	c.Send(causal.LaneSync{Incarnation: h.Incarnation, Newest: newest, AckedUpTo: l.base, Map: h.Map, Away: c.awayBits()}.Message(c.cfg.Self, l.mm))
}
