package shard

import (
	"slices"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// oldCopy is what shows that a storage is an older copy: a coordinator remembers that it had come further.
type oldCopy struct {
	coordinator topology.Node
	remembers   causal.Reach
}

// leaveOldCopy ends what serves if its storage turns out to be an older copy (PROTOCOL OLD).
// What it has is kept until another ring is known to have all data, as after an exclusion: a coordinator may be wrong,
// or forged. In a store with one ring nobody else has the data, so they stay, and a person decides. What a backfill has
// brought is copied again.
func (s *Shard) leaveOldCopy(now causal.Now) {
	isOld, coordinator, remembers := s.serving.IsOldCopy()
	if !isOld || s.excluded {
		return
	}
	s.excluded = true
	if s.past.Loss == LossCleared || len(s.topo.Rings) == 1 {
		s.beginAgain(LossFound)
		s.knownBy = []topology.Node{coordinator}
		return
	}
	s.withdrawal = &withdrawal{old: &oldCopy{coordinator, remembers}}
	s.withdrawal.begin(now)
}

// oldCopy reports whether the shard has withdrawn because its storage is an older copy, and which coordinator remembers
// more.
func (s *Shard) oldCopy() (isOld bool, coordinator topology.Node) {
	if s.withdrawal == nil || s.withdrawal.old == nil {
		return false, coordinator
	}
	return true, s.withdrawal.old.coordinator
}

// beginsAnew reports whether what the storage holds, or is about to hold, has nothing to do with what it held before:
// it has lost that, or a person has decided what counts, or the shard was not in its ring.
func (s *Shard) beginsAnew() bool {
	switch s.past.Loss {
	case LossFound, LossKept, LossAccepted:
		return true
	}
	if s.mover == nil {
		return false
	}
	ring := s.topo.RingOf(s.self.DC)
	return !slices.Contains(s.topo.WithOldMaps(topology.RingsOf(ring)).RingMiddlemen(ring), s.self)
}
