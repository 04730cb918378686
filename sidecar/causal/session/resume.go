package session

import (
	"slices"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
)

// resumeAskInterval is how often the rings are asked for what a token names.
const resumeAskInterval = 500 * time.Millisecond

// resumption is the past of a token that is to become part of a session's.
type resumption struct {
	restrictions []restriction
	seen         causal.HLC
}

// startResume adds the past of a token to the session's (PROTOCOL §3, token).
func (s *Sidecar) startResume(now causal.Now, c *call) {
	r, err := s.parseToken(c.op.Token)
	if err != nil {
		s.finish(c, Result{Err: causal.ErrNotFound})
		return
	}
	if n := len(r.restrictions); n > 0 && r.restrictions[n-1].rings == 0 && s.cfg.Broken.Has(causal.ResumeWithoutLast) {
		r.restrictions = r.restrictions[:n-1]
	}
	limit := s.timeLimit(now)
	if r.seen > limit || slices.ContainsFunc(r.restrictions, func(e restriction) bool { return e.version.HLC > limit }) {
		s.stats.ClockRefused++
		s.finish(c, Result{Err: causal.ErrClock})
		return
	}
	c.resume = r
	if !s.tryResume(now, c) {
		s.askForResume(now, c)
		s.blocked = append(s.blocked, c)
	}
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
	ss, rings := c.session, s.allowedRings(c.session)
	inFlight := make([]*restriction, 0, len(c.resume.restrictions))
	for i := range c.resume.restrictions {
		r := &c.resume.restrictions[i]
		if s.stability.Complete(r.version) || r.clean == s.cfg.Topology.AllRings() || ss.own.contains(r.version) {
			continue
		}
		r.rings |= s.stability.RingsWith(r.version)
		rings &= r.rings
		inFlight = append(inFlight, r)
	}
	if rings == 0 {
		return false
	}
	for _, r := range inFlight {
		s.restrict(now, ss, r.version, r.slot, r.rings)
	}
	ss.seen, ss.floor = max(ss.seen, c.resume.seen), max(ss.floor, c.resume.seen)
	s.finish(c, Result{})
	return true
}
