package shard

import (
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// admits reports whether a message may be handled by the exclusions of its sender (PROTOCOL, Excluded data centers).
// The first one with others than the shard goes by makes it go by these. If the data center of the shard is among them,
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
	case theirs.Of(self) > active.Of(self) && !s.past.Broken.Has(causal.ExcludedKeepsData):
		s.withdraw(now, active.With(theirs))
	case s.withdrawal != nil:
		s.withdraw(now, active.With(theirs))
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

// withdrawal is what a shard does whose data center was excluded: it keeps what it has and answers nothing, until for
// each of its slots a shard of another ring has said that it serves, has all data, and goes by the same exclusions.
// Only then it begins again with nothing.
//
// It is not durable. After a restart the shard goes by what it went by before, so it answers nobody who goes by the
// exclusion, until it hears of that again.
type withdrawal struct {
	old    *oldCopy // nil: its data center was excluded
	since  int64    // monotonic
	round  uint64
	until  int64 // when the round ends
	askAt  int64
	hasAll map[topology.Node]bool // the shards of other rings that have said so in this round
}

const (
	// copyRound is how long the word of another shard that it has its data counts at most.
	copyRound = 2 * time.Second
	// copyQueryInterval is how often a shard is asked that has not answered.
	copyQueryInterval = 250 * time.Millisecond
	// keepAfter is how long a shard whose data are to count tries to find another one that has them.
	keepAfter = 5 * time.Second
)

// withdraw makes the shard go by exclusions of which one is of its data center.
func (s *Shard) withdraw(now causal.Now, x causal.Exclusions) {
	s.exclusion, s.excluded = x, s.serving != nil
	if s.inquiry != nil || s.past.Broken.Has(causal.EmptiesUnasked) { // it is empty
		s.inquiry = nil
		s.beginAgain(LossFound)
		return
	}
	w := &withdrawal{since: now.Mono}
	if s.withdrawal != nil {
		w.round, w.old = s.withdrawal.round, s.withdrawal.old
	}
	s.withdrawal = w
}

// beginAgain ends a withdrawal: what an earlier backfill has brought is of no use either, since that was under an
// earlier exclusion.
func (s *Shard) beginAgain(l Loss) {
	s.noteLoss()
	s.past.Loss, s.withdrawal = l, nil
}

// askForCopies asks the shards of other rings whether they have the data.
func (s *Shard) askForCopies(now causal.Now) {
	w := s.withdrawal
	if now.Mono >= w.until {
		if s.keepsData() && now.Mono-w.since >= int64(keepAfter) {
			s.beginAgain(LossKept)
			return
		}
		w.round, w.until, w.askAt, w.hasAll = w.round+1, now.Mono+int64(copyRound), now.Mono, map[topology.Node]bool{}
	}
	if now.Mono < w.askAt {
		return
	}
	w.askAt = now.Mono + int64(copyQueryInterval)
	s.out.SetExclusions(s.exclusions())
	for _, n := range s.others() {
		if !w.hasAll[n] {
			s.out.Send(causal.PastQuery{ID: s.copyQueryID()}.Message(s.self, n))
		}
	}
}

// keepsData reports whether a person has said that the data here count though the data center was excluded.
func (s *Shard) keepsData() bool {
	n := s.exclusion.Of(s.self.DC)
	return n > 0 && s.withdrawal.old == nil && s.topo.DCs[s.self.DC].KeepsData == int(n)
}

// copyQueryID returns an ID that no start and no other round has.
func (s *Shard) copyQueryID() uint64 { return s.past.ID + s.withdrawal.round*nextInquiry }

// others returns the shards of other rings that own slots of this one.
func (s *Shard) others() (nodes []topology.Node) {
	known := map[topology.Node]bool{}
	s.eachOwned(func(slot topology.Slot) bool {
		for r := range s.topo.Rings {
			n := s.topo.Owner(topology.RingID(r), slot)
			if n.DC != s.self.DC && topology.RingID(r) != s.topo.RingOf(s.self.DC) && !known[n] {
				known[n] = true
				nodes = append(nodes, n)
			}
		}
		return true
	})
	return nodes
}

// eachOwned calls f with each slot that the shard owns, under the old slot map or the new one, until f returns false.
// It reports whether f never did.
func (s *Shard) eachOwned(f func(topology.Slot) bool) bool {
	ring := s.topo.RingOf(s.self.DC)
	before := s.topo.WithOldMaps(topology.RingsOf(ring))
	for slot := range topology.Slot(topology.Slots) {
		if (s.topo.Owner(ring, slot) == s.self || before.Owner(ring, slot) == s.self) && !f(slot) {
			return false
		}
	}
	return true
}

// noteCopy takes the word of a shard of another ring that it has all of its data, under the exclusions by which this
// one goes.
func (s *Shard) noteCopy(now causal.Now, m *causal.Message) {
	w, r, from := s.withdrawal, m.PastReply(), m.From
	if w == nil || !r.HasAll || r.ID != s.copyQueryID() || now.Mono >= w.until || int(from.DC) >= len(s.topo.DCs) {
		return
	}
	if r.Map != s.topo.Map(s.topo.RingOf(from.DC)) || !m.Exclusions().Covers(s.exclusion) {
		return
	}
	if w.hasAll[from] = true; len(s.withoutCopy()) == 0 {
		s.beginAgain(LossFound)
	}
}

// withoutCopy returns the shards of other rings that have not said that they have all data, of the slots for which none
// has.
func (s *Shard) withoutCopy() (missing []topology.Node) {
	known := map[topology.Node]bool{}
	ring := s.topo.RingOf(s.self.DC)
	s.eachOwned(func(slot topology.Slot) bool {
		var lacking []topology.Node
		for r := range s.topo.Rings {
			if topology.RingID(r) == ring {
				continue
			}
			n := s.topo.Owner(topology.RingID(r), slot)
			if s.withdrawal.hasAll[n] {
				return true
			}
			lacking = append(lacking, n)
		}
		for _, n := range lacking {
			if !known[n] {
				known[n] = true
				missing = append(missing, n)
			}
		}
		return true
	})
	return missing
}

// Withdrawn reports whether the data center of the shard was excluded and the shard keeps its data without answering
// anything, and which shards of other rings have not said that they have all data. Until then it does not begin again.
func (s *Shard) Withdrawn() (withdrawn bool, missing []topology.Node) {
	if s.withdrawal == nil {
		return false, nil
	}
	return true, s.withoutCopy()
}
