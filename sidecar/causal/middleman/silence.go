package middleman

import (
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// adoptableAfter is how long nothing new may have been heard of an origin here before its writes are taken from an
// adopter. Leaders wait longer. So a leader that somebody has taken over cannot write in the name of coordinators that
// are there.
const adoptableAfter = time.Second

// noteNews notes of which origins vectors say something new.
func (m *Middleman) noteNews(now causal.Now, entries []causal.VectorEntry) {
	limit := m.timeLimit(now)
	for i := range entries {
		e := &entries[i]
		for o := e.Origin; o <= max(e.Origin, e.Last) && int(o) < len(m.heardAt); o++ {
			if m.known.IsNews([]causal.VectorEntry{{Origin: o, SV: e.SV, RV: e.RV}}, limit) {
				m.heardAt[o] = now.Mono
			}
		}
	}
}

// isSilent reports whether nothing new was heard of an origin lately.
func (m *Middleman) isSilent(now causal.Now, o topology.Origin) bool {
	return o > 0 && int(o) < len(m.heardAt) && now.Mono-m.heardAt[o] >= int64(adoptableAfter)
}
