package shard

import (
	"slices"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// Past is what the storage of a middleman tells of the time before this start.
type Past struct {
	// Starts counts earlier starts of a serving middleman; 0: the storage is empty.
	Starts uint64
	// Loss says what an earlier start has found.
	Loss Loss
	// Missing are the keys that are lost, with LossPartial and LossAccepted.
	Missing causal.KeyRanges
	// HasWritesOf reports whether the storage has ever held a write of an origin. It is called with each query of a
	// coordinator.
	HasWritesOf func(topology.Origin) bool
	// ID differs from that of every other start.
	ID     uint64
	Broken causal.Mutations
}

// Loss is what a storage lacks, as it says itself.
type Loss uint8

// The losses.
const (
	// NoLoss: it has all that the shard has acknowledged.
	NoLoss Loss = iota
	// LossFound: it has lost data, and nothing tells what. What it still holds is of no use if another ring has all
	// data, and kept until then.
	LossFound
	// LossCleared: it has lost data, and what was left has been removed. What it holds now was written or copied since.
	LossCleared
	// LossKept: its data center was excluded, and a person has said that what it holds counts anyway. It lacks
	// what is not complete, and gets that from the coordinators.
	LossKept
	// LossPartial: it has lost the records of Past.Missing. It has all others that the shard has acknowledged.
	LossPartial
	// LossAccepted: as LossPartial, and a person has said that what no other ring has either is given up.
	LossAccepted
	// NumLosses is above all losses that this version knows.
	NumLosses
)

// hasRest reports whether a storage with the loss has all but Past.Missing.
func (l Loss) hasRest() bool { return l == LossPartial || l == LossAccepted }

// inquiry asks the coordinators whether an empty storage had data before. Until all of them have answered, nothing is
// served (PROTOCOL DISK).
type inquiry struct {
	id          uint64
	answered    map[topology.Node]bool
	away        map[topology.DC]uint64 // by data center: coordinators that need not be asked
	incarnation uint64                 // the greatest that a coordinator has heard of
	hadData     []topology.Node        // who know that it had data
	askAt       int64
}

func newInquiry(id uint64) *inquiry {
	return &inquiry{id: id, answered: map[topology.Node]bool{}, away: map[topology.DC]uint64{}}
}

// nextInquiry, added to the ID of an inquiry, gives one that no start has.
const nextInquiry = 1 << 48

// restartInquiryIfCoordinatorsLeft asks again when coordinators have left, because they answer no more. What they knew
// of this shard their leader remembers now, but perhaps it did not yet when it answered.
func (s *Shard) restartInquiryIfCoordinatorsLeft(t *topology.Topology) {
	for dc := range t.DCs {
		if s.inquiry != nil && t.DCs[dc].RunningCoordinators() < s.topo.DCs[dc].RunningCoordinators() {
			incarnation := s.inquiry.incarnation
			s.inquiry = newInquiry(s.inquiry.id + nextInquiry)
			s.inquiry.incarnation = incarnation
			return
		}
	}
}

const pastQueryInterval = 100 * time.Millisecond

// needsInquiry reports whether a storage is empty that should perhaps not be. A middleman that takes its first slots
// over in a resharding has no past.
func needsInquiry(t *topology.Topology, self topology.Node, mover *Mover, p Past) bool {
	if p.Starts > 0 || p.Broken.Has(causal.TrustEmptyStorage) {
		return false
	}
	ring := t.RingOf(self.DC)
	return mover == nil || slices.Contains(t.WithOldMaps(topology.RingsOf(ring)).RingMiddlemen(ring), self)
}

// Unanswered returns the coordinators that have to answer before this shard serves with an empty storage.
func (s *Shard) Unanswered() (nodes []topology.Node) {
	if s.inquiry == nil {
		return nil
	}
	for dc := range s.topo.DCs {
		for i := range s.topo.DCs[dc].RunningCoordinators() {
			n := topology.Node{DC: topology.DC(dc), Part: topology.Coordinator, Index: uint64(i)}
			if !s.inquiry.answered[n] && s.inquiry.away[n.DC]&(1<<i) == 0 {
				nodes = append(nodes, n)
			}
		}
	}
	return nodes
}

// DataLost reports whether the storage has lost its data, and which coordinators know of what it lost, if this start
// has heard them.
func (s *Shard) DataLost() (lost bool, known []topology.Node) {
	if isOld, coordinator := s.oldCopy(); isOld {
		return true, []topology.Node{coordinator}
	}
	return s.isLost(), s.knownBy
}

func (s *Shard) isLost() bool { return s.past.Loss != NoLoss }

func (s *Shard) askPast(now causal.Now) {
	if now.Mono < s.inquiry.askAt {
		return
	}
	s.inquiry.askAt = now.Mono + int64(pastQueryInterval)
	for _, n := range s.Unanswered() {
		s.out.Send(causal.PastQuery{ID: s.inquiry.id}.Message(s.self, n))
	}
}

// handlePastReply takes a coordinator's answer.
func (s *Shard) handlePastReply(now causal.Now, from topology.Node, r causal.PastReply) {
	q := s.inquiry
	if q == nil || r.ID != q.id || from.Part != topology.Coordinator {
		return
	}
	q.answered[from] = true
	if from == s.topo.Leader(from.DC) {
		q.away[from.DC] |= r.Away // only the leader knows
	}
	if causal.IsPlausible(r.Incarnation, causal.IncarnationBits, s.limit.At(now)) {
		q.incarnation = max(q.incarnation, r.Incarnation)
	}
	if r.HadData && !slices.Contains(q.hadData, from) {
		q.hadData = append(q.hadData, from)
	}
	s.finishInquiry()
}

// finishInquiry ends the inquiry once one coordinator knows of data, or all have answered.
func (s *Shard) finishInquiry() {
	q := s.inquiry
	if len(q.hadData) == 0 && len(s.Unanswered()) > 0 {
		return
	}
	s.past.Starts, s.knownBy, s.emptied = q.incarnation, q.hadData, q.incarnation > 0
	if len(q.hadData) > 0 {
		s.noteLoss()
	}
	s.inquiry = nil
}

// noteLoss takes note that the storage is without its data.
func (s *Shard) noteLoss() {
	if s.past.Loss == NoLoss || s.past.Loss == LossPartial {
		s.past.Loss = LossFound
	}
}

// nextIncarnation returns the number of the next start. It is above those that the storage knows of, and no other start
// has it, neither one before a loss, of which the storage does not know any more, nor one on a copy of the storage: it
// is made of the time and a random part.
func (s *Shard) nextIncarnation(now causal.Now, starts uint64) uint64 {
	if s.past.Broken.Has(causal.IncarnationReused) {
		return starts + 1
	}
	random := s.past.ID & (1<<causal.IncarnationBits - 1)
	return max(starts+1+random, uint64(max(now.WallMs, 0))<<causal.IncarnationBits|random)
}

// handlePastQuery tells a coordinator with an empty log what is known here of its writes, and one that is about to
// exclude a data center whether all data are here. A leader publishes SV from its first start on; for another
// coordinator the leader may have published it. An origin of which a log was given up has a past even if nothing was
// written, and all who knew its SV have lost their logs, too: what a log that starts over without knowing writes would
// be refused for good.
func (s *Shard) handlePastQuery(from topology.Node) causal.PastReply {
	o := s.topo.OriginOf(from)
	r := causal.PastReply{HadData: s.past.HasWritesOf(o)}
	if s.serving != nil {
		known := s.serving.Known()
		r.Above = max(known.MaxSV(), s.serving.Horizon())
		r.HadData = r.HadData || s.serving.HasReceivedFrom(o) || s.serving.GaveUpLogOf(o) || from.Index == 0 &&
			known.SV(o) > 0
		r.HasAll, r.Map = s.hasAll(), s.servedMap()
	}
	return r
}

// tellCopies tells a shard of another ring what this one has.
func (s *Shard) tellCopies(id uint64) causal.PastReply {
	r := causal.PastReply{ID: id, HasAll: s.hasAll(), Map: s.servedMap()}
	if s.past.Loss.hasRest() && !s.excluded && (s.withdrawal == nil || !s.withdrawal.givesAllUp()) &&
		(s.serving == nil || s.serving.IsChecked()) {
		r.Vouches, r.Lacks, r.Accepted = true, s.past.Missing, s.past.Loss == LossAccepted
		if s.past.Broken.Has(causal.VouchesForLost) {
			r.Lacks = nil
		}
	}
	return r
}

// hasAll reports whether the shard serves and has all that its ring has acknowledged of its slots, by servedMap.
func (s *Shard) hasAll() bool {
	return s.serving != nil && !s.isLost() && !s.excluded && s.serving.IsChecked()
}

// servedMap returns the slot map under which the shard serves, or would if it had all data; 0: there is none.
func (s *Shard) servedMap() topology.MapID {
	view, ok := s.view, s.serving != nil
	if !ok && s.withdrawal != nil {
		view, ok = s.mapToServe()
	}
	if !ok {
		return 0
	}
	return view.Map(s.topo.RingOf(s.self.DC))
}
