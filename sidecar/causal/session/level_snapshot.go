package session

import "github.com/causalstore/causalstore/sidecar/causal"

func init() { register(causal.Snapshot, snapshot{}) }

// snapshot reads the newest complete version, so that what it reads hardly ever binds the session (PROTOCOL SNAP):
// what is in-flight above the base of a read is passed over. The base follows the cut (cuts.go), and
// is not below what the session has seen of the key, nor below what anything that it has seen depends on (pastReads). A
// bound session that has seen something above the cut reads up to that; it sees nothing newer, so the cut soon catches
// up with it. An MGET reads at the cut.
//
// While there is no cut that can be used it is latest.
type snapshot struct{ latest }

func (snapshot) usesCuts() bool { return true }

func (snapshot) overlays(s *Sidecar, now causal.Now) bool { return s.cutUsable(now) }

func (l snapshot) get(s *Sidecar, now causal.Now, c *call) (g causal.Get, near causal.HLC) {
	if !s.cutUsable(now) {
		return l.latest.get(s, now, c)
	}
	g = causal.Get{Snapshot: true, Cut: s.cuts.current.Complete, At: s.cuts.current.At, Seen: s.mustSee(c.session)}
	if s.cfg.Broken.Has(causal.LateAsComplete) {
		g.Cut = g.At
	}
	s.keyBytes = append(s.keyBytes[:0], c.op.Key...)
	base := s.readBase(c.session, s.keyBytes)
	if near = max(g.At, base); s.cuts.slow {
		near = base
	}
	switch unbound := s.unbound(c.session); {
	case c.isPipelined() && !s.cfg.Broken.Has(causal.PipelineAboveBase):
		if g.At = min(g.At, base); unbound {
			g.At = base // what it finds is covered by those behind it
		}
	case unbound && s.cuts.slow:
		g.At = base
	case unbound:
		g.At = causal.NoLimit // the newest that is complete
	}
	if g.At <= g.Cut || g.At <= g.Seen {
		g.At = 0
	}
	if c.own != nil && !c.own.value.Merges() {
		g.Seen = max(g.Seen, c.own.version.HLC)
		near = max(near, g.Seen)
	}
	if base < g.UpTo() {
		g.Base = base
	}
	return g, near
}

func (l snapshot) nearCut(s *Sidecar, now causal.Now, ss *session, key []byte) causal.HLC {
	if !s.cutUsable(now) {
		return l.latest.nearCut(s, now, ss, key)
	}
	return max(s.cuts.current.At, s.readBase(ss, key))
}

// covers: what is read at the cut may be nothing above its base.
func (l snapshot) covers(s *Sidecar, now causal.Now) causal.Cut {
	if !s.cutUsable(now) {
		return l.latest.covers(s, now)
	}
	c := s.cuts.current
	if !s.cfg.Broken.Has(causal.PipelineAboveBase) {
		c.At = s.cutBase()
	}
	return c
}

// startMGet reads each key at the nearest copy, if there is a cut that the session may read at.
func (l snapshot) startMGet(s *Sidecar, now causal.Now, c *call) {
	if !s.cutUsable(now) || !l.chooseCut(s, now, c) {
		l.latest.startMGet(s, now, c)
		return
	}
	s.stats.SnapshotMGets++
	c.mget.reader, c.mget.phase = l, mgetReadsCut
	s.startRound(now, c, c.mget.allKeys())
}

// chooseCut chooses a cut at which everything is complete and that includes all that the session has seen, if there is
// one. That the session is unbound is not enough: a version may be known to be stable on its own, and be above the
// least SV. Own writes above the cut are overlaid.
func (snapshot) chooseCut(s *Sidecar, now causal.Now, c *call) bool {
	ss, broken := c.session, &s.cfg.Broken
	if !s.unbound(ss) && !broken.Has(causal.SnapshotBound) {
		return false
	}
	seen := max(ss.past.greatest(c.op.Keys), ss.mgetCut)
	cut := s.cuts.current
	if cut.At < seen {
		cut = s.completeCut(now)
	}
	if broken.Has(causal.CutBeyondSV) {
		cut = causal.Cut{At: s.stability.MaxSV(), Complete: s.stability.MaxSV()}
	}
	if cut.At < seen && !broken.Has(causal.CutBelowSeen) && !broken.Has(causal.SnapshotBound) {
		return false
	}
	if cut.At == 0 {
		return false
	}
	c.mget.cut, c.mget.covers, c.mget.least = cut.At, cut, min(max(seen, s.cutBase()), cut.At)
	return true
}

// finishRound decides whether what a round has found at the cut is one state. It is if all versions were complete when
// the round began: then their pasts were, too, and every read has found its key's part of these, in whichever ring. The
// cut says that of most; what the data centers that it leaves out have written is known to be complete when it is
// found, so another round must find the same. If some is in-flight, a lower cut may cover what there is.
func (l snapshot) finishRound(s *Sidecar, now causal.Now, c *call) {
	m := c.mget
	covered, complete := true, true
	for i := range m.replies {
		if r := &m.replies[i]; !s.covers(&m.covers, &r.record) {
			covered, complete = false, complete && r.status == causal.Stable
		}
	}
	switch {
	case covered, m.rounds > 1 && !m.round.changed, complete && s.cfg.Broken.Has(causal.LateMGetOnce):
		s.deliver(now, c)
	case complete && m.rounds < maxCutRounds:
		s.startRound(now, c, m.allKeys())
	case !l.lowerCut(s, now, c):
		l.restartMGet(s, now, c)
	}
}

// lowerCut starts to read at the lowest cut that the session may read at. It returns false if that is the one already.
func (snapshot) lowerCut(s *Sidecar, now causal.Now, c *call) bool {
	m := c.mget
	if m.least == m.cut {
		return false
	}
	m.cut, m.covers.At, m.rounds = m.least, m.least, 0
	s.forgetReplies(m)
	s.startRound(now, c, m.allKeys())
	return true
}
