package coordinator

import (
	"maps"
	"slices"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// A data center that is lost is excluded by a person (PROTOCOL EXC): its rings do without its
// shards. To a coordinator these are as shards that acknowledge everything at once, and then say that they have lost
// it.

// exclusionState is what a coordinator knows of exclusions beyond its log.
type exclusionState struct {
	// active are those that it goes by: durable, and in every message that it sends.
	active causal.Exclusions
	// known are also those that its configuration has declared, since learnedAt.
	known     causal.Exclusions
	learnedAt int64
	// blocked is a data center that the configuration excludes and that may have the last copy of some slot here; -1:
	// there is none.
	blocked int
	copies  copyInquiry
	// unknown are writes that excluded shards' writes depend on, of which it is not known that they are complete.
	// Shards are asked for them. asked are those of the last question.
	unknown, asked map[causal.Version]topology.Slot
	askAt          int64
	// complete are those of which a shard has said so.
	complete map[causal.Version]struct{}
}

// ShardExclusion says under which exclusion of its data center writes are completed without a shard, and under which it
// has begun again with nothing: until that is as great, they are.
type ShardExclusion struct {
	Shard              topology.Node
	Excluded, Rejoined uint32
}

// noteExclusion adds to what is known of a shard. It is durable with the next checkpoint.
func (s *State) noteExclusion(x ShardExclusion) {
	isShard := func(y ShardExclusion) bool { return y.Shard == x.Shard }
	s.ShardExclusions = slices.Clone(s.ShardExclusions)
	if i := slices.IndexFunc(s.ShardExclusions, isShard); i >= 0 {
		y := &s.ShardExclusions[i]
		y.Excluded, y.Rejoined = max(y.Excluded, x.Excluded), max(y.Rejoined, x.Rejoined)
		return
	}
	s.ShardExclusions = append(s.ShardExclusions, x)
}

// isExcluded reports whether writes are completed without a shard.
func (s *State) isExcluded(shard topology.Node) bool {
	return slices.ContainsFunc(s.ShardExclusions, func(x ShardExclusion) bool {
		return x.Shard == shard && x.Excluded > x.Rejoined
	})
}

// defaultExclusionDelay is the default of Config.ExclusionDelay.
const defaultExclusionDelay = 5 * time.Second

// learnExclusions takes the exclusions of a new configuration.
func (c *Coordinator) learnExclusions(now causal.Now, x causal.Exclusions) {
	if !c.exclusion.known.Covers(x) {
		c.exclusion.known, c.exclusion.learnedAt = c.exclusion.known.With(x), now.Mono
	}
}

// admits reports whether a message may be handled by the exclusions of its sender. If it is the first one with others
// that are known, they are made durable first; the message is lost, as any may be.
func (c *Coordinator) admits(now causal.Now, m *causal.Message) bool {
	if l := c.lanes[m.From]; l != nil {
		l.goesBy = l.goesBy.With(m.Exclusions())
	}
	switch c.exclusion.active.Check(m, c.exclusion.known, c.cfg.Broken) {
	case causal.ExclusionsRefuse:
		return false
	case causal.ExclusionsNew:
		c.exclude(now, m.Exclusions())
		return c.exclusion.active.Covers(m.Exclusions())
	}
	return true
}

// exclude makes durable that this coordinator goes by further exclusions. Only one that is in use does without the
// shards: the others have no incomplete writes, and when they come into use the shards may be back, since these wait
// for coordinators in use only.
func (c *Coordinator) exclude(now causal.Now, x causal.Exclusions) {
	p := &c.log.pending
	if p.Exclusions.Covers(x) {
		return
	}
	before := p.Exclusions
	p.Exclusions = before.With(x)
	for dc := range topology.DC(len(c.cfg.Topology.DCs)) {
		if n := p.Exclusions.Of(dc); n > before.Of(dc) && c.isInUse() {
			for i := range c.cfg.Topology.DCs[dc].RunningMiddlemen() {
				shard := topology.Node{DC: dc, Part: topology.Middleman, Index: uint64(i)}
				p.note(causal.ShardMark{DC: dc, Index: uint64(i), HasData: true})
				p.noteExclusion(ShardExclusion{Shard: shard, Excluded: n})
			}
		}
	}
	if c.log.checkpointIndex > 0 {
		c.writeCheckpoint(now)
		return
	}
	// The log is empty, and nothing was done by it: the checkpoint that begins it has the exclusions.
	c.setActive(p.Exclusions)
}

func (c *Coordinator) setActive(x causal.Exclusions) {
	c.exclusion.active = x
	c.exclusion.known = c.exclusion.known.With(x)
	c.SetExclusions(x)
	if c.leader != nil {
		c.leader.SetExclusions(x)
	}
}

// goByExclusions begins to go by the exclusions in the newest durable checkpoint.
func (c *Coordinator) goByExclusions(now causal.Now) {
	if x := c.log.durable.Exclusions; !c.exclusion.active.Covers(x) {
		c.setActive(c.exclusion.active.With(x))
	}
	for _, l := range c.laneOrder {
		if !c.log.durable.isExcluded(l.mm) || l.excluded {
			continue
		}
		l.excluded = true
		c.resetQueue(now, l)
		for _, w := range c.writes {
			if w.released && c.laneTo(l.ring, w.slot) == l {
				l.queue = append(l.queue, queued{w: w})
			}
		}
		c.pump(now, l)
	}
}

// maxBlocked bounds how many writes ackWithout passes by.
const maxBlocked = 1024

// ackWithout takes writes for acknowledged by a ring that does without their shard, as the shard would: when the ring
// has acknowledged all that they depend on. Who reads a complete write may read everywhere what that depends on.
func (c *Coordinator) ackWithout(now causal.Now, l *lane) {
	acked, blocked := false, 0
	for i := l.head; i < len(l.queue) && blocked < maxBlocked; i++ {
		w := l.queue[i].w
		switch {
		case w.acked.Has(l.ring):
			continue
		case !c.countWithout(l, w):
			blocked++
			continue
		}
		acked = true
		if w.acked == c.rings {
			c.completeWrite(w)
		}
	}
	for l.head < len(l.queue) && l.queue[l.head].w.acked.Has(l.ring) {
		l.base = l.queue[l.head].w.rec.Version.HLC
		l.queue[l.head] = queued{}
		l.head++
	}
	if l.head == len(l.queue) {
		l.queue, l.head = l.queue[:0], 0
	}
	l.next = l.head
	if acked {
		c.progress = true
		c.noteOwnActivity(now)
		if c.dropCompletePrefix() {
			c.updateTruncation()
		}
	}
}

// countWithout takes a write for acknowledged by a ring that does without its shard, and reports whether it may.
func (c *Coordinator) countWithout(l *lane, w *write) bool {
	if !c.isHeldWithout(l, w) || !c.hasPast(l.ring, w) && !c.cfg.Broken.Has(causal.ExcludeUnclean) {
		return false
	}
	w.acked = w.acked.With(l.ring)
	return true
}

// countWithoutExcluded does the same for a write that a shard has just acknowledged, in every ring that does without
// its shard.
func (c *Coordinator) countWithoutExcluded(w *write) {
	for r := range topology.RingID(len(c.cfg.Topology.Rings)) {
		if l := c.laneTo(r, w.slot); l.excluded && !w.acked.Has(r) {
			c.countWithout(l, w)
		}
	}
}

// isHeldWithout reports whether a shard of another ring has acknowledged a write and goes by the exclusion for which l
// is done without. Such a shard is not done without itself, and forgets nothing before a third one has the write. Else
// nobody might have it: two sides exclude each other, each without knowing of the other one, and then hear of both.
func (c *Coordinator) isHeldWithout(l *lane, w *write) bool {
	return c.isSomewhere(l, w.slot, func(o *lane) bool { return w.acked.Has(o.ring) })
}

// isSomewhere reports whether a shard of a slot has what is asked for that is not done without, and goes by the
// exclusion of the shard of l.
func (c *Coordinator) isSomewhere(l *lane, slot topology.Slot, has func(*lane) bool) bool {
	if c.cfg.Broken.Has(causal.CompleteNowhere) {
		return true
	}
	dc := l.mm.DC
	goesBy := func(o *lane) bool {
		return o.goesBy.Of(dc) >= c.exclusion.active.Of(dc) || c.cfg.Broken.Has(causal.ExclusionUnmarked) // nobody says
	}
	for r := range topology.RingID(len(c.cfg.Topology.Rings)) {
		if o := c.laneTo(r, slot); o != l && !o.excluded && goesBy(o) && has(o) {
			return true
		}
	}
	return false
}

// hasPast reports whether a ring has acknowledged everything that a write depends on.
func (c *Coordinator) hasPast(r topology.RingID, w *write) bool {
	for j, h := range w.laneDeps {
		if o := c.laneOrder[j]; o.ring == r && h > o.base && h > c.known.SV(c.origin) {
			return false
		}
	}
	return c.haveForeign(r, w.deps)
}

// haveForeign reports whether a ring has acknowledged writes, or shards have said that these are complete. If not,
// shards are asked: nobody tells a coordinator of writes of a silent origin that were adopted.
func (c *Coordinator) haveForeign(r topology.RingID, deps []causal.Dep) bool {
	missing := func(d causal.Dep) bool {
		if _, complete := c.exclusion.complete[d.Version]; complete || c.isInRing(r, d.Version) ||
			c.isComplete(d.Version) {
			return false
		}
		if d.Version.Origin != c.origin && len(c.exclusion.unknown) < maxBlocked {
			c.exclusion.unknown[d.Version] = d.Slot
		}
		return true
	}
	return !slices.ContainsFunc(deps, missing)
}

// askUnknownInterval is how often shards are asked for the dependencies of writes of excluded shards.
const askUnknownInterval = 500 * time.Millisecond

func (c *Coordinator) askForUnknown(now causal.Now) {
	e := &c.exclusion
	if now.Mono < e.askAt || len(e.unknown)+len(e.complete) == 0 {
		return
	}
	e.askAt = now.Mono + int64(askUnknownInterval)
	for v := range e.complete {
		if c.known.Complete(v) {
			delete(e.complete, v)
		}
	}
	for _, v := range slices.SortedFunc(maps.Keys(e.unknown), causal.Version.Compare) {
		for r := range c.cfg.Topology.Rings {
			if l := c.laneTo(topology.RingID(r), e.unknown[v]); !l.excluded {
				c.Send(causal.DepCheck{Version: v, Slot: e.unknown[v]}.Message(c.cfg.Self, l.mm))
			}
		}
	}
	e.asked, e.unknown = e.unknown, map[causal.Version]topology.Slot{}
}

// nextAskForUnknown returns when askForUnknown has something to do next.
func (c *Coordinator) nextAskForUnknown() int64 {
	if len(c.exclusion.unknown)+len(c.exclusion.complete) == 0 {
		return causal.Never
	}
	return c.exclusion.askAt
}

// handleDepStatus takes a shard's word that a write is complete: of a shard that was asked for it, since others cannot
// tell.
func (c *Coordinator) handleDepStatus(from topology.Node, s causal.DepStatus) {
	e := &c.exclusion
	slot, asked := e.asked[s.Version]
	if asked && c.laneTo(s.Ring, slot).mm == from && s.Complete && len(e.active) > 0 && len(e.complete) < maxComplete {
		e.complete[s.Version] = struct{}{}
	}
}

// maxComplete bounds what is remembered of writes that shards have said to be complete.
const maxComplete = 1 << 16

// noteRejoined notes that a shard has begun again with nothing, under the newest exclusion of its data center that this
// coordinator goes by.
func (c *Coordinator) noteRejoined(shard topology.Node, its causal.Exclusions) {
	if n := c.exclusion.active.Of(shard.DC); n > 0 && its.Of(shard.DC) >= n &&
		!c.cfg.Broken.Has(causal.ExcludeForEver) {
		c.log.pending.noteExclusion(ShardExclusion{Shard: shard, Rejoined: n})
	}
}

// endExclusion makes the writes of a lane wait for its shard again.
func (c *Coordinator) endExclusion(l *lane) {
	if !l.excluded || c.log.durable.isExcluded(l.mm) {
		return
	}
	l.excluded = false
	for _, a := range c.adopter.cases {
		for _, w := range a.order {
			if c.laneTo(l.ring, w.slot()) == l {
				w.states[l.ring], w.sent[l.ring] = causal.AdoptionUnknown, adoptSent{}
			}
		}
	}
}

// adoptWithout takes adopted writes for received by a ring that does without their shard, and for confirmed once the
// ring has acknowledged what they depend on of other origins.
func (c *Coordinator) adoptWithout(a *adoption, r topology.RingID) {
	for _, w := range a.order {
		if !c.laneTo(r, w.slot()).excluded {
			continue
		}
		w.states[r] = max(w.states[r], causal.AdoptionReceived)
		isOwn := func(d causal.Dep) bool { return d.Version.Origin == a.origin }
		isThere := func(o *lane) bool { return w.states[o.ring] >= causal.AdoptionConfirmed }
		if c.isSomewhere(c.laneTo(r, w.slot()), w.slot(), isThere) &&
			c.haveForeign(r, slices.DeleteFunc(slices.Clone(w.deps), isOwn)) {
			w.states[r] = max(w.states[r], causal.AdoptionConfirmed)
		}
	}
}

// cleanWithout takes confirmed writes of which the past is confirmed for clean in a ring that does without their shard.
func (c *Coordinator) cleanWithout(a *adoption, r topology.RingID) {
	for _, w := range a.order {
		if w.settled && w.states[r] == causal.AdoptionConfirmed && c.laneTo(r, w.slot()).excluded {
			w.states[r] = causal.AdoptionComplete
		}
	}
}

// Exclusion is the state of one data center that was excluded.
type Exclusion struct {
	DC topology.DC
	// Declared is how often the configuration says that it was excluded, Applied the number by which this coordinator
	// goes.
	Declared, Applied uint32
	// Active: this coordinator goes by the newest exclusion that its configuration declares. Otherwise it waits for
	// others to learn of it, or, if LastCopy, the data center may have the only copy of some data.
	Active, LastCopy bool
	// Without is how many shards of it writes are completed without; Shards is how many it has.
	Without, Shards int
}

// Exclusions returns the state of each data center that was ever excluded.
func (c *Coordinator) Exclusions() (all []Exclusion) {
	for dc := range topology.DC(len(c.cfg.Topology.DCs)) {
		n := c.exclusion.known.Of(dc)
		if n == 0 {
			continue
		}
		x := Exclusion{DC: dc, Declared: n, Applied: c.exclusion.active.Of(dc), Active: c.exclusion.active.Of(dc) >= n,
			LastCopy: c.exclusion.blocked == int(dc)}
		for i := range c.cfg.Topology.DCs[dc].RunningMiddlemen() {
			x.Shards++
			if l := c.lanes[topology.Node{DC: dc, Part: topology.Middleman, Index: uint64(i)}]; l != nil && l.excluded {
				x.Without++
			}
		}
		all = append(all, x)
	}
	return all
}
