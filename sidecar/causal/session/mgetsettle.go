package session

import (
	"slices"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/keystate"
)

// Settling (PROTOCOL MGET-3): the end of an MGET whose keys are written all the time, in a ring that may lack writes.
// It needs no instant without a write and no progress of RV.
//
// Whatever a version depends on has a smaller HLC, and is at its shard of the ring by the time that the version is
// visible there: processed, or staged, which the read waits for. So after a round, of the keys whose version is below
// the greatest HLC that the round has found, each is read again at the cut just below that. If that finds another
// version, it may depend on something in turn, at a smaller HLC still. So the cuts fall, at least one key is final
// after each round, and it ends after as many rounds as there are keys at most. Mostly that is one: a version changes
// only if it arrived during the round, late.
//
// A version that was found stays: at each cut, the newest version of its key is the same or a greater one.
//
// That is so of registers. A merging value with a version above the cut may lack a write below it, which arrived late,
// and on which another answer depends. So if there is one, all keys are read at one cut until two rounds find the same:
// that is what the ring had up to the cut at one instant. Since what is below the cut was under way before, that ends.

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
	if m.settlesAt != 0 || m.merges() {
		s.settleAtCut(now, c)
		return
	}
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

// merges reports whether a value that was read merges.
func (m *mget) merges() bool {
	return slices.ContainsFunc(m.replies, func(r keyReply) bool { return !keystate.Identifies(&r.record) })
}

// settleAtCut reads all keys at one cut until two rounds find the same.
func (s *Sidecar) settleAtCut(now causal.Now, c *call) {
	m := c.mget
	switch {
	case m.settlesAt == 0:
		m.settlesAt = m.greatestWritten()
		m.cut, m.rounds = m.settlesAt, 0
	case m.rounds > 1 && !m.round.changed:
		s.deliver(now, c)
		return
	}
	s.startRound(now, c, m.allKeys())
}
