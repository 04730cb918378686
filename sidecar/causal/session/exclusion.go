package session

import "github.com/causalstore/causalstore/sidecar/causal"

// applyExclusions applies further exclusions of data centers (PROTOCOL EXC): from here on the
// sidecar's messages say so, and nobody answers them with what shards of these held before.
func (s *Sidecar) applyExclusions(x causal.Exclusions) {
	if !s.exclusions.Covers(x) && !s.cfg.Broken.Has(causal.NearExcludedStay) {
		s.near.EndAll() // some may be of what these shards held
	}
	s.exclusions = s.exclusions.With(x)
	s.SetExclusions(s.exclusions)
}
