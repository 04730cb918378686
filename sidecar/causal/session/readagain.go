package session

import (
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// What becomes of reads when the link to a shard ends, and when the shard can be reached again, perhaps at another
// member of its group (PROTOCOL GRP-26). Without it, each of them would wait for its time-out.

// readAgain sends the reads in flight to a shard again. That it was silent says nothing about it any more, so it does
// not become suspect by that.
func (s *Sidecar) readAgain(now causal.Now, shard topology.Node) {
	for _, c := range s.calls {
		switch {
		case c.finished:
		case c.op.Kind == OpMGet:
			s.readKeysAgain(now, c, shard)
		case c.op.Kind == OpCount:
			s.countAgain(c, shard)
		case c.op.Kind == OpResume:
			c.retryAt = now.Mono // all rings are asked
		case c.target != shard || c.replied: // replied: it waits for something else than an answer
		case c.op.Kind == OpGet:
			s.requestGet(now, c, s.routes.Timeout(shard.DC))
		case c.op.Kind == OpScan:
			s.sendScan(now, c)
		}
	}
}

// isAsked reports whether a round waits for an answer of a node.
func (r *keyRound) isAsked(n topology.Node) bool {
	for i, id := range r.requests {
		if id != 0 && r.targets[i] == n {
			return true
		}
	}
	return false
}

// readKeysAgain sends the requests of an MGET again that are with a shard.
func (s *Sidecar) readKeysAgain(now causal.Now, c *call, shard topology.Node) {
	m := c.mget
	if m.failed || !m.round.isAsked(shard) {
		return
	}
	seen := s.mgetMustSee(c)
	for i, id := range m.round.requests {
		if id != 0 && m.round.targets[i] == shard {
			s.requests.drop(id)
			s.requestKey(now, c, i, c.roundRequest(i, seen), false)
		}
	}
}

// readKeysElsewhere makes an MGET do without a node that cannot be reached: at a cut each key can be read anywhere; the
// newest values are all read in another ring, if the session may read in one.
func (s *Sidecar) readKeysElsewhere(now causal.Now, c *call, n topology.Node) {
	m := c.mget
	switch {
	case m.failed || !m.round.isAsked(n):
	case m.ring == topology.NoRing:
		s.readKeysAgain(now, c, n)
	case s.mgetRings(c)&^m.tried != 0:
		s.stats.Retries++
		c.level.restartMGet(s, now, c)
	}
}
