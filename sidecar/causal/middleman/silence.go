package middleman

import (
	"slices"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// adoptableAfter is how long nothing new may have been heard of an origin here before its writes are taken from an
// adopter. Leaders wait longer. So a leader that somebody has taken over cannot write in the name of coordinators that
// are there.
const adoptableAfter = time.Second

// silence knows when something new was last heard of each origin.
type silence struct {
	*shared
	heardAt []int64 // by origin: then, or that of the start
}

func newSilence(s *shared, now causal.Now) silence {
	return silence{shared: s, heardAt: slices.Repeat([]int64{now.Mono}, s.cfg.Topology.Origins()+1)}
}

// noteNews notes of which origins vectors say something new.
func (s *silence) noteNews(now causal.Now, entries []causal.VectorEntry) {
	limit := s.timeLimit(now)
	for i := range entries {
		e := &entries[i]
		for o := e.Origin; o <= max(e.Origin, e.Last) && int(o) < len(s.heardAt); o++ {
			if s.known.IsNews([]causal.VectorEntry{{Origin: o, SV: e.SV, RV: e.RV}}, limit) {
				s.heardAt[o] = now.Mono
			}
		}
	}
}

// isSilent reports whether nothing new was heard of an origin lately.
func (s *silence) isSilent(now causal.Now, o topology.Origin) bool {
	return o > 0 && int(o) < len(s.heardAt) && now.Mono-s.heardAt[o] >= int64(adoptableAfter)
}
