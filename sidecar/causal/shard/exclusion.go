package shard

import (
	"github.com/causalstore/causalstore/sidecar/causal"
)

// admits reports whether a message may be handled by the exclusions of its sender (PROTOCOL, Excluded data centers). The first one with others
// than the shard goes by makes it go by these. If the data center of the shard is among them, what it holds may lack what was completed
// without it: it begins again as one that has lost its data.
func (s *Shard) admits(now causal.Now, m *causal.Message) bool {
	active := s.exclusions()
	s.out.SetExclusions(active)
	if s.mover != nil {
		s.mover.SetExclusions(active)
	}
	switch active.Check(m, s.known, s.past.Broken) {
	case causal.ExclusionsRefuse:
		return false
	case causal.ExclusionsAdmit:
		return true
	}
	if s.planned && s.serving == nil {
		return false // the start that is under way was decided without them
	}
	theirs := m.Exclusions()
	switch self := s.self.DC; {
	case theirs.Of(self) > active.Of(self) && !s.past.Broken.Has(causal.ExcludedKeepsData):
		s.noteLoss(now)
		s.past.Loss = LossFound // also if it was about to get its data back: that was under an earlier exclusion
		s.exclusion, s.excluded = active.With(theirs), s.serving != nil
		s.inquiry = nil
	case s.serving != nil:
		s.serving.GoBy(theirs)
	case s.inquiry != nil: // the storage is empty, and nothing was done with it; the start makes them durable
		s.exclusion = active.With(theirs)
	}
	return false // it is sent again
}

// exclusions returns what the shard goes by.
func (s *Shard) exclusions() causal.Exclusions {
	if s.serving != nil && !s.excluded {
		return s.serving.Exclusions()
	}
	return s.exclusion
}
