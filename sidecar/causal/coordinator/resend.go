package coordinator

import (
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// Puts are sent again when their acknowledgement is late (PROTOCOL LAN-10). A lane is then looked through from the
// oldest unacknowledged put on, in a pass. A pass sends a little, and more only as acknowledgements of that come in: to
// a shard that does not answer goes a little every 1.5 s, and one that is back gets what it lacks in a few round trips,
// and never all at once.

// pass is a walk through the puts in flight that sends again what is late.
type pass struct {
	next   int // position in the queue of the next put to look at; at lane.next the pass is over
	credit int // bytes that may be sent
	// lostUpTo says that puts up to there are taken for lost, and need not wait until they are late.
	lostUpTo causal.HLC
	// replayUpTo says that the pass also sends what is acknowledged, up to there: the middleman has lost its memory,
	// and acknowledged puts between others hold the lane together.
	replayUpTo causal.HLC
}

// resending is when and what a lane sends again.
type resending struct {
	pass
	dueAt  int64 // monotonic: when the next pass begins
	heard  bool  // something was acknowledged since dueAt was set
	silent int   // passes since anything was acknowledged
	// overtakenBy is the put that has ended a silence, though it was sent only once; 0: none. What was sent before it
	// is late.
	overtakenBy causal.HLC
	replayedAt  int64 // monotonic; 0: never
}

const (
	// probeCredit is what a pass begins with if the shard may not be reachable, in bytes.
	probeCredit = 16 << 10
	// passCredit is what a pass begins with if the shard is reachable.
	passCredit = 256 << 10
	// maxReplays bounds the acknowledged puts that are sent in one step.
	maxReplays = 1024
)

// lateAfter is how long after it was last sent a put is late. Each time that it is late, it gets longer: the put has
// probably arrived, and waits there for a dependency.
func (c *Coordinator) lateAfter(l *lane, late int) int64 {
	return int64(c.cfg.ResendAfter)<<min(late, maxDoublings) + l.flow.latency
}

// maxDoublings bounds the growth of lateAfter.
const maxDoublings = 4

// scheduleResend sets when the next pass begins, if no put leaves the lane until then.
func (c *Coordinator) scheduleResend(now causal.Now, l *lane) {
	r := &l.resend
	seed := uint64(c.origin)<<32 + uint64(l.index)<<16
	r.dueAt = now.Mono + causal.Backoff(c.cfg.ResendAfter, c.cfg.ResendAfter*3/2, r.silent, seed) + l.flow.latency
	r.heard = false
}

// resendLate begins a pass if one is due, or lets one go on that waits for acknowledgements of other puts than it has
// sent.
func (c *Coordinator) resendLate(now causal.Now, l *lane) {
	r := &l.resend
	switch {
	case l.flow.inFlight == 0 || now.Mono < r.dueAt:
	case !r.heard:
		r.silent++
		l.flow.restart(now)
		c.beginPass(now, l, pass{credit: probeCredit, lostUpTo: l.newestSent(), replayUpTo: r.replayUpTo})
	case r.next < l.next:
		r.credit = max(r.credit, passCredit)
		c.scheduleResend(now, l)
		c.continuePass(now, l)
	default:
		c.beginPass(now, l, pass{credit: passCredit})
	}
}

// resendOvertaken begins a pass for what a new put has overtaken: the shard can be reached again, and what was sent in
// the silence may be lost.
func (c *Coordinator) resendOvertaken(now causal.Now, l *lane) {
	r := &l.resend
	if upTo := r.overtakenBy; upTo != 0 {
		r.overtakenBy = 0
		c.beginPass(now, l, pass{credit: probeCredit, lostUpTo: upTo, replayUpTo: r.replayUpTo})
	}
}

// resendAll begins a pass that takes everything that was sent so far for lost.
func (c *Coordinator) resendAll(now causal.Now, l *lane, replayUpTo causal.HLC) {
	l.resend.silent = 0
	l.flow.restart(now)
	c.beginPass(now, l, pass{credit: passCredit, lostUpTo: l.newestSent(), replayUpTo: replayUpTo})
}

// replay sends again everything in flight, acknowledged or not, to a middleman that has lost its memory.
func (c *Coordinator) replay(now causal.Now, l *lane) {
	l.resend.replayedAt = now.Mono
	c.resendAll(now, l, l.newestSent())
}

func (c *Coordinator) beginPass(now causal.Now, l *lane, p pass) {
	p.next = l.head
	l.resend.pass = p
	c.scheduleResend(now, l)
	c.continuePass(now, l)
}

// continuePass sends what the credit of the pass allows.
func (c *Coordinator) continuePass(now causal.Now, l *lane) {
	r := &l.resend
	replays := 0
	for r.next = max(r.next, l.head); r.next < l.next; r.next++ {
		e := &l.queue[r.next]
		hlc := e.w.rec.Version.HLC
		switch {
		case e.w.acked.Has(l.ring):
			if hlc > r.replayUpTo {
				continue
			}
			if replays++; replays > maxReplays {
				return
			}
		case hlc > r.lostUpTo && now.Mono-e.sentAt < c.lateAfter(l, e.late):
			continue
		case r.credit <= 0:
			return
		default:
			r.credit -= e.w.flying
			if e.late++; hlc <= r.lostUpTo {
				// it has not arrived, as far as anyone knows, and must not wait once others get through again
				e.late = 0
			}
		}
		if !c.sendPutAfter(now, l, r.next) {
			return // the pass goes on from here
		}
	}
	r.lostUpTo, r.replayUpTo = 0, 0
}

// newestSent returns the HLC of the newest put that was sent and has its place in the lane; 0: there is none.
func (l *lane) newestSent() causal.HLC {
	if l.next == l.head {
		return 0
	}
	return l.queue[l.next-1].w.rec.Version.HLC
}

// LinkUp says that a node can be reached again: what was on its way to it may be lost.
func (c *Coordinator) LinkUp(now causal.Now, node topology.Node) {
	if l := c.lanes[node]; l != nil && l.flow.inFlight > 0 {
		c.resendAll(now, l, l.resend.replayUpTo)
	}
}

// mayReplay reports whether a middleman that asks for its lane again gets it again: the last time is so long ago that
// it has arrived, or was lost.
func (c *Coordinator) mayReplay(now causal.Now, l *lane) bool {
	return l.resend.replayedAt == 0 || now.Mono-l.resend.replayedAt >= int64(c.cfg.ResendAfter)+l.flow.latency
}

// defaultResendAfter is the default of Config.ResendAfter.
const defaultResendAfter = time.Second
