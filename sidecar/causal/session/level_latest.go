package session

import (
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

func init() { register(causal.Latest, latest{}) }

// latest reads the newest version that causality allows (PROTOCOL SES, MGET): of copies while the session is unbound,
// else in the rings that have all that the session has seen. An in-flight version binds it. A put depends on all that
// the session has seen. Levels that differ in some of this embed it.
type latest struct{}

func (latest) asksHome() bool { return false }

func (latest) usesCuts() bool { return false }

func (latest) sources(s *Sidecar, ss *session) (rings topology.RingSet, copies bool) {
	return s.allowedRings(ss), s.unbound(ss)
}

// overlays: what is complete is in every ring, and the ring may have something newer.
func (latest) overlays(*Sidecar, causal.Now) bool { return false }

func (latest) get(s *Sidecar, _ causal.Now, c *call) (g causal.Get, near causal.HLC) {
	return causal.Get{Seen: s.mustSee(c.session)}, 0
}

func (latest) nearCut(*Sidecar, causal.Now, *session, []byte) causal.HLC { return 0 }

func (latest) covers(s *Sidecar, _ causal.Now) causal.Cut {
	return s.stability.CutWithout(causal.LeftOutAtMost(len(s.cfg.Topology.DCs)))
}

func (l latest) startMGet(s *Sidecar, now causal.Now, c *call) {
	c.mget.reader = l
	if !s.mgetNear(now, c) {
		s.readLatest(now, c)
	}
}

// finishRound decides whether the replies of a round are one state of the store.
func (latest) finishRound(s *Sidecar, now causal.Now, c *call) {
	m := c.mget
	switch {
	case m.phase == mgetReadsCut, len(m.replies) == 1, s.cfg.Broken.Has(causal.MGetOneRound), m.mixed:
		s.deliver(now, c)
	case m.phase == mgetSettles && s.cfg.Broken.Has(causal.MGetSettlesOnce):
		s.deliver(now, c)
	case m.phase == mgetSettles:
		s.settle(now, c, m.round.newest)
	case m.rounds == 1 && m.allAtOrBelow(m.completeCut):
		s.deliver(now, c)
	case m.rounds > 1 && !m.round.changed:
		s.deliver(now, c) // all versions were the newest at one instant between the two rounds
	case m.rounds < maxRoundsAgain || m.rounds < maxRounds && m.starts == 1:
		s.startRound(now, c, m.allKeys())
	case s.cfg.Broken.Has(causal.MGetUnsettled):
		s.deliver(now, c)
	default:
		s.forceCut(now, c)
	}
}

func (latest) restartMGet(s *Sidecar, now causal.Now, c *call) { s.readLatest(now, c) }

func (latest) restrictions(s *Sidecar, ss *session, f foundValue) int {
	return s.newRestrictions(ss, &f)
}

// observe refuses an in-flight version that would leave no ring to read from. What the session reads at a cut from here
// on is not below the version, nor what that depends on; if its past is known, that is asked of other keys, and the
// version itself of its own key only.
func (latest) observe(s *Sidecar, now causal.Now, ss *session, f foundValue) bool {
	switch v := f.record.Version; {
	case !s.addToPast(now, ss, f):
		return false
	case ss.isOwn(&f.record):
	case s.cuts.used && f.past != 0 && f.status != causal.InFlight && v.Written():
		ss.past.add(f.key, v, f.past, s.cutBase(), s.cfg.Broken)
	default:
		ss.past.raise(v.HLC)
	}
	return true
}

func (latest) carries(s *Sidecar, ss *session) (floor causal.HLC, deps []causal.Dep) {
	return ss.floor, s.dependencies(ss)
}

func (latest) acknowledge(s *Sidecar, c *call, v causal.Version) { s.addOwnWrite(c, v) }
