package session

import (
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
)

// resumeAskInterval is how often the rings are asked for what a token names.
const resumeAskInterval = 500 * time.Millisecond

// resumption is the past of a token that is to become part of a session's.
type resumption struct {
	restrictions []restriction
	seen         causal.HLC
	// exclusions are what the session went by.
	exclusions causal.Exclusions
}

// startResume adds the past of a token to the session's (PROTOCOL SES-19).
func (s *Sidecar) startResume(now causal.Now, c *call) {
	r, err := s.parseToken(c.op.Token)
	if err != nil {
		s.finish(c, Result{Err: causal.ErrNotFound})
		return
	}
	if r.seen > s.timeLimit(now) { // nothing in a token is newer
		s.stats.ClockRefused++
		s.finish(c, Result{Err: causal.ErrClock})
		return
	}
	c.resume = r
	s.applyExclusions(r.exclusions)
	if !s.tryResume(now, c) {
		s.askForResume(now, c)
		s.blocked = append(s.blocked, c)
	}
}

// claimLimit returns the greatest timestamp in a token to believe: that which a coordinator accepts as the floor of a
// put. A session that had seen a greater one could not write until the clocks are there.
func (s *Sidecar) claimLimit(now causal.Now) causal.HLC {
	if s.cfg.Broken.Has(causal.AnyClock) {
		return causal.NoLimit
	}
	return max(s.limit.ClaimsAt(now), s.stability.MaxRV())
}

// askForResume asks every ring for the versions that it has not reported clean. The vectors may tell earlier.
func (s *Sidecar) askForResume(now causal.Now, c *call) {
	c.retryAt = now.Mono + int64(resumeAskInterval)
	for i := range c.resume.restrictions {
		s.sendNotifyAfter(&c.resume.restrictions[i])
	}
}

// tryResume adds the token's past to the session's if some ring has both, and reports whether it did.
func (s *Sidecar) tryResume(now causal.Now, c *call) bool {
	if c.refusedAhead = c.resume.seen > s.claimLimit(now); c.refusedAhead {
		return false // a clock is behind, or coordinators will tell that they are so far
	}
	ss, rings := c.session, s.allowedRings(c.session)
	inFlight, added, local := make([]*restriction, 0, len(c.resume.restrictions)), 0, causal.Version{}
	for i := range c.resume.restrictions {
		r := &c.resume.restrictions[i]
		if s.stability.Complete(r.version) || s.isClean(r) || !r.prefix && ss.own.contains(r.version) {
			continue
		}
		if r.prefix {
			if r.version.Origin != s.onlyHome() {
				return false // puts can name it only at its home: it becomes complete
			}
			if local.HLC < r.version.HLC {
				local = r.version
			}
			continue
		}
		r.rings |= s.stability.RingsWith(r.version)
		if s.cfg.Broken.Has(causal.ResumeUnasked) {
			r.rings = s.cfg.Topology.AllRings()
		}
		if known := ss.restrictions.find(r.version); known != nil {
			r.rings |= known.rings
		} else {
			added++
		}
		if rings &= r.rings; rings == 0 {
			return false
		}
		inFlight = append(inFlight, r)
	}
	if n := ss.inPast(); n > 0 && added > s.cfg.MaxRestrictions-n {
		return false // until restrictions are lifted
	}
	for _, r := range inFlight {
		s.restrict(now, ss, r.version, r.slot, r.rings)
	}
	if local.HLC != 0 { // operations that do not ask the home are restricted when they start
		ss.local.add(local)
		ss.local.noteUnnamed(local)
		s.activate(ss)
	}
	ss.seen, ss.floor = max(ss.seen, c.resume.seen), max(ss.floor, c.resume.seen)
	ss.past.raise(c.resume.seen)
	s.finish(c, Result{})
	return true
}
