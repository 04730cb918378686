package causal

import "github.com/causalstore/causalstore/sidecar/topology"

// In mode Snapshot sessions read at a cut: everything at or below it is complete, so nothing that they read binds them. One
// that has seen more, and perhaps was bound by it, reads up to that; it sees nothing newer, so the cut soon catches up. The
// cut moves in steps, so that what a cache fetches for one step serves all of it; and the caches are told of it a
// little before it is used, so that they can fetch what it outdates.

// nextCut is a cut that the caches have been told of.
type nextCut struct {
	cut HLC
	at  int64 // when it is used
}

// advanceCut moves the cut with the vectors and the time.
func (s *Sidecar) advanceCut(now Now) {
	if !s.cfg.Snapshot {
		return
	}
	cut, step := s.known.MinSV(), HLCAt(s.cfg.SnapshotEvery.Milliseconds())
	s.cutBehind = s.known.MaxSV().WallMs()-s.cut.WallMs() > maxCutAgeMs
	if step > 0 {
		cut -= cut % step
	}
	if cut > s.announced {
		s.announced = cut
		s.cuts = append(s.cuts, nextCut{cut, now.Mono + int64(s.cfg.SnapshotAhead)})
		for i := range s.cfg.Topology.DCs[s.cfg.Self.DC].Caches {
			if s.cfg.UseCache && s.cfg.SnapshotAhead > 0 {
				s.send(Message{Kind: KindCut, From: s.cfg.Self, Cut: cut,
					To: topology.Node{DC: s.cfg.Self.DC, Part: topology.Cache, Index: uint64(i)}})
			}
		}
	}
	n := 0
	for n < len(s.cuts) && s.cuts[n].at <= now.Mono {
		s.cut, s.cutAt = s.cuts[n].cut, now.Mono
		n++
	}
	s.cuts = s.cuts[n:]
}

// readsNewest reports whether a call reads the newest version there is, and not that at the cut.
func (s *Sidecar) readsNewest(now Now, c *call) bool {
	return c.op.Latest || !s.cutServes(now)
}

// maxCutAgeMs is how far the cut may be behind the newest that is known to be complete of some origin. A coordinator whose
// clock is further behind than it lets others bring it forward would hold it back for ever.
const maxCutAgeMs = 10_000

// cutServes reports whether there is a cut to read at. One that stands, since some data centre is away, or is far behind would keep
// all that happens elsewhere from being seen.
func (s *Sidecar) cutServes(now Now) bool {
	return s.cut != 0 && !s.cutBehind && now.Mono-s.cutAt <= int64(s.cfg.MaxSnapshotLag+s.cfg.SnapshotEvery)
}

// seenBy is what a session tells a middleman: puts at or below this may have to be seen, though they are not complete, and
// older versions than these must not be read. To an unbound session all that it may have to see is complete; only if that is
// above the cut at which it reads, this says so. Own writes above the cut are laid over what is read.
func (s *Sidecar) seenBy(ss *session, older bool) HLC {
	if s.unbound(ss) && (!older || ss.seen <= s.cut) {
		return 0
	}
	return ss.seen
}
