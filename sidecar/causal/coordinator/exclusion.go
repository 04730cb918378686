package coordinator

import (
	"slices"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/topology"
)

// A data center that is lost is excluded by a person (PROTOCOL, Excluded data centers): its rings do without its shards. To a coordinator
// these are as shards that acknowledge everything at once, and then say that they have lost it.

// exclusionState is what a coordinator knows of exclusions beyond its log.
type exclusionState struct {
	// active are those that it goes by: durable, and in every message that it sends.
	active causal.Exclusions
	// known are also those that its configuration has declared, since learnedAt.
	known     causal.Exclusions
	learnedAt int64
	// blocked is a data center that the configuration excludes and that may have the last copy of some slot here; -1: there is none.
	blocked int
}

// defaultExclusionDelay is the default of Config.ExclusionDelay.
const defaultExclusionDelay = 5 * time.Second

// learnExclusions takes the exclusions of a new configuration.
func (c *Coordinator) learnExclusions(now causal.Now, x causal.Exclusions) {
	if !c.exclusion.known.Covers(x) {
		c.exclusion.known, c.exclusion.learnedAt = c.exclusion.known.With(x), now.Mono
	}
}

// admits reports whether a message may be handled by the exclusions of its sender. If it is the first one with others that are known, they
// are made durable first; the message is lost, as any may be.
func (c *Coordinator) admits(now causal.Now, m *causal.Message) bool {
	switch c.exclusion.active.Check(m, c.exclusion.known, c.cfg.Broken) {
	case causal.ExclusionsRefuse:
		return false
	case causal.ExclusionsNew:
		c.exclude(now, m.Exclusions())
		return c.exclusion.active.Covers(m.Exclusions())
	}
	return true
}

// excludeKnown begins to go by what the configuration declares, once others know of it.
func (c *Coordinator) excludeKnown(now causal.Now) {
	e := &c.exclusion
	if e.active.Covers(e.known) || now.Mono-e.learnedAt < int64(c.cfg.ExclusionDelay) {
		return
	}
	e.learnedAt = now.Mono // what has to wait is looked at again after the same time
	e.blocked = -1
	next := e.active
	for dc := range topology.DC(len(e.known)) {
		switch {
		case e.known.Of(dc) <= e.active.Of(dc):
		case !c.hasCopiesWithout(dc, next):
			e.blocked = int(dc)
		default:
			one := make(causal.Exclusions, dc+1)
			one[dc] = e.known.Of(dc)
			next = next.With(one)
		}
	}
	if !e.active.Covers(next) {
		c.exclude(now, next)
	}
}

// hasCopiesWithout reports whether for each slot of the shards of a data center another ring has a shard that has its data, if those of
// further data centers are excluded too. Otherwise the shards of dc may have the only copy, which they would remove.
func (c *Coordinator) hasCopiesWithout(dc topology.DC, further causal.Exclusions) bool {
	t := c.cfg.Topology
	if c.cfg.Broken.Has(causal.ExcludeLastCopy) {
		return true
	}
	for slot := range topology.Slot(topology.Slots) {
		if t.Owner(t.RingOf(dc), slot).DC != dc {
			continue
		}
		hasCopy := func(r topology.Ring) bool {
			n := t.Owner(t.RingOf(r.DCs[0]), slot)
			m := c.log.pending.mark(n)
			return n.DC != dc && further.Of(n.DC) <= c.exclusion.active.Of(n.DC) && !m.IsExcluded() && (m.Lost == 0 || m.Incarnation > m.Lost)
		}
		if !slices.ContainsFunc(t.Rings, hasCopy) {
			return false
		}
	}
	return true
}

// exclude makes durable that this coordinator goes by further exclusions. Only one that is in use does without the shards: the others have no
// incomplete writes, and when they come into use the shards may be back, since these wait for coordinators in use only.
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
				p.note(causal.ShardMark{DC: dc, Index: uint64(i), HasData: true, Excluded: n})
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

// goByExclusions begins to go by the exclusions in the newest durable checkpoint. What the excluded shards have not acknowledged is taken for
// acknowledged, and what was sent to others of their rings is sent again: it need not wait for those any more.
func (c *Coordinator) goByExclusions(now causal.Now) {
	if x := c.log.durable.Exclusions; !c.exclusion.active.Covers(x) {
		c.setActive(c.exclusion.active.With(x))
	}
	var rings topology.RingSet
	for _, l := range c.laneOrder {
		if mark := c.log.durable.mark(l.mm); mark.IsExcluded() && !l.excluded {
			l.excluded = true
			rings = rings.With(l.ring)
			c.resetQueue(now, l)
			for _, w := range c.writes {
				if w.released && c.laneTo(l.ring, w.slot) == l {
					l.add(w)
				}
			}
		}
	}
	if rings == 0 {
		return
	}
	c.progress = true
	for _, w := range c.writes {
		if w.acked == c.rings && c.incomplete[w.rec.Version.HLC] == w {
			c.completeWrite(w)
		}
	}
	if c.dropCompletePrefix() {
		c.updateTruncation()
	}
	for _, l := range c.laneOrder {
		if rings.Has(l.ring) && !l.excluded {
			c.resendAll(now, l, 0)
		}
	}
	for _, a := range c.adopter.cases {
		for _, w := range a.order {
			for r := range w.states {
				if rings.Has(topology.RingID(r)) && w.states[r] == causal.AdoptionReceived {
					w.states[r], w.sent[r] = causal.AdoptionUnknown, adoptSent{} // put again, with fewer dependencies
				}
			}
		}
	}
}

// noteRejoined notes that a shard has begun again with nothing, under the newest exclusion of its data center that this coordinator goes by.
func (c *Coordinator) noteRejoined(mark *causal.ShardMark, its causal.Exclusions) {
	if n := c.exclusion.active.Of(mark.DC); its.Of(mark.DC) >= n && !c.cfg.Broken.Has(causal.ExcludeForEver) {
		mark.Rejoined = n
	}
}

// endExclusion makes the writes of a lane wait for its shard again.
func (c *Coordinator) endExclusion(l *lane) {
	mark := c.log.durable.mark(l.mm)
	if !l.excluded || mark.IsExcluded() {
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

// adoptWithoutExcluded takes the writes of a silent origin for complete at shards that are excluded.
func (c *Coordinator) adoptWithoutExcluded(a *adoption) {
	for _, w := range a.order {
		for r := range w.states {
			if c.laneTo(topology.RingID(r), w.slot()).excluded {
				w.states[r] = causal.AdoptionComplete
			}
		}
	}
}

// depsWithoutExcluded returns the dependencies that shards of a ring can be asked for.
func (c *Coordinator) depsWithoutExcluded(r topology.RingID, deps []causal.Dep) []causal.Dep {
	isExcluded := func(d causal.Dep) bool { return c.laneTo(r, d.Slot).excluded }
	if !slices.ContainsFunc(deps, isExcluded) {
		return deps
	}
	return slices.DeleteFunc(slices.Clone(deps), isExcluded)
}

// Exclusion is the state of one data center that was excluded.
type Exclusion struct {
	DC topology.DC
	// Active: this coordinator goes by the newest exclusion that its configuration declares. Otherwise it waits for others to learn of it,
	// or, if LastCopy, the data center may have the only copy of some data.
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
		x := Exclusion{DC: dc, Active: c.exclusion.active.Of(dc) >= n, LastCopy: c.exclusion.blocked == int(dc)}
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
