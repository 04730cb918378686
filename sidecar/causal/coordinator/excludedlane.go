package coordinator

import (
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// The lane to a shard of an excluded data center: nothing is sent in it, and its writes count as acknowledged once the
// shard would have acknowledged them.

// applyExclusions applies the exclusions in the newest durable checkpoint.
func (c *Coordinator) applyExclusions(now causal.Now) {
	if c.exclusion.activateDurable() {
		c.home.leases.reopen(now) // near copies of before may be of what the excluded shards hold
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

// announce says in every message from here on which exclusions are applied.
func (c *Coordinator) announce(x causal.Exclusions) {
	c.SetExclusions(x)
	if c.leader != nil {
		c.leader.SetExclusions(x)
	}
}

// maxBlocked bounds how many writes treatExcludedAsAcked passes by.
const maxBlocked = 1024

// treatExcludedAsAcked treats writes of an excluded shard as acknowledged by its ring, as the shard would acknowledge
// them: when the ring has acknowledged all that they depend on. Who reads a complete write may read everywhere what
// that depends on.
func (c *Coordinator) treatExcludedAsAcked(now causal.Now, l *lane) {
	acked, blocked := false, 0
	for i := l.head; i < len(l.queue) && blocked < maxBlocked; i++ {
		w := l.queue[i].w
		switch {
		case w.acked.Has(l.ring):
			continue
		case !c.treatAsAcked(l, w):
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

// treatAsAcked treats a write of an excluded shard as acknowledged by its ring, and reports whether it may.
func (c *Coordinator) treatAsAcked(l *lane, w *write) bool {
	isAcked := func(r topology.RingID) bool { return w.acked.Has(r) }
	may := c.exclusion.isElsewhere(l.ring, w.slot, isAcked) &&
		(c.hasPast(l.ring, w) || c.cfg.Broken.Has(causal.ExcludeUnclean))
	if may {
		w.acked = w.acked.With(l.ring)
	}
	return may
}

// treatAsAckedElsewhere does the same for a write that a shard has just acknowledged, in every ring whose shard is
// excluded.
func (c *Coordinator) treatAsAckedElsewhere(w *write) {
	for r := range topology.RingID(len(c.cfg.Topology.Rings)) {
		if l := c.laneTo(r, w.slot); l.excluded && !w.acked.Has(r) {
			c.treatAsAcked(l, w)
		}
	}
}

// hasPast reports whether a ring has acknowledged everything that a write depends on.
func (c *Coordinator) hasPast(r topology.RingID, w *write) bool {
	for j, h := range w.laneDeps {
		if o := c.laneOrder[j]; o.ring == r && h > o.base && h > c.known.SV(c.origin) {
			return false
		}
	}
	return c.exclusion.hasForeign(r, w.deps)
}

// endExclusion makes the writes of a lane wait for its shard again.
func (c *Coordinator) endExclusion(l *lane) {
	if l.excluded && !c.log.durable.isExcluded(l.mm) {
		l.excluded = false
		c.adopter.forgetExcluded(l.mm)
	}
}

// Exclusions returns the state of each data center that was ever excluded.
func (c *Coordinator) Exclusions() []Exclusion { return c.exclusion.state() }
