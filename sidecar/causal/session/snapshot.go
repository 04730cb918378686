package session

import (
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/topology"
)

// Reads at a cut (PROTOCOL, "Snapshot reads of one key"). In mode Snapshot sessions read at a cut at or below which everything
// is complete, so nothing that they read binds them. A session that has seen something above the cut reads up to that; it sees
// nothing newer, so the cut soon catches up with it. The cut moves in steps, so that what a cache fetches for a step serves all
// of it. Caches hear of a cut before it is used, so that they can fetch what it outdates.

// maxCutAgeMs is how far the cut may be behind the greatest SV of any origin. The cut is held back by the slowest coordinator,
// and one whose clock is very slow would hold it back for good.
const maxCutAgeMs = 10_000

// cutSchedule is the cut that sessions read at, and those that follow.
type cutSchedule struct {
	current   causal.HLC // 0: there is none yet
	movedAt   int64      // monotonic: when current changed
	behind    bool       // current is more than maxCutAgeMs behind
	announced causal.HLC // the newest cut that the caches were told of
	upcoming  []upcomingCut
}

// upcomingCut is a cut that the caches were told of.
type upcomingCut struct {
	cut   causal.HLC
	useAt int64 // monotonic: when sessions start to read at it
}

// announce schedules a cut, and reports whether it is a new one.
func (cs *cutSchedule) announce(cut causal.HLC, useAt int64) bool {
	if cut <= cs.announced {
		return false
	}
	cs.announced = cut
	cs.upcoming = append(cs.upcoming, upcomingCut{cut, useAt})
	return true
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

// moveCut moves the cut with the vectors and the time, and tells the caches of the next one.
func (s *Sidecar) moveCut(now causal.Now) {
	if !s.cfg.Snapshot {
		return
	}
	cut, step := s.stability.MinSV(), causal.HLCAt(s.cfg.SnapshotInterval.Milliseconds())
	s.cuts.behind = s.stability.MaxSV().WallMs()-s.cuts.current.WallMs() > maxCutAgeMs
	if step > 0 {
		cut -= cut % step
	}
	if s.cuts.announce(cut, now.Mono+int64(s.cfg.SnapshotLead)) && s.cfg.UseCache && s.cfg.SnapshotLead > 0 {
		for i := range s.cfg.Topology.DCs[s.cfg.Self.DC].Caches {
			cache := topology.Node{DC: s.cfg.Self.DC, Part: topology.Cache, Index: uint64(i)}
			s.Send(causal.CutNotice{Cut: cut}.Message(s.cfg.Self, cache))
		}
	}
	s.cuts.switchDue(now)
}

// readsLatest reports whether a call reads the newest versions, and not those at the cut.
func (s *Sidecar) readsLatest(now causal.Now, c *call) bool {
	return c.op.Latest || !s.cutUsable(now)
}

// cutUsable reports whether sessions may read at the cut. A cut that does not move, because some data center is away, or that
// is far behind would hide everything that happens elsewhere.
func (s *Sidecar) cutUsable(now causal.Now) bool {
	return s.cuts.current != 0 && !s.cuts.behind && now.Mono-s.cuts.movedAt <= int64(s.cfg.MaxSnapshotLag+s.cfg.SnapshotInterval)
}

// mustSee returns the HLC that a read names as seen: staged puts at or below it are waited for, and at a cut, no older version
// is returned than the newest at or below it. It is 0 if everything that the session must see is complete, and at or below the
// cut if it reads at one.
func (s *Sidecar) mustSee(ss *session, atCut bool) causal.HLC {
	if s.unbound(ss) && (!atCut || ss.seen <= s.cuts.current) {
		return 0
	}
	return ss.seen
}
