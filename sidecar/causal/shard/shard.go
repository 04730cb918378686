// Package shard is the state machine of a middleman's process: the middleman that serves, and while its ring is
// resharded the mover that brings it to the new slot map (PROTOCOL RSH).
//
// It decides which topology is served, whether anything is, and with which knowledge of its past a middleman starts.
// The host carries the decisions out: it stops a middleman, waits until the storage is done with it, and starts the
// next one. The simulator and package node host the same code.
package shard

import (
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/middleman"
	"github.com/causalstore/causalstore/topology"
)

// Shard is the state machine of one middleman's process.
//
// Invariant: a middleman serves only under the topology that ServingTopology returns, and never while the storage may
// still carry out what an earlier one has asked for.
type Shard struct {
	self  topology.Node
	topo  *topology.Topology // as configured
	mover *Mover             // nil unless the ring is being resharded

	serving  *middleman.Middleman // nil while nothing is served
	view     *topology.Topology   // under which serving serves
	draining bool                 // a middleman was stopped, and storage may still carry out its requests
	planned  bool                 // a middleman is about to start

	past Past
	// refilled is the last backfill that has ended, if any has.
	refilled *middleman.BackfillProgress
	inquiry  *inquiry        // nil unless the storage is empty and it is not known yet whether it should be
	emptied  bool            // the storage was empty, and the shard was heard of
	knownBy  []topology.Node // coordinators that have acknowledgements of what the storage lost
	out      causal.Outbox

	limit     causal.TimeLimit
	known     causal.Exclusions // that the configuration declares
	exclusion causal.Exclusions // what it applies while none serves, and from the next start on
	// the middleman that serves has data that count no more: its data center was excluded, or they are an old copy
	excluded bool
	// withdrawal is not nil while its data center is excluded, or its storage has lost data or is an older copy, and no
	// other ring is known to have them.
	withdrawal *withdrawal

	// IsCurrent is asked after every step, so the comparison of view with a topology is kept.
	compared *topology.Topology
	matches  bool
	// oldMaps are topologies with the old map of a ring, by ring, of the topology oldMapsOf.
	oldMapsOf *topology.Topology
	oldMaps   []*topology.Topology
}

// New returns a Shard that serves nothing yet. The mover is nil unless NeedsMover.
func New(t *topology.Topology, self topology.Node, mover *Mover, past Past) *Shard {
	s := &Shard{self: self, topo: t, mover: mover, past: past, known: causal.ExclusionsOf(t)}
	if needsInquiry(t, self, mover, past) {
		s.inquiry = newInquiry(past.ID)
	}
	if past.Loss == LossFound || past.Loss == LossPartial {
		s.keepDamaged()
	}
	return s
}

// NeedsMover reports whether the ring of a middleman is being resharded in t.
func NeedsMover(t *topology.Topology, self topology.Node) bool {
	return t.Resharding().Has(t.RingOf(self.DC))
}

// SetTopology takes a topology that differs from the one in use in the numbers of coordinators, shards and caches only,
// and the mover for it. The resharding before must be done (IsResharding).
func (s *Shard) SetTopology(t *topology.Topology, mover *Mover) {
	s.restartInquiryIfCoordinatorsLeft(t)
	s.topo, s.mover, s.known = t, mover, causal.ExclusionsOf(t)
	if s.serving != nil {
		s.serving.SetCoordinators(t)
	}
}

// IsResharding reports whether a resharding is not done here yet.
func (s *Shard) IsResharding() bool { return s.mover != nil && !s.mover.IsDone() }

// Mover returns what moves slots; nil if the ring is not being resharded.
func (s *Shard) Mover() *Mover { return s.mover }

// Backfill returns the progress of the backfill, or the last one that has ended here; false if there was none.
func (s *Shard) Backfill() (p middleman.BackfillProgress, ok bool) {
	if s.serving != nil {
		if p, ok = s.serving.Backfill(); ok {
			return p, true
		}
	}
	if s.refilled != nil {
		p = *s.refilled
	}
	return p, s.refilled != nil
}

// Serving returns the middleman that serves; nil if none does.
func (s *Shard) Serving() *middleman.Middleman { return s.serving }

// View returns the topology under which the middleman serves; nil if none does.
func (s *Shard) View() *topology.Topology { return s.view }

// servingTopology returns the topology under which a middleman is to serve now, or false if none is to.
func (s *Shard) servingTopology() (*topology.Topology, bool) {
	switch {
	case s.inquiry != nil || s.withdrawal != nil:
		return nil, false
	}
	return s.mapToServe()
}

// mapToServe returns the topology under which a middleman is to serve that has all data, or false if none is to.
func (s *Shard) mapToServe() (*topology.Topology, bool) {
	if s.mover == nil {
		return s.topo, true
	}
	return s.mover.ServingTopology()
}

// IsCurrent reports whether what serves is what is to serve. If it is not, the host calls Stop, waits until the storage
// has carried out everything that the stopped middleman asked for, calls Drained, and then Start if PlanStart says so.
func (s *Shard) IsCurrent() bool {
	view, ok := s.servingTopology()
	if !ok || s.serving == nil {
		return ok == (s.serving != nil)
	}
	if s.serving.HasRefilled() || s.serving.Surpassed() > 0 || s.excluded {
		return false
	}
	if s.compared != view {
		ring := s.topo.RingOf(s.self.DC)
		s.compared, s.matches = view, s.view.Map(ring) == view.Map(ring) && s.view.CacheLayout() == view.CacheLayout()
	}
	return s.matches
}

// Stop ends the middleman that serves, if one does: it gets no further message.
func (s *Shard) Stop() {
	s.planned = false
	if s.serving != nil {
		if n := s.serving.Surpassed(); n > 0 {
			s.past.Starts = max(s.past.Starts, n)
			if s.past.Loss == LossPartial { // it is an older copy: nothing in it is known to be as it was acknowledged
				s.past.Loss = LossFound
				s.keepDamaged()
			}
		}
		s.exclusion = s.exclusion.With(s.serving.Exclusions())
		if s.serving.HasRefilled() && !s.excluded {
			s.past.Loss, s.knownBy = NoLoss, nil
			if p, ok := s.serving.Backfill(); ok {
				s.refilled = &p
			}
		}
		s.serving, s.view, s.draining = nil, nil, true
	}
}

// Drained reports to the Shard that the storage has carried out, or will never carry out, what the stopped middleman
// asked for.
func (s *Shard) Drained() { s.draining = false }

// History is what storage tells of earlier starts of a middleman.
type History struct {
	// Starts counts them; 0: the storage was never used.
	Starts uint64
	// Caches names the numbers of caches that were known when leases were last waited for.
	Caches topology.CacheLayout
	// Lineage is the durable one, and Position is how far the storage has come.
	Lineage  causal.Lineage
	Position causal.Position
	// Horizon is the durable tombstone horizon.
	Horizon causal.HLC
	// Fences are the durable ones.
	Fences causal.Fences
	// Exclusions are the durable ones.
	Exclusions causal.Exclusions
}

// Start says how a middleman starts.
type Start struct {
	// Config is the given one, completed.
	Config middleman.Config
	// SaveCaches says that Caches must be made durable as History.Caches: at once if Config.Fresh, otherwise when
	// Config.Lease has passed and this middleman still serves.
	SaveCaches bool
	Caches     topology.CacheLayout
	// Clear says that the storage must first be emptied, and it must be durable before that it has lost its data.
	// Metadata stay. After that, Config.Exclusions must be made durable as History.Exclusions, before Loss.
	Clear bool
	// Loss must be durable before the incarnation.
	Loss Loss
}

// PlanStart returns how a middleman is to start, or false if none is to. The caller makes Config.Incarnation durable as
// History.Starts, together with Config.Lineage, and then starts the middleman. Until then slots are not handed over
// either: they might be written once more.
func (s *Shard) PlanStart(now causal.Now, cfg middleman.Config, h History) (Start, bool) {
	view, ok := s.servingTopology()
	if !ok || s.draining || s.serving != nil {
		return Start{}, false
	}
	s.planned = true
	lineage := h.Lineage
	if h.Starts == 0 || s.beginsAnew() {
		lineage = causal.Lineage{}
	}
	cfg.Emptied = s.emptied && h.Starts == 0 && !s.isLost()
	h.Starts = max(h.Starts, s.past.Starts, lineage.Last())
	cfg.Topology, cfg.Incarnation, cfg.Horizon, cfg.Fences, cfg.DataLost = view, s.nextIncarnation(now, h.Starts),
		h.Horizon, h.Fences, s.isLost()
	cfg.Lineage, cfg.Changes = lineage.With(cfg.Incarnation, h.Position), h.Position.Changes
	cfg.DataKept = s.past.Loss == LossKept || s.past.Loss == LossAccepted && len(view.Rings) == 1
	if s.past.Loss.hasRest() {
		cfg.Missing, cfg.AcceptLoss = append(causal.KeyRanges{}, s.past.Missing...), s.past.Loss == LossAccepted
		cfg.DataKept = cfg.DataKept || len(cfg.Missing) == 0
	}
	cfg.Exclusions = s.exclusion.With(h.Exclusions)
	// For slots that are taken in, caches may hold what they got from the middleman that had them before.
	cfg.Fresh = h.Starts == 0 && s.mover == nil && !cfg.DataLost
	changed := h.Caches != view.CacheLayout()
	cfg.Inherited = changed && !cfg.Fresh || s.mover != nil && s.mover.TakesSlots()
	start := Start{Config: cfg, SaveCaches: changed, Caches: view.CacheLayout(), Loss: s.past.Loss}
	if s.past.Loss == LossFound && len(view.Rings) > 1 {
		// otherwise nobody has the data, and what is left is all there is
		start.Clear, start.Loss = true, LossCleared
	}
	return start, true
}

// Start makes m, which was made from PlanStart's Config, the middleman that serves.
func (s *Shard) Start(m *middleman.Middleman, p Start) {
	s.serving, s.view, s.compared, s.planned = m, p.Config.Topology, nil, false
	s.past.Loss, s.excluded = p.Loss, false
	s.serving.SetCoordinators(s.topo)
}

// Step handles one message.
func (s *Shard) Step(now causal.Now, msg *causal.Message) {
	if !s.admits(now, msg) {
		return
	}
	switch msg.Kind {
	case causal.KindPastQuery:
		if from := msg.From; from.Part == topology.Coordinator && int(from.DC) < len(s.topo.DCs) &&
			from.Index < topology.MaxCoordinators {
			reply := s.handlePastQuery(msg.From)
			reply.ID = msg.PastQuery().ID
			s.out.Send(reply.Message(s.self, msg.From))
		} else if from.Part == topology.Middleman {
			s.out.Send(s.tellCopies(msg.PastQuery().ID).Message(s.self, msg.From))
		}
	case causal.KindPastReply:
		if msg.From.Part == topology.Middleman {
			s.noteCopy(now, msg)
		} else {
			s.handlePastReply(now, msg.From, msg.PastReply())
		}
	case causal.KindPull, causal.KindPulled, causal.KindPong:
		if s.canMove() {
			s.mover.step(now, msg)
		}
	default:
		if s.serving != nil && !s.excluded {
			s.serving.Step(now, msg)
			s.leaveOldCopy(now)
		} else if msg.Kind == causal.KindScan || msg.Kind == causal.KindGet {
			s.refuse(msg)
		}
	}
}

// RefuseRead answers a Get or a Fill without reading: there is no room for the reply.
func (s *Shard) RefuseRead(now causal.Now, msg *causal.Message) {
	if s.serving != nil && !s.excluded && s.admits(now, msg) {
		s.serving.RefuseRead(now, msg)
	}
}

// Tick does what is due.
func (s *Shard) Tick(now causal.Now) {
	if s.serving != nil && !s.excluded {
		s.serving.Tick(now)
	}
	if s.canMove() {
		s.mover.tick(now)
	}
	if s.inquiry != nil {
		s.askPast(now)
	}
	if s.withdrawal != nil {
		s.askForCopies(now)
	}
}

// LinkUp says that a node can be reached again.
func (s *Shard) LinkUp(now causal.Now, n topology.Node) {
	if s.serving != nil {
		s.serving.LinkUp(now, n)
	}
}

// NextTick returns when Tick has something to do next, if no input comes before.
func (s *Shard) NextTick(now causal.Now) int64 {
	next := causal.Never
	if s.serving != nil && !s.excluded {
		next = s.serving.NextTick(now)
	}
	if s.withdrawal != nil {
		next = min(next, s.withdrawal.askAt, s.withdrawal.until)
	}
	if s.canMove() && s.mover.isBusy() {
		next = now.Mono
	}
	if s.inquiry != nil {
		next = min(next, s.inquiry.askAt)
	}
	return next
}

// canMove reports whether slots may be taken or given: not without knowing that the storage has what it should have.
func (s *Shard) canMove() bool {
	return s.mover != nil && s.inquiry == nil && s.withdrawal == nil &&
		(!s.isLost() || s.past.Broken.Has(causal.LostGivesSlots)) &&
		(s.serving == nil || s.serving.IsChecked())
}

// Take appends the messages to be sent to dst and empties the outbox.
func (s *Shard) Take(dst []causal.Message) []causal.Message {
	if s.serving != nil {
		dst = s.serving.Take(dst)
	}
	if s.mover != nil {
		dst = s.mover.Take(dst)
	}
	return s.out.Take(dst)
}

// MoveOps appends the mover's storage requests to dst and empties the list.
func (s *Shard) MoveOps(dst []MoveOp) []MoveOp {
	if !s.canMove() {
		return dst
	}
	if s.serving == nil && !s.draining && !s.planned {
		s.mover.noteStopped()
	}
	return s.mover.takeOps(dst)
}

// NoteWrite is called when a middleman has asked storage for op, and again when that was done: what is copied meanwhile
// must include it.
func (s *Shard) NoteWrite(op middleman.StorageOp) {
	if s.mover != nil && (op.Kind == middleman.StorageWrite || op.Kind == middleman.StorageDelete) {
		s.mover.noteWrite(op.Key)
	}
}
