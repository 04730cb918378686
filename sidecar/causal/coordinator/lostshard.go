package coordinator

import (
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// A shard that has lost its data gets every incomplete write again (PROTOCOL BKF). Complete writes it gets from
// other rings.

// voidAcks forgets what the incarnations of a shard before the given one have acknowledged, and begins its lane anew
// with every write that is not complete. It returns false while that is not durable: an earlier life of this
// coordinator must not have counted an acknowledgement that a later one counts again.
//
// RV and SV stay as they were published. What RV covers is owed by the shard until it serves, and SV covers no
// incomplete write.
func (c *Coordinator) voidAcks(now causal.Now, l *lane, incarnation uint64) bool {
	if c.log.durable.mark(l.mm).Lost < incarnation {
		c.writeCheckpoint(now)
		return false
	}
	if l.voided >= incarnation || c.cfg.Broken.Has(causal.BackfillCleanWithoutValue) {
		return true
	}
	l.voided = incarnation
	c.endExclusion(l)
	c.resetQueue(now, l)
	for _, w := range c.writes {
		if w.released && c.laneTo(l.ring, w.slot) == l {
			if w.acked != c.rings {
				w.acked = w.acked.Without(l.ring)
			}
			l.queue = append(l.queue, queued{w: w})
		}
	}
	c.cursor[l.ring] = 0
	if c.dropCompletePrefix() {
		c.updateTruncation()
	}
	l.incarnation = incarnation
	c.pump(now, l)
	return true
}

// resetQueue empties a lane. Everything before the oldest write in the buffer is complete.
func (c *Coordinator) resetQueue(now causal.Now, l *lane) {
	l.queue, l.head, l.next = nil, 0, 0
	l.base = c.newest
	if len(c.writes) > 0 {
		l.base = c.writes[0].rec.Version.HLC - 1
	}
	l.flow.inFlight, l.flow.emptyAt = 0, now.Mono
	l.flow.restart(now)
	l.resend = resending{replayedAt: now.Mono}
}

// countsAck reports whether an acknowledgement of an incarnation of a shard counts: not if a later one has found the
// data lost.
func (c *Coordinator) countsAck(shard topology.Node, incarnation uint64) bool {
	return incarnation >= c.log.pending.mark(shard).Lost || c.cfg.Broken.Has(causal.LateAckCounts)
}
