package shard

import (
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// withdrawal is what a shard does whose data center was excluded, or whose storage has lost data or is an older copy:
// it keeps what it has and answers nothing, until for each of its slots a shard of another ring has said that it has
// what this one gives up (PROTOCOL EXC-12). Only then it begins again:
//
//   - with nothing, if its data center was excluded, or nothing tells what was lost; another shard has to serve, and
//     have all data;
//   - with all but what was lost, if it is known what that is; another shard has to have that.
//
// That its data center was excluded is not durable. After a restart the shard applies what it applied before, so it
// answers nobody who applies the exclusion, until it hears of that again.
type withdrawal struct {
	excluded bool     // its data center was; else it has lost data
	old      *oldCopy // not nil: its storage is an older copy, so that all of it counts as lost
	since    int64    // monotonic
	round    uint64
	until    int64 // when the round ends
	askAt    int64
	words    map[topology.Node]causal.PastReply // of shards of other rings, in this round
}

const (
	// copyRound is how long the word of another shard that it has its data counts at most.
	copyRound = 2 * time.Second
	// copyQueryInterval is how often a shard is asked that has not answered.
	copyQueryInterval = 250 * time.Millisecond
	// keepAfter is how long a shard whose data are to count tries to find another one that has them.
	keepAfter = 5 * time.Second
)

// begin makes the words of others count no more.
func (w *withdrawal) begin(now causal.Now) { w.since, w.until, w.words = now.Mono, 0, nil }

// givesAllUp reports whether all data count as lost, whatever the storage says that it has lost.
func (w *withdrawal) givesAllUp() bool { return w.excluded || w.old != nil }

// keepDamaged makes a shard that has lost data withdraw, if another ring may have them.
func (s *Shard) keepDamaged() {
	if len(s.topo.Rings) > 1 && !s.past.Broken.Has(causal.EmptiesDamaged) {
		s.withdrawal = &withdrawal{}
	}
}

// beginAgain ends a withdrawal. If all data count as lost, what an earlier backfill has brought is of no use either:
// that may be from before an exclusion.
func (s *Shard) beginAgain(l Loss) {
	s.withdrawal = nil
	if l != LossPartial {
		s.noteLoss()
		s.past.Loss = l
	}
}

// askForCopies asks the shards of other rings what they have.
func (s *Shard) askForCopies(now causal.Now) {
	w := s.withdrawal
	if now.Mono >= w.until {
		if s.keepsData() && now.Mono-w.since >= int64(keepAfter) {
			s.beginAgain(LossKept)
			return
		}
		w.round, w.until, w.askAt, w.words = w.round+1, now.Mono+int64(copyRound), now.Mono,
			map[topology.Node]causal.PastReply{}
	}
	if now.Mono < w.askAt {
		return
	}
	w.askAt = now.Mono + int64(copyQueryInterval)
	s.out.SetExclusions(s.exclusions())
	for _, n := range s.others() {
		if !w.words[n].HasAll {
			s.out.Send(causal.PastQuery{ID: s.copyQueryID()}.Message(s.self, n))
		}
	}
}

// copyQueryID returns an ID that no start and no other round has.
func (s *Shard) copyQueryID() uint64 { return s.past.ID + s.withdrawal.round*nextInquiry }

// others returns the shards of other rings that own slots of this one.
func (s *Shard) others() (nodes []topology.Node) {
	known := map[topology.Node]bool{}
	s.eachOwned(func(slot topology.Slot) bool {
		s.eachOwner(slot, func(n topology.Node, _ topology.MapID) bool {
			if !known[n] {
				known[n] = true
				nodes = append(nodes, n)
			}
			return true
		})
		return true
	})
	return nodes
}

// eachOwned calls f with each slot that the shard owns, under the old slot map or the new one, until f returns false.
// It reports whether f never did.
func (s *Shard) eachOwned(f func(topology.Slot) bool) bool {
	ring := s.topo.RingOf(s.self.DC)
	before := s.withOldMap(ring)
	for slot := range topology.Slot(topology.Slots) {
		if (s.topo.Owner(ring, slot) == s.self || before.Owner(ring, slot) == s.self) && !f(slot) {
			return false
		}
	}
	return true
}

// withOldMap returns the topology with the old map of a ring. It is asked for each slot, and what a topology has to
// assign for it takes long.
func (s *Shard) withOldMap(r topology.RingID) *topology.Topology {
	if s.oldMapsOf != s.topo {
		s.oldMapsOf, s.oldMaps = s.topo, make([]*topology.Topology, len(s.topo.Rings))
	}
	if s.oldMaps[r] == nil {
		s.oldMaps[r] = s.topo.WithOldMaps(topology.RingsOf(r))
	}
	return s.oldMaps[r]
}

// eachOwner calls f with each shard of another ring that owns a slot, under the old slot map of its ring or the new
// one, until f returns false. It reports whether f never did.
func (s *Shard) eachOwner(slot topology.Slot, f func(topology.Node, topology.MapID) bool) bool {
	own := s.topo.RingOf(s.self.DC)
	for r := range topology.RingID(len(s.topo.Rings)) {
		if r == own {
			continue
		}
		before := s.withOldMap(r)
		if !f(s.topo.Owner(r, slot), s.topo.Map(r)) || before != s.topo && !f(before.Owner(r, slot), before.Map(r)) {
			return false
		}
	}
	return true
}

// noteCopy takes the word of a shard of another ring on what it has, under the exclusions by which this one goes.
func (s *Shard) noteCopy(now causal.Now, m *causal.Message) {
	w, r, from := s.withdrawal, m.PastReply(), m.From
	if w == nil || r.ID != s.copyQueryID() || now.Mono >= w.until || !m.Exclusions().Covers(s.exclusion) {
		return
	}
	if w.words[from] = r; len(s.withoutCopy()) > 0 {
		return
	}
	if s.past.Loss == LossPartial && !w.givesAllUp() {
		s.beginAgain(LossPartial)
	} else {
		s.beginAgain(LossFound)
	}
}

// suffices reports whether a shard has what this one gives up, by its word.
func (s *Shard) suffices(word causal.PastReply) bool {
	if word.HasAll {
		return true
	}
	if !word.Vouches || s.past.Loss != LossPartial || s.withdrawal.givesAllUp() {
		return false
	}
	return word.Accepted || len(word.Lacks.Overlap(s.past.Missing)) == 0
}

// refuse tells a shard of another ring that gets back what it has lost that this one has not got it.
func (s *Shard) refuse(m *causal.Message) {
	if s.withdrawal == nil || s.withdrawal.excluded || m.From.Part != topology.Middleman {
		return
	}
	if m.Kind == causal.KindGet {
		g := m.Get()
		s.out.Send(causal.GetReply{ID: g.ID, Ring: s.topo.RingOf(s.self.DC), Key: g.Key,
			Err: causal.ErrDataLost}.Message(s.self, m.From))
		return
	}
	r := causal.ScanReply{ID: m.Scan().ID, Map: s.servedMap(), Err: causal.ErrDataLost}
	if s.past.Loss == LossPartial && s.withdrawal.old == nil {
		r.Lacks = s.past.Missing
	}
	s.out.Send(r.Message(s.self, m.From))
}

// withoutCopy returns the shards of other rings that have not said that they have what this one gives up, of the slots
// for which none has.
func (s *Shard) withoutCopy() (missing []topology.Node) {
	known := map[topology.Node]bool{}
	s.eachOwned(func(slot topology.Slot) bool {
		var lacking []topology.Node
		if !s.eachOwner(slot, func(n topology.Node, id topology.MapID) bool {
			lacking = append(lacking, n)
			word := s.withdrawal.words[n]
			return word.Map != id || !s.suffices(word)
		}) {
			return true
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

// Withdrawn is what a shard tells that keeps what it has without answering anything.
type Withdrawn struct {
	// Excluded says that its data center was excluded. Else it has lost data.
	Excluded bool
	// OldCopy says that its storage is an older copy, and KnownTo which coordinator remembers more.
	OldCopy bool
	KnownTo topology.Node
	// Without are shards of other rings that have not said that they have all data, or what was lost. Until then it
	// does not begin again.
	Without []topology.Node
	// Missing are the keys that were lost, if that is known.
	Missing causal.KeyRanges
	// Nowhere are those of them that each shard that has told what it lacks has lost, too.
	Nowhere causal.KeyRanges
}

// Withdrawn reports whether the shard has withdrawn.
func (s *Shard) Withdrawn() (w Withdrawn, ok bool) {
	if s.withdrawal == nil {
		return w, false
	}
	w = Withdrawn{Excluded: s.withdrawal.excluded, Without: s.withoutCopy()}
	w.OldCopy, w.KnownTo = s.oldCopy()
	if s.past.Loss == LossPartial && !s.withdrawal.givesAllUp() {
		w.Missing = s.past.Missing
		for _, n := range w.Without {
			if word := s.withdrawal.words[n]; word.Vouches {
				for _, r := range w.Missing.Overlap(word.Lacks) {
					w.Nowhere = w.Nowhere.With(r)
				}
			}
		}
	}
	return w, true
}
