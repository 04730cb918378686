package session

import "github.com/causalstore/causalstore/sidecar/causal"

// Settling (PROTOCOL §9): the end of an MGET whose keys are written all the time, in a ring that may lack writes. It
// needs no instant without a write and no progress of RV.
//
// Whatever a version depends on has a smaller HLC, and is at its shard of the ring by the time that the version is
// visible there: processed, or staged, which the read waits for. So after a round, of the keys whose version is below
// the greatest HLC that the round has found, each is read again at the cut just below that. If that finds another
// version, it may depend on something in turn, at a smaller HLC still. So the cuts fall, at least one key is final
// after each round, and it ends after as many rounds as there are keys at most. Mostly that is one: a version changes
// only if it arrived during the round, late.
//
// A version that was found stays: at each cut, the newest version of its key is the same or a greater one.

// startSettling makes the versions that were found causally consistent.
func (s *Sidecar) startSettling(now causal.Now, c *call) {
	s.stats.SettledMGets++
	c.mget.phase = mgetSettles
	s.settle(now, c, c.mget.greatestWritten())
}

// settle reads again, at the cut below newest, the keys whose version is below it. newest is the greatest HLC that the
// last round has found; 0: it has found nothing that was not known. What versions at or below completeCut depend on was
// complete when the MGET started, so every read has seen it.
func (s *Sidecar) settle(now causal.Now, c *call, newest causal.HLC) {
	m := c.mget
	var keys []int
	if newest > m.completeCut {
		m.cut = newest - 1
		for i := range m.replies {
			if m.replies[i].record.Version.HLC <= m.cut {
				keys = append(keys, i)
			}
		}
	}
	if len(keys) == 0 {
		s.deliver(now, c)
		return
	}
	s.startRound(now, c, keys)
}
