package coordinator

import (
	"slices"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// handlePutAck takes a middleman's word that puts are processed in its ring, with their dependencies, and out of the
// ring's caches.
func (c *Coordinator) handlePutAck(now causal.Now, from topology.Node, a causal.PutAck) {
	l := c.lanes[from]
	if l == nil || !c.countsAck(from, a.Incarnation) || !c.isPlausibleIncarnation(now, a.Incarnation) {
		return
	}
	if a.GivenUpBelow > c.log.durable.Generation && c.log.isEstablished() {
		c.noteGivenUp(now, from, a.GivenUpBelow)
		return
	}
	c.noteIncarnation(now, l, a.Incarnation)
	if l.marked != a.Incarnation {
		l.marked = a.Incarnation
		c.log.pending.note(causal.ShardMark{DC: from.DC, Index: from.Index, Incarnation: a.Incarnation, HasData: true})
	}
	if a.Changes != 0 {
		l.reached = l.reached.Max(causal.Reach{Incarnation: a.Incarnation, Changes: a.Changes})
	}
	for _, v := range a.Versions {
		w := c.incomplete[v.HLC]
		// Only the owner of its slot can tell. If a resharding has moved that, the put is sent to the new one.
		if w == nil || v.Origin != c.origin || !w.durable || w.acked.Has(l.ring) || c.laneTo(l.ring, w.slot) != l {
			continue
		}
		w.acked = w.acked.With(l.ring)
		c.takeAck(now, l, w)
		c.progress = true
		c.noteOwnActivity(now)
		if len(c.exclusion.active) > 0 {
			c.treatAsAckedElsewhere(w)
		}
		if w.acked == c.rings {
			c.completeWrite(w)
		}
	}
	l.flow.measure(now)
	head := l.head
	l.dropAckedPrefix()
	if l.head != head { // what is first now has not waited for long
		c.scheduleResend(now, l)
	}
	c.resendOvertaken(now, l)
	c.continuePass(now, l)
	if c.dropCompletePrefix() {
		c.updateTruncation()
	}
	c.pump(now, l)
}

// completions are the writes that were completed since messages were taken, and whose sessions are to be told.
type completions []completion

type completion struct {
	session sessionKey
	version causal.Version
}

// flush passes one message for each session to send, with its writes in the order of their completion, and empties the
// list.
func (cs *completions) flush(send func(sidecar topology.Node, m causal.Complete)) {
	if len(*cs) == 0 {
		return
	}
	slices.SortStableFunc(*cs, func(a, b completion) int { return a.session.compare(b.session) })
	versions := make([]causal.Version, 0, len(*cs))
	for i, first := 0, 0; i < len(*cs); i++ {
		c := (*cs)[i]
		versions = append(versions, c.version)
		if i+1 == len(*cs) || (*cs)[i+1].session != c.session {
			send(c.session.sidecar, causal.Complete{Session: c.session.session,
				Versions: versions[first:len(versions):len(versions)]})
			first = len(versions)
		}
	}
	*cs = causal.Recycle(*cs)
}

// completeWrite tells the session and queues the stable marks (PROTOCOL COO-8).
func (c *Coordinator) completeWrite(w *write) {
	if w.sidecar.Part == topology.Sidecar {
		c.completed = append(c.completed, completion{sessionKey{w.sidecar, w.session}, w.rec.Version})
	}
	c.home.done(w)
	delete(c.incomplete, w.rec.Version.HLC)
	c.bytes -= w.size
	w.rec.Value, w.deps, w.laneDeps = causal.Value{}, nil, nil // it may keep its place behind an older write for long
	for r := range c.cfg.Topology.Rings {
		l := c.laneTo(topology.RingID(r), w.slot)
		l.stableMarks = append(l.stableMarks, w.rec.Version)
	}
}

// dropCompletePrefix moves the cursors of the rings and drops the complete writes at the head. It reports whether there
// were any.
func (b *buffer) dropCompletePrefix() bool {
	for r := range b.cursor {
		for b.cursor[r] < len(b.writes) && b.writes[b.cursor[r]].acked.Has(topology.RingID(r)) {
			b.cursor[r]++
		}
	}
	complete := slices.Min(b.cursor)
	if complete == 0 {
		return false
	}
	for r := range b.cursor {
		b.cursor[r] -= complete
	}
	clear(b.writes[:complete])
	b.writes = b.writes[complete:]
	return true
}

// publish computes SV and RV of this origin and sends them, with the stable marks. A leader's vectors go out with its
// next exchange.
func (c *Coordinator) publish(now causal.Now) {
	if !c.log.isInUse() {
		return // the leader publishes for it
	}
	bound := c.publishBound(now)
	e := c.ownEntry(bound)
	c.mergeVectors(c.terms.appendAwayEntries([]causal.VectorEntry{e}, bound), causal.NoLimit)
	if lead := c.cfg.Topology.Leader(c.cfg.Self.DC); c.cfg.Self != lead {
		c.Send(causal.Vectors{Entries: []causal.VectorEntry{e}, ActiveAt: c.activity.at}.Message(c.cfg.Self, lead))
	}
	for _, l := range c.laneOrder {
		if len(l.stableMarks) > 0 {
			c.Send(causal.StableMarks{SV: e.SV, Versions: l.stableMarks}.Message(c.cfg.Self, l.mm))
			l.stableMarks = nil
		}
	}
}

// publishBound returns the HLC at or below which no timestamp will be issued any more, not even after a restart: it is
// below the durable ceiling, or issued and durable.
func (c *Coordinator) publishBound(now causal.Now) causal.HLC {
	// A slow clock must not hold back readers who wait for all origins.
	if ahead := c.known.MaxSV(); ahead.WallMs() <= now.WallMs+c.cfg.ClockBoundMs &&
		!c.cfg.Broken.Has(causal.JoinBelow) {
		c.clock.Raise(ahead)
	}
	bound := c.clock.Peek(now)
	if c.cfg.Broken.Has(causal.QuietAhead) && c.isQuiet(now) {
		bound += causal.HLCAt(c.cfg.QuietEvery.Milliseconds())
	}
	return min(bound, max(c.log.durable.Ceiling, c.newestDurable()))
}

// ownEntry returns RV and SV of this origin (PROTOCOL COO-9): for each ring the HLC before the oldest write that the
// ring has not acknowledged, or bound when there is none. They do not pass what is lost before all that may precede it
// is settled.
func (c *Coordinator) ownEntry(bound causal.HLC) causal.VectorEntry {
	e := causal.VectorEntry{Origin: c.origin, RV: make([]causal.HLC, len(c.cursor)), SV: ^causal.HLC(0)}
	for r, i := range c.cursor {
		e.RV[r] = bound
		if i < len(c.writes) {
			e.RV[r] = min(bound, c.writes[i].rec.Version.HLC-1)
		}
		e.SV = min(e.SV, e.RV[r])
	}
	if c.hasLostAboveSV() {
		e.Settled = e.SV
		limit := c.settledElsewhere() + 1
		if c.cfg.Broken.Has(causal.PassLost) {
			limit = causal.NoLimit
		}
		e.SV = min(e.SV, limit)
		for r := range e.RV {
			e.RV[r] = min(e.RV[r], limit)
		}
	}
	if c.cfg.Broken.Has(causal.SVEarly) && len(c.writes) > 0 {
		e.SV = c.writes[len(c.writes)-1].rec.Version.HLC
	}
	return e
}

func (b *buffer) newestDurable() causal.HLC {
	for i := len(b.writes) - 1; i >= 0; i-- {
		if b.writes[i].durable {
			return b.writes[i].rec.Version.HLC
		}
	}
	return 0
}

// IncompleteWrites returns the writes of a key that not all rings have acknowledged, in HLC order.
func (c *Coordinator) IncompleteWrites(key string) (versions []causal.Version) {
	for _, w := range c.writes {
		if w.key == key && c.incomplete[w.rec.Version.HLC] == w {
			versions = append(versions, w.rec.Version)
		}
	}
	return versions
}
