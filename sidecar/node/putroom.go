package node

import (
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/member"
	"github.com/causalstore/causalstore/topology"
)

// A coordinator accepts a put only if there is room for it beside those that are not durable yet. A put for which there
// is none waits before the machine knows of it, as if it were still on its way, with everything behind it on its link;
// so whoever sends faster than the disk writes is slowed down, and the puts of other identities are not. What a sidecar
// sends to a coordinator beside puts can wait as well: it asks for the vectors every second, and reads a value of its
// own that it has no room for. If the disk writes nothing for a while, the machine refuses the put: a client is better
// told so while it waits than left to time out.

// diskPatience is how long a put waits for room while nothing becomes durable.
const diskPatience = time.Second

// putRoom is when puts without room may be tried again. The lock of the host guards it.
type putRoom struct {
	patience time.Duration // diskPatience
	bytes    int           // of the puts that were not durable at the last step
	movedAt  int64         // monotonic: when that became less, or the first of them was accepted
	freed    chan struct{} // closed when it becomes less; nil: nobody waits
}

// note takes what is not durable after a step.
func (r *putRoom) note(now causal.Now, bytes int) {
	if bytes < r.bytes || r.bytes == 0 {
		r.movedAt = now.Mono
		if r.freed != nil {
			close(r.freed)
			r.freed = nil
		}
	}
	r.bytes = bytes
}

// Handle implements Host. It waits for room for puts: only what is behind them on the same link waits too.
func (c *Coordinator) Handle(batch []causal.Message) {
	for {
		n, freed, wait := c.handleWithRoom(batch)
		if batch = batch[n:]; len(batch) == 0 {
			return
		}
		stalled := time.NewTimer(wait)
		select {
		case <-freed:
		case <-stalled.C:
		}
		stalled.Stop()
	}
}

// handleWithRoom handles messages up to a put for which there is no room, and returns how many, what is closed when
// there may be room, and how long to wait for that.
func (c *Coordinator) handleWithRoom(batch []causal.Message) (n int, freed <-chan struct{}, wait time.Duration) {
	n = len(batch)
	c.handleWhile(batch, func(now causal.Now, m *member.Coordinator, i int) bool {
		put := &batch[i]
		if put.Kind != causal.KindPut || put.From.Part != topology.Sidecar || m.HasRoom(put) {
			return true
		}
		r := &c.room
		if wait = time.Duration(r.movedAt + int64(r.patience) - now.Mono); wait <= 0 || c.closing {
			return true // the machine refuses it
		}
		if r.freed == nil {
			r.freed = make(chan struct{})
		}
		n, freed = i, r.freed
		return false
	})
	return n, freed, wait
}
