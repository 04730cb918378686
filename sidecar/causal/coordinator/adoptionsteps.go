package coordinator

import (
	"slices"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// The steps of an adoption: a write whose whole past was collected is put in all rings, and the shards are told how far
// its past has come there.

// tick does what is due for the writes of a silent origin.
func (a *adoption) tick(now causal.Now) {
	a.ask(now)
	if len(a.order) == 0 {
		return
	}
	a.findChains()
	a.settle(func(*adoptedWrite) bool { return true })
	for _, w := range a.order {
		w.adoptable = w.settled
	}
	for r := range topology.RingID(len(a.cfg.Topology.Rings)) {
		a.treatExcludedAsReceived(r)
		a.sendPuts(now, r)
		if a.hasIn(r, causal.AdoptionReceived) {
			a.settle(func(w *adoptedWrite) bool {
				return w.adoptable && (w.states[r] >= causal.AdoptionReceived ||
					a.cfg.Broken.Has(causal.AdoptUnreceived))
			})
			a.sendSteps(now, r, causal.AdoptionReceived, causal.AdoptionReceived)
		}
		if a.hasIn(r, causal.AdoptionConfirmed) {
			a.settle(func(w *adoptedWrite) bool {
				return w.adoptable && w.states[r] >= causal.AdoptionConfirmed
			})
			a.treatExcludedAsClean(r)
			a.sendSteps(now, r, causal.AdoptionConfirmed, causal.AdoptionConfirmed)
		}
	}
	for _, w := range a.order {
		w.settled = w.isCleanEverywhere()
	}
	for r := range topology.RingID(len(a.cfg.Topology.Rings)) {
		a.sendSteps(now, r, causal.AdoptionClean, causal.AdoptionComplete)
	}
}

// noteStart notes the incarnation of a shard, and reports whether it is the newest one. Another one has forgotten what
// was staged and which writes are complete, so it gets all of it again.
func (a *adoption) noteStart(n topology.Node, incarnation uint64) bool {
	if n.Part != topology.Middleman {
		return false
	}
	s := a.source(n)
	switch {
	case incarnation < s.incarnation:
		return false
	case incarnation == s.incarnation:
		return true
	case s.incarnation != 0:
		a.forgetStates(n)
	}
	s.incarnation, s.after, s.askAt = incarnation, 0, 0
	return true
}

// forgetStates forgets what is known of the writes at a shard.
func (a *adoption) forgetStates(shard topology.Node) {
	ring := a.cfg.Topology.RingOf(shard.DC)
	for _, w := range a.order {
		if a.cfg.Topology.Owner(ring, w.slot()) == shard {
			w.states[ring], w.sent[ring] = causal.AdoptionUnknown, adoptSent{}
		}
	}
}

// noteState notes how far a write has come at a shard of a ring, and reports whether that is new.
func (a *adoption) noteState(v causal.Version, ring topology.RingID, shard topology.Node,
	state causal.AdoptionState) bool {
	w := a.writes[v.HLC]
	if w == nil || a.cfg.Topology.Owner(ring, w.slot()) != shard || state <= w.states[ring] {
		return false
	}
	if a.lane(shard).window.heard = true; w.states[ring] == causal.AdoptionUnknown {
		w.sent[ring] = adoptSent{}
	}
	w.states[ring] = min(state, causal.AdoptionComplete)
	return true
}

// treatExcludedAsReceived treats writes of an excluded shard as received by its ring, and as confirmed once the ring
// has acknowledged what they depend on of other origins.
func (a *adoption) treatExcludedAsReceived(r topology.RingID) {
	for _, w := range a.order {
		if !a.excluded.isExcluded(r, w.slot()) {
			continue
		}
		w.states[r] = max(w.states[r], causal.AdoptionReceived)
		isOwn := func(d causal.Dep) bool { return d.Version.Origin == a.origin }
		isThere := func(ring topology.RingID) bool { return w.states[ring] >= causal.AdoptionConfirmed }
		if a.excluded.isElsewhere(r, w.slot(), isThere) &&
			a.excluded.hasForeign(r, slices.DeleteFunc(slices.Clone(w.deps), isOwn)) {
			w.states[r] = max(w.states[r], causal.AdoptionConfirmed)
		}
	}
}

// treatExcludedAsClean treats confirmed writes of an excluded shard, of which the past is confirmed, as clean in its
// ring.
func (a *adoption) treatExcludedAsClean(r topology.RingID) {
	for _, w := range a.order {
		if w.settled && w.states[r] == causal.AdoptionConfirmed && a.excluded.isExcluded(r, w.slot()) {
			w.states[r] = causal.AdoptionComplete
		}
	}
}

// sendPuts puts the writes to the shards of a ring that do not have them.
func (a *adoption) sendPuts(now causal.Now, r topology.RingID) {
	t := a.cfg.Topology
	unanswered := map[topology.Node]int{}
	for _, w := range a.order {
		if w.lacks(r) && w.sent[r].at != 0 {
			unanswered[t.Owner(r, w.slot())] += w.size
		}
	}
	for _, n := range t.RingMiddlemen(r) {
		a.lane(n).window.begin(now, unanswered[n], uint64(a.origin)<<32+uint64(n.DC)<<16+n.Index)
	}
	for _, w := range a.order {
		if !w.lacks(r) {
			continue
		}
		to, s := t.Owner(r, w.slot()), &w.sent[r]
		window := &a.lane(to).window
		if s.at == 0 && !window.admits(w.size) || s.at != 0 && !window.admitsAgain(w.size) {
			continue
		}
		*s = adoptSent{at: now.Mono}
		a.Send(causal.AdoptPut{Key: w.key, Record: w.record, Generation: w.generation, Deps: w.deps,
			Map: t.Map(r)}.Message(a.cfg.Self, to))
	}
}

// sendSteps tells the shards of a ring of the settled writes that are in a state there how far their past has come,
// again and again until they are in a later one.
func (a *adoption) sendSteps(now causal.Now, r topology.RingID, in, past causal.AdoptionState) {
	t := a.cfg.Topology
	steps := map[topology.Node][]causal.Version{}
	for _, w := range a.order {
		s := &w.sent[r]
		if !w.settled || w.complete || w.states[r] != in ||
			s.step == past && now.Mono-s.at < int64(adoptPollInterval)<<min(max(s.times-1, 0), maxPollDoublings) {
			continue
		}
		if s.step != past {
			s.times = 0
		}
		*s = adoptSent{at: now.Mono, step: past, times: s.times + 1}
		to := t.Owner(r, w.slot())
		steps[to] = append(steps[to], w.record.Version)
	}
	for _, n := range t.RingMiddlemen(r) {
		for versions := steps[n]; len(versions) > 0; {
			batch := versions[:min(len(versions), maxStepVersions)]
			versions = versions[len(batch):]
			step := causal.AdoptStep{Past: past, Versions: batch, Incarnation: a.source(n).incarnation, Map: t.Map(r)}
			a.Send(step.Message(a.cfg.Self, n))
		}
	}
}
