package session

import (
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// A put that was sent may have been accepted, so only its coordinator can tell its outcome: the next leadership of it,
// if this one has ended (PROTOCOL PUT-3). So puts in flight to a coordinator that is away wait
// for it, and are sent to it again, in order and under their numbers.

// resendPause is how long a put waits that could not be sent again though its coordinator can be reached: the queue of
// the link is full.
const resendPause = 250 * time.Millisecond

// awaitCoordinator makes a put wait until its coordinator serves again.
func (s *Sidecar) awaitCoordinator(now causal.Now, c *call) {
	if s.cfg.Broken.Has(causal.ResendElsewhere) {
		s.requests.drop(c.requestID)
		s.deferPut(now, c)
		return
	}
	if !c.put.waiting {
		c.put.waiting, c.put.giveUpAt = true, now.Mono+int64(s.cfg.PutRecovery)
	}
	c.put.resent, c.retryAt = true, now.Mono+int64(resendPause)
}

// resendPuts sends again all puts in flight to a coordinator. Those of a session are in calls in the order in which
// they were sent.
func (s *Sidecar) resendPuts(now causal.Now, node topology.Node) {
	for _, c := range s.calls {
		if !c.finished && c.op.Kind == OpPut && c.target == node {
			s.resendPut(now, c)
		}
	}
}

func (s *Sidecar) resendPut(now causal.Now, c *call) {
	c.put.resent, c.put.waiting, c.put.copies = true, false, 0
	s.transmitPut(now, c) // what an earlier leadership has answered no longer counts
}

// tickPut gives up a put that has waited for too long, or sends it again when that is due.
func (s *Sidecar) tickPut(now causal.Now, c *call) {
	switch {
	case now.Mono >= c.deadline || c.put.waiting && now.Mono >= c.put.giveUpAt:
		s.avoid(now, c.target)
		s.fail(c, causal.ErrUnknown)
		s.concludePut(now, c)
	case !c.put.waiting:
		s.tickInFlight(now, c)
	case now.Mono < c.retryAt:
	case !s.coordinators.down[c.target]:
		s.resendPut(now, c)
	}
}
