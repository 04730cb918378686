package causal

import "github.com/causalstore/causalstore/sidecar/topology"

// In mode Snapshot unbound sessions read at a cut: everything at or below it is complete, so nothing that they read binds
// them. The cut moves in steps, so that what a cache fetches for one step serves all of it; and the caches are told of it a
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
		s.cut = s.cuts[n].cut
		n++
	}
	s.cuts = s.cuts[n:]
}

// readsNewest reports whether a call reads the newest version there is, and not that at the cut.
func (s *Sidecar) readsNewest(now Now, c *call) bool {
	return c.op.Latest || !s.unbound(c.s) || !s.cutServes(now)
}

// cutServes reports whether there is a cut to read at. One that stays behind, since some data centre is away, would keep
// all that happens elsewhere from being seen.
func (s *Sidecar) cutServes(now Now) bool {
	return s.cut != 0 && now.WallMs-s.cut.WallMs() <= (s.cfg.MaxSnapshotLag+s.cfg.SnapshotEvery).Milliseconds()
}

// seenBy is what a session tells a middleman. A bound one: puts older than this may have to be seen. To an unbound one all
// that it may have to see is complete; if it reads older versions, they must not be older than this. Own writes above the
// cut are laid over what is read.
func (s *Sidecar) seenBy(ss *session, older bool) HLC {
	if !older && s.unbound(ss) {
		return 0
	}
	return ss.seen
}
