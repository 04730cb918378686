package session

import (
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// A put, or its answer, may be lost though the link to the coordinator stays up: the coordinator drops an answer when
// its queue to the sidecar is full. So a put that is overdue is sent again, to the same coordinator and under its
// number (PROTOCOL PUT-8). The coordinator may also be slow, and must not have more to do for that.
// So little is sent again, the oldest first, and more only when the coordinator says that it has answered before.

const (
	// copiesPerWait is how much may be sent again to a coordinator in the time that it may take to answer, in bytes; or
	// one put, if that is larger.
	copiesPerWait = 16 << 10
	// maxCopies bounds what may be sent again at once, in bytes.
	maxCopies = 1 << 20
	// copyOverhead is what a copy counts for beside its key and its value, in bytes.
	copyOverhead = 512
	// maxPutCopies bounds how often a put is sent again over a link: so none is on its way when its coordinator forgets
	// an idle session.
	maxPutCopies = 3
	// copyRate is how fast, in bytes per second, a link may take a put: a larger put is overdue later.
	copyRate = 1 << 20
)

// copyBytes returns what a copy of a put counts for.
func copyBytes(c *call) int {
	return copyOverhead + len(c.op.Key) + c.op.Value.Size() + commitBytes(c.op.Commit)
}

// copyAllowance is how much may be sent again to a coordinator.
type copyAllowance struct {
	bytes   int
	renewAt int64 // monotonic
	// monotonic: the last tick in which a put was too large for what was left, so that none behind it is sent
	stoppedAt int64
}

func (cs *coordinatorStates) allowance(n topology.Node) *copyAllowance {
	a := cs.allowances[n]
	if a == nil {
		a = &copyAllowance{}
		cs.allowances[n] = a
	}
	return a
}

// take reports whether a put may be sent again. It is called for the puts to a coordinator in their order.
func (a *copyAllowance) take(now causal.Now, wait int64, size int) bool {
	if a.stoppedAt == now.Mono {
		return false
	}
	isNew := now.Mono >= a.renewAt
	if isNew {
		a.bytes, a.renewAt = max(a.bytes, copiesPerWait), now.Mono+wait
	}
	if size > a.bytes && !isNew {
		a.stoppedAt = now.Mono
		return false
	}
	a.bytes = max(a.bytes-size, 0)
	return true
}

// grow allows more.
func (a *copyAllowance) grow(n int) { a.bytes = min(a.bytes+n, maxCopies) }

// spend allows nothing for a while.
func (a *copyAllowance) spend(now causal.Now, wait int64) { a.bytes, a.renewAt = 0, now.Mono+wait }

// tickInFlight sends a put in flight again if its coordinator owes the answer. To the coordinator that is a message
// that has arrived twice: the leadership is the same, since a put is sent anew when that changes. No put of a session
// is sent again before one that was sent before it: if neither has arrived, the coordinator would refuse the earlier
// one.
func (s *Sidecar) tickInFlight(now causal.Now, c *call) {
	if now.Mono >= c.retryAt {
		s.coordinators.overdue(c.target, c.deadline)
	}
	p := &c.session.pipeline
	switch {
	case p.heldBackAt != now.Mono && s.maySendCopy(now, c):
		c.put.copies++
		c.retryAt = now.Mono + s.answerWait(c.target)<<c.put.copies
		s.sendCopy(c)
	case c.put.copies == 0:
		p.heldBackAt = now.Mono
	}
}

// maySendCopy reports whether a put is to be sent again now. A coordinator of a version without leaderships does not
// know which puts it has accepted.
func (s *Sidecar) maySendCopy(now causal.Now, c *call) bool {
	transfer := int64(copyBytes(c)) * int64(time.Second) / copyRate
	return now.Mono >= c.retryAt+transfer && c.put.copies < maxPutCopies &&
		!s.coordinators.serving[c.target].IsZero() && !s.coordinators.down[c.target] &&
		s.coordinators.allowance(c.target).take(now, s.answerWait(c.target), copyBytes(c))
}
