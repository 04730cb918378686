package session

import (
	"slices"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/keystate"
	"github.com/causalstore/causalstore/topology"
)

// The cut that sessions read at (PROTOCOL SNAP), if their level does. It does not wait for the
// data centers that are the furthest behind. It moves in steps, so that what a cache fetches for a step serves all of
// it. Caches hear of a cut before it is complete, so that they can fetch what it outdates.

// maxCutAgeMs is how far the cut may be behind the greatest SV of any origin. The cut is held back by the slowest
// coordinator, and one whose clock is very slow would hold it back for good.
const maxCutAgeMs = 10_000

// slowCutMs is how far the cut may be behind what some ring has before it counts as slow: writes take long to be
// complete, as when all that goes to one data center is delayed. Then popular keys have writes in flight that are older
// than what is complete of other keys, and a session that had read the latter would be bound by the former. So sessions
// read at the base.
const slowCutMs = 700

// cutSchedule is the cut that sessions read at, and those that follow.
//
// Invariant: At and Complete of the current cut, and base, never decrease.
type cutSchedule struct {
	used      bool       // sessions read at cuts
	current   causal.Cut // At is 0: there is none yet
	movedAt   int64      // monotonic: when current changed
	behind    bool       // current is more than maxCutAgeMs behind
	slow      bool       // current is more than slowCutMs behind what some ring has
	base      causal.HLC // of reads at the cut
	scheduled cutSteps   // the cuts that are complete
	announced cutSteps   // those that the caches were told of
	upcoming  []upcomingCut
	leastSV   causal.HLC // as of the last moveCut
	leastSVAt int64      // monotonic: when leastSV changed
	heard     []heardOf  // by data center
}

// heardOf is the latest news of a data center.
type heardOf struct {
	upTo causal.HLC
	at   int64 // monotonic
}

// upcomingCut is a cut that is complete. The caches of the data center may hear so a moment later.
type upcomingCut struct {
	cut   causal.Cut
	useAt int64 // monotonic: when sessions start to read at it
}

// cutSteps are cuts at multiples of a step, each of which serves for all timestamps up to the next one.
type cutSteps struct {
	newest causal.HLC
	at     int64 // monotonic: when newest was reached
}

// next returns the cut for what is complete, or received, up to h, and whether it is a new one. If timestamps stand
// still, since a clock was ahead (after a restart that is usual: PROTOCOL COO-11), the steps do
// not wait until all clocks have come there.
func (c *cutSteps) next(now causal.Now, h causal.HLC, step time.Duration) (causal.HLC, bool) {
	cut := stepOf(h, step)
	if cut <= c.newest && now.Mono-c.at >= 2*int64(step) {
		cut = h
	}
	if cut <= c.newest {
		return 0, false
	}
	c.newest, c.at = cut, now.Mono
	return cut, true
}

// nextAt returns when next has a cut for timestamps that stand still at h: in the past, if there is one already since a
// data center is late.
func (c *cutSteps) nextAt(h causal.HLC, step time.Duration) int64 {
	switch {
	case h <= c.newest:
		return causal.Never
	case stepOf(h, step) > c.newest:
		return c.at
	}
	return c.at + 2*int64(step)
}

// stepOf returns the greatest multiple of a step that is not above h.
func stepOf(h causal.HLC, step time.Duration) causal.HLC {
	if width := causal.HLCAt(step.Milliseconds()); width > 0 {
		return h - h%width
	}
	return h
}

// switchDue makes the newest cut that is due the current one.
func (cs *cutSchedule) switchDue(now causal.Now) {
	n := 0
	for n < len(cs.upcoming) && cs.upcoming[n].useAt <= now.Mono {
		cs.current, cs.movedAt = cs.upcoming[n].cut, now.Mono
		n++
	}
	cs.upcoming = cs.upcoming[n:]
}

// someoneIsLate reports whether the least SV has stood still for so long that the cut moves without the data center
// that it is of.
func (s *Sidecar) someoneIsLate(now causal.Now) bool {
	return now.Mono-s.cuts.leastSVAt >= int64(s.cfg.LateAfter)
}

// completeCut returns the newest cut to read at.
func (s *Sidecar) completeCut(now causal.Now) causal.Cut {
	return s.stability.CutWithout(s.leftOut(now))
}

// leftOut returns how many data centers the cut leaves out.
func (s *Sidecar) leftOut(now causal.Now) int {
	if s.someoneIsLate(now) {
		return max(s.cfg.LeftOut, 1)
	}
	return s.cfg.LeftOut
}

// cutBase returns the HLC up to which reads at the cut return the newest versions, complete or not. Above it, they
// return complete ones.
func (s *Sidecar) cutBase() causal.HLC { return s.cuts.base }

// readBase is cutBase for a session and a key: nothing of the key that is in the past of the session is above that.
func (s *Sidecar) readBase(ss *session, key []byte) causal.HLC {
	switch {
	case s.cfg.Broken.Has(causal.BaseBelowSeen):
		return s.cutBase()
	case !s.unbound(ss):
		return max(s.cutBase(), ss.seen)
	}
	return max(s.cutBase(), ss.past.upTo, ss.past.above[string(key)].HLC)
}

// overlaidFrom returns the HLC above which own complete writes overlay what is read at the cut.
func (s *Sidecar) overlaidFrom() causal.HLC {
	if s.cfg.Broken.Has(causal.OverlayAtCut) {
		return s.cuts.current.At
	}
	return s.cutBase()
}

// newestCut returns a cut up to which some ring has everything: it will soon be complete.
func (s *Sidecar) newestCut(now causal.Now) causal.HLC {
	return s.stability.NewestCutWithout(s.leftOut(now))
}

// covers reports whether a value is complete because of a cut. Of a merging one, the version does not say whose writes
// are in it.
func (s *Sidecar) covers(c *causal.Cut, r *causal.Record) bool {
	v := r.Version
	if !keystate.Identifies(r) {
		return v.HLC <= c.Complete
	}
	return c.Covers(v) || v.HLC <= c.At && s.cfg.Broken.Has(causal.LateUnchecked)
}

// moveCut moves the cut with the vectors and the time, and tells the caches of those to come.
func (s *Sidecar) moveCut(now causal.Now) {
	if !s.cuts.used {
		return
	}
	if sv := s.stability.MinSV(); sv != s.cuts.leastSV || s.cuts.leastSVAt == 0 {
		s.cuts.leastSV, s.cuts.leastSVAt = sv, now.Mono
	}
	s.cuts.behind = s.stability.MaxSV().WallMs()-s.cuts.current.At.WallMs() > maxCutAgeMs
	if ahead, isNew := s.cuts.announced.next(now, s.newestCut(now), s.cfg.SnapshotInterval); isNew && s.cfg.UseCache &&
		s.cfg.SnapshotLead > 0 {
		for i := range s.cfg.Topology.DCs[s.cfg.Self.DC].Caches {
			cache := topology.Node{DC: s.cfg.Self.DC, Part: topology.Cache, Index: uint64(i)}
			s.Send(causal.CutNotice{Cut: ahead}.Message(s.cfg.Self, cache))
		}
	}
	cut := s.completeCut(now)
	if at, isNew := s.cuts.scheduled.next(now, cut.At, s.cfg.SnapshotInterval); isNew {
		cut.At, cut.Complete = at, min(at, cut.Complete)
		s.cuts.upcoming = append(s.cuts.upcoming, upcomingCut{cut, now.Mono + int64(s.cfg.SnapshotLead)})
	}
	s.cuts.switchDue(now)
	s.followCut(now)
	s.noteHeard(now)
}

// noteHeard notes which data centers there is news of.
func (s *Sidecar) noteHeard(now causal.Now) {
	if s.cuts.heard == nil {
		s.cuts.heard = make([]heardOf, len(s.cfg.Topology.DCs))
	}
	for dc := range s.cuts.heard {
		if h, upTo := &s.cuts.heard[dc], s.stability.MaxRVOf(topology.DC(dc)); h.at == 0 || upTo > h.upTo {
			h.upTo, h.at = upTo, now.Mono
		}
	}
}

// isAnyoneSilent reports whether nothing has been heard of some data center for MaxSilentLag.
func (s *Sidecar) isAnyoneSilent(now causal.Now) bool {
	return slices.ContainsFunc(s.cuts.heard, func(h heardOf) bool { return now.Mono-h.at >= int64(s.cfg.MaxSilentLag) })
}

// followCut raises the base, and notes whether the cut is slow. The base passes over a data center that is late; what
// is merely slow is waited for.
func (s *Sidecar) followCut(now causal.Now) {
	s.cuts.slow = s.pendingMs(now) > slowCutMs
	s.cuts.base = max(s.cuts.base, s.cuts.current.Complete)
	if now.Mono >= s.passOverAt(now) {
		s.cuts.base = max(s.cuts.base, s.lateBase())
	}
}

// pendingMs returns how far the cut is behind what some ring has.
func (s *Sidecar) pendingMs(now causal.Now) int64 {
	return max(s.newestCut(now).WallMs()-s.cuts.current.At.WallMs(), 0)
}

// lateBase returns the base while a data center is late.
func (s *Sidecar) lateBase() causal.HLC {
	at := s.cuts.current.At
	return at - min(at, causal.HLCAt(s.cfg.LateAfter.Milliseconds()))
}

// passOverAt returns when the base passes over the data center that holds the least SV back, if that does not move
// before.
func (s *Sidecar) passOverAt(now causal.Now) int64 {
	return s.cuts.leastSVAt + int64(s.cfg.LateAfter) + s.pendingMs(now)*int64(time.Millisecond)
}

// nextCutAt returns when moveCut has something to do next, if no vectors come before.
func (s *Sidecar) nextCutAt(now causal.Now) int64 {
	if !s.cuts.used {
		return causal.Never
	}
	next := min(s.cuts.announced.nextAt(s.newestCut(now), s.cfg.SnapshotInterval),
		s.cuts.scheduled.nextAt(s.completeCut(now).At, s.cfg.SnapshotInterval))
	if !s.someoneIsLate(now) {
		next = min(next, s.cuts.leastSVAt+int64(s.cfg.LateAfter))
	}
	if s.cuts.base < s.lateBase() {
		next = min(next, s.passOverAt(now))
	}
	if len(s.cuts.upcoming) > 0 {
		next = min(next, s.cuts.upcoming[0].useAt)
	}
	return next
}

// cutUsable reports whether sessions may read at the cut. A cut that does not move, because some data center is away,
// or that is far behind would hide everything that happens elsewhere.
func (s *Sidecar) cutUsable(now causal.Now) bool {
	stood := time.Duration(now.Mono-s.cuts.movedAt) - s.cfg.SnapshotInterval
	switch {
	case s.cuts.current.At == 0 || s.cuts.behind:
		return false
	case stood <= s.cfg.MaxSilentLag:
		return true
	}
	return stood <= s.cfg.MaxSnapshotLag && !s.isAnyoneSilent(now)
}

// mustSee returns the HLC that a read names as seen: staged puts at or below it are waited for, and at a cut, no older
// version is returned than the newest at or below it. It is 0 if everything that the session must see is complete; then
// the base of a read at a cut says from where on it must see it.
func (s *Sidecar) mustSee(ss *session) causal.HLC {
	if s.unbound(ss) {
		return 0
	}
	return ss.seen
}
