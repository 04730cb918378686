package coordinator

import (
	"cmp"
	"slices"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// lane carries the writes of this coordinator to one shard: in HLC order, with a bounded number of bytes in flight
// (PROTOCOL LAN).
//
// Invariant: every write of this origin for the shard at or below base is acknowledged. The others are in queue[head:],
// in order; acknowledged ones stay among them until all before them are acknowledged too. flow.inFlight is the size of
// those in queue[head:next] that are not acknowledged.
type lane struct {
	mm          topology.Node
	ring        topology.RingID
	index       int
	slot        topology.Slot // one that the shard owns, to name it by
	queue       []queued
	head        int // of the first write that is not acknowledged
	next        int // of the first write that was not sent
	base        causal.HLC
	newest      causal.HLC // of the writes for the shard that were accepted
	flow        flow
	resend      resending
	incarnation uint64            // of the middleman; 0: it has not been heard of
	stableMarks []causal.Version  // to be sent with the next publication
	marked      uint64            // the incarnation of which an acknowledgement was noted
	reached     causal.Reach      // how far its storage has come, as the shard has said since the start
	excluded    bool              // nothing is sent, see excludedlane.go
	applies     causal.Exclusions // that the shard has said to apply
	// the incarnation that has found the data of earlier ones lost, once their acknowledgements count no more
	voided uint64
}

// queued is a write in a lane.
type queued struct {
	w      *write
	sentAt int64 // monotonic: when it was last sent
	times  int   // that it was sent
	late   int   // that it was sent again because it was late, while others were acknowledged
}

// laneTable has the lane to each shard.
type laneTable struct {
	*shared
	lanes     map[topology.Node]*lane
	laneOrder []*lane // by lane.index
}

func newLaneTable(s *shared) laneTable { return laneTable{shared: s, lanes: map[topology.Node]*lane{}} }

// makeLanes adds a lane to every shard of a ring that has none.
func (c *Coordinator) makeLanes(r topology.RingID) {
	for slot := range topology.Slots {
		mm := c.cfg.Topology.Owner(r, topology.Slot(slot))
		if c.lanes[mm] == nil {
			roundTrip := time.Duration(c.cfg.Topology.RTT[c.cfg.Self.DC][mm.DC] * 1e6)
			l := &lane{mm: mm, ring: r, index: len(c.laneOrder), slot: topology.Slot(slot),
				flow:     newFlow(c.windowBound(), roundTrip),
				excluded: c.log.durable.isExcluded(mm)}
			c.lanes[mm] = l
			c.laneOrder = append(c.laneOrder, l)
		}
	}
}

// laneTo returns the lane that carries writes of a slot to a ring.
func (t *laneTable) laneTo(r topology.RingID, slot topology.Slot) *lane {
	return t.lanes[t.cfg.Topology.Owner(r, slot)]
}

// note notes that a write for the shard was accepted.
func (l *lane) note(w *write) { l.newest = max(l.newest, w.rec.Version.HLC) }

// release queues a durable write for the shard of its slot in every ring.
func (c *Coordinator) release(w *write) {
	w.released = true
	for r := range c.cfg.Topology.Rings {
		l := c.laneTo(topology.RingID(r), w.slot)
		l.queue = append(l.queue, queued{w: w})
	}
}

// pump sends what the lane has room for.
func (c *Coordinator) pump(now causal.Now, l *lane) {
	if l.excluded {
		c.treatExcludedAsAcked(now, l)
		return
	}
	for l.next < len(l.queue) {
		size := 0
		if w := l.queue[l.next].w; !w.acked.Has(l.ring) {
			// it may have been acknowledged to an earlier life of this coordinator
			size = w.flying
		}
		if !l.flow.admits(size) {
			break
		}
		if !c.sendPutAfter(now, l, l.next) {
			break
		}
		if l.flow.inFlight == 0 {
			c.scheduleResend(now, l)
		}
		l.flow.sent(now, size)
		l.next++
	}
	l.dropAckedPrefix()
}

// takeAck takes an acknowledgement of a write, which may have been sent by an earlier life of this coordinator.
func (c *Coordinator) takeAck(now causal.Now, l *lane, w *write) {
	sent := l.queue[l.head:l.next]
	i, found := slices.BinarySearchFunc(sent, w.rec.Version.HLC, func(e queued, h causal.HLC) int {
		return cmp.Compare(e.w.rec.Version.HLC, h)
	})
	if !found {
		return
	}
	e := &sent[i]
	l.flow.acknowledged(now, w.flying, e.sentAt, e.times > 1)
	switch {
	case e.times > 1:
		l.resend.credit += 2 * w.flying // what was sent again gets there: go on, and faster
	case l.resend.silent > 0:
		l.resend.overtakenBy = max(l.resend.overtakenBy, w.rec.Version.HLC)
	}
	l.resend.heard, l.resend.silent = true, 0
}

// sendPutAfter sends the i-th write of a lane, with the write before it in the lane and what it must wait for, and
// reports whether it could.
//
// A put that was accepted by a version without bounds may have more dependencies than a message takes. It waits until
// enough of them are complete, and are not named any more: they have smaller timestamps, so none of them waits for it
// (PROTOCOL LAN).
func (c *Coordinator) sendPutAfter(now causal.Now, l *lane, i int) bool {
	m := c.putAfter(l, i)
	if !m.FitsMessage() {
		return false
	}
	e := &l.queue[i]
	e.sentAt = now.Mono
	e.times++
	c.Send(m)
	return true
}

// putAfter returns the i-th write of a lane as a message.
func (c *Coordinator) putAfter(l *lane, i int) causal.Message {
	w := l.queue[i].w
	acked := c.ackedUpTo(l)
	p := causal.PutAfter{Key: w.key, Record: w.rec, Previous: acked, AckedUpTo: acked, Map: c.cfg.Topology.Map(l.ring),
		Generation: c.log.durable.Generation, Past: w.past}
	if i > l.head {
		p.Previous = l.queue[i-1].w.rec.Version.HLC
	}
	if w.acked == c.rings {
		// Complete, and its value is dropped: it only holds the lane together.
		p.Key, p.Complete = "", true
		return p.Message(c.cfg.Self, l.mm)
	}
	deps, met := &c.unmet, &c.met
	deps.Reset()
	met.Reset()
	for _, d := range w.deps {
		if !c.isInRing(l.ring, d.Version) {
			deps.AddWrite(d)
		} else if !c.isComplete(d.Version) {
			met.AddWrite(d)
		}
	}
	for j, h := range w.laneDeps {
		if o := c.laneOrder[j]; o.ring == l.ring && h > o.base && !o.excluded {
			deps.AddLane(causal.Dep{Version: causal.Version{HLC: h, Origin: c.origin}, Slot: o.slot})
		} else if o.ring == l.ring && h > c.known.SV(c.origin) {
			met.AddLane(causal.Dep{Version: causal.Version{HLC: h, Origin: c.origin}, Slot: o.slot})
		}
	}
	p.Deps, p.Met = c.depRoom.Clone(*deps), c.depRoom.Clone(*met)
	return p.Message(c.cfg.Self, l.mm)
}

// ackedUpTo returns up to where a lane says that everything is acknowledged. Like SV, it does not pass what is lost
// before all that may precede it is settled.
func (c *Coordinator) ackedUpTo(l *lane) causal.HLC {
	if c.hasLostAboveSV() && !c.cfg.Broken.Has(causal.LanePassesLost) {
		return min(l.base, c.known.SV(c.origin))
	}
	return l.base
}

// dropAckedPrefix drops the acknowledged writes at the head of the queue.
func (l *lane) dropAckedPrefix() {
	for l.head < l.next && l.queue[l.head].w.acked.Has(l.ring) {
		l.base = l.queue[l.head].w.rec.Version.HLC
		l.queue[l.head] = queued{}
		l.head++
	}
	if l.head > 1024 && 2*l.head > len(l.queue) {
		n := copy(l.queue, l.queue[l.head:])
		clear(l.queue[n:])
		if l.queue = l.queue[:n]; n < cap(l.queue)/8 {
			l.queue = slices.Clone(l.queue)
		}
		l.next -= l.head
		l.resend.next = max(l.resend.next-l.head, 0)
		l.head = 0
	}
}

// noteIncarnation detects that a middleman has restarted, and sends it again what is in flight.
func (c *Coordinator) noteIncarnation(now causal.Now, l *lane, incarnation uint64) {
	if incarnation == l.incarnation {
		return
	}
	if l.incarnation != 0 {
		c.replay(now, l)
	}
	l.incarnation = incarnation
}

// handleLaneHello tells a middleman that has restarted up to where this origin has written for it. What an earlier life
// of this coordinator has sent counts too, so everything durable does.
func (c *Coordinator) handleLaneHello(now causal.Now, m *causal.Message) {
	from, h := m.From, m.LaneHello()
	l := c.lanes[from]
	if !c.isPlausibleIncarnation(now, h.Incarnation) {
		return
	}
	if l == nil || h.Map != c.cfg.Topology.Map(l.ring) || !c.log.isEstablished() {
		c.answerWithReach(from, l, &h)
		return
	}
	mark := causal.ShardMark{DC: from.DC, Index: from.Index, Incarnation: h.Incarnation}
	if h.Lost {
		c.noteLostReach(l, h.Incarnation)
		mark.Lost = h.Incarnation
		c.exclusion.noteRejoined(from, m.Exclusions())
	}
	c.log.pending.note(mark)
	if known := c.log.pending.mark(from).Incarnation; h.Lost && known > h.Incarnation {
		c.Send(causal.LaneSync{Incarnation: h.Incarnation, Round: h.Round, Map: h.Map,
			Surpassed: known}.Message(c.cfg.Self, l.mm))
		return
	}
	if c.leader != nil && from.DC == c.cfg.Self.DC { // it has restarted, and the next vectors may be far
		c.leader.Send(c.leader.allVectors().Message(c.cfg.Self, from))
	}
	if h.Lost && !c.voidAcks(now, l, h.Incarnation) {
		return // it asks again
	}
	if !h.AwayOnly {
		if h.Incarnation != l.incarnation || c.mayReplay(now, l) {
			c.replay(now, l)
		}
		l.incarnation = h.Incarnation
	}
	reply := causal.LaneSync{Incarnation: h.Incarnation, Round: h.Round, Map: h.Map,
		Generation: c.log.durable.Generation,
		Reached:    c.reachOf(l, h.Incarnation), Unsure: c.isUnsureOf(l)}
	if c.isRecovering() { // what the lost log had sent, and the middleman has forgotten, is not known
		reply.Recovering = true
		c.Send(reply.Message(c.cfg.Self, l.mm))
		return
	}
	acked := c.ackedUpTo(l)
	reply.Newest, reply.AckedUpTo, reply.Away = acked, acked, c.terms.awayBits()
	for i := len(c.writes) - 1; i >= 0; i-- {
		if w := c.writes[i]; w.durable && (w.acked != c.rings || h.Lost) && c.laneTo(l.ring, w.slot) == l {
			reply.Newest = max(reply.Newest, w.rec.Version.HLC)
			break
		}
	}
	c.Send(reply.Message(c.cfg.Self, l.mm))
}
