package shard

import (
	"github.com/causalstore/causalstore/sidecar/causal"
)

// admits reports whether a message may be handled by the exclusions of its sender (PROTOCOL EXC-1).
// The first one with others than the shard applies makes it apply these. If the data center of the shard is among them,
// what it holds may lack what was completed without it: it withdraws.
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
	case theirs.Of(self) > active.Of(self) && !s.keepsByMutation(active.Of(self)):
		s.withdraw(now, active.With(theirs))
	case s.withdrawal != nil:
		s.exclusion = active.With(theirs)
		s.withdrawal.begin(now)
	case s.serving != nil:
		s.serving.ApplyExclusions(theirs)
	case s.inquiry != nil: // the storage is empty, and nothing was done with it; the start makes them durable
		s.exclusion = active.With(theirs)
	}
	return false // it is sent again
}

// keepsByMutation reports whether a mutation makes the shard keep its data at the next exclusion of its data center, of which
// it applies n.
func (s *Shard) keepsByMutation(n uint32) bool {
	return s.past.Broken.Has(causal.ExcludedKeepsData) || n > 0 && s.past.Broken.Has(causal.ExcludedOnce)
}

// exclusions returns what the shard applies.
func (s *Shard) exclusions() causal.Exclusions {
	if s.serving != nil && !s.excluded {
		return s.serving.Exclusions()
	}
	return s.exclusion
}

// withdraw makes the shard apply exclusions of which one is of its data center.
func (s *Shard) withdraw(now causal.Now, x causal.Exclusions) {
	s.exclusion, s.excluded = x, s.serving != nil
	if s.inquiry != nil && s.past.Loss == NoLoss || s.past.Broken.Has(causal.EmptiesUnasked) { // it is empty
		s.inquiry = nil
		s.beginAgain(LossFound)
		return
	}
	if s.withdrawal == nil {
		s.withdrawal = &withdrawal{}
	}
	s.withdrawal.excluded = true
	s.withdrawal.begin(now)
}

// keepsData reports whether a person has said that the data here count though the data center was excluded. They do not
// if some are lost.
func (s *Shard) keepsData() bool {
	n := s.exclusion.Of(s.self.DC)
	return s.withdrawal.excluded && (s.past.Loss == NoLoss || s.past.Loss == LossKept) && n > 0 &&
		s.withdrawal.old == nil && s.topo.DCs[s.self.DC].KeepsData == int(n)
}
