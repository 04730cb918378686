package middleman

import (
	"slices"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// Writes of a silent origin that an adopter puts in all rings (PROTOCOL ADO). A put that was received before, in
// its lane, is the same put; it only need not wait for its lanes any more once the adopter says so. One that was not
// has its dependencies of other origins, and waits for the adopter's word in place of lanes. Either has no effect on
// the lane: what else is in that is not known.

// adoption takes writes of silent origins from adopters, and tells these what the shard has of such origins.
type adoption struct {
	*shared
	host      adoptionHost
	silence   *silence
	fences    *fences
	lanes     *lanes
	deps      *dependencies
	frontiers *frontiers
	writes    *writes
	staged    *stagedPuts
	retained  retainedPuts
	origins   []topology.Origin // of which an adopter has put a write here
	// awaiting are the puts that came from an adopter only. Those that wait for its word no more are removed when
	// vectors say something new.
	awaiting []*put
}

// adoptionHost is what an adoption asks of its middleman.
type adoptionHost interface {
	dependents
	noteComplete(now causal.Now, v causal.Version)
}

// step handles a message from an adopter. A shard that has lost its data takes no part before it has them again: what
// it could report as clean may be what its storage has lost, and what it could take may be older than what the donors
// have dropped.
func (a *adoption) step(now causal.Now, msg *causal.Message) {
	switch msg.Kind {
	case causal.KindAdoptQuery:
		a.reportRetained(msg.From, msg.AdoptQuery())
	case causal.KindAdoptPut:
		a.adoptPut(now, msg.From, msg.AdoptPut())
	case causal.KindAdoptStep:
		a.adoptStep(now, msg.From, msg.AdoptStep())
	}
}

// adoptPut takes a write from an adopter, which repeats it until it is answered.
func (a *adoption) adoptPut(now causal.Now, from topology.Node, w causal.AdoptPut) {
	v, slot := w.Record.Version, topology.SlotOf(w.Key)
	switch {
	case !a.silence.isSilent(now, v.Origin), !a.knowsType(&w.Record), !a.usesSlotMap(w.Map), !a.owns(slot),
		w.Generation < a.fences.of(now, v.Origin):
		return
	case a.isAheadOfClock(now, &w):
		a.stats.ClockRefused++
		a.stats.LastRefused, a.stats.RefusedFrom = v, from
		return
	}
	if p := a.writes.pendingPut(v); p != nil {
		p.adopted = true
	} else if !a.host.isClean(v, slot) {
		a.stageAdopted(now, &w)
	}
	a.sendAdoptionStates(from, []causal.Dep{{Version: v, Slot: slot}})
}

// isAheadOfClock is isAhead for what an adopter sends.
func (a *adoption) isAheadOfClock(now causal.Now, w *causal.AdoptPut) bool {
	limit := a.timeLimit(now)
	return w.Record.Version.HLC > limit || slices.ContainsFunc(w.Deps, func(d causal.Dep) bool {
		return d.Version.HLC > limit
	})
}

// stageAdopted stages a write that was not received before.
func (a *adoption) stageAdopted(now causal.Now, w *causal.AdoptPut) {
	v := w.Record.Version
	if !a.staged.hasRoom(v.Origin, stagedSize(w.Key, &w.Record, len(w.Deps)), maxStagedBytes+maxStagedAdopted) {
		a.stats.Crowded++
		return // its adopter is told that it is not here, and sends it again
	}
	a.stats.Puts++
	if !slices.Contains(a.origins, v.Origin) {
		a.origins = append(a.origins, v.Origin)
	}
	p := &put{key: w.Key, record: w.Record, adopted: true, awaitsPastReceived: true, awaitsPastClean: true,
		unprocessedDeps: 1, uncleanDeps: 1}
	p.deps = causal.NewDepList(len(w.Deps))
	for _, d := range w.Deps {
		p.deps.AddWrite(d)
	}
	a.writes.stage(a.writes.get(v), p)
	a.staged.add(p)
	a.awaiting = append(a.awaiting, p)
	for _, d := range w.Deps {
		a.deps.await(now, p, d)
	}
	if a.cfg.Broken.Has(causal.AdoptMovesLane) {
		a.lanes.of(v.Origin).receive(v.HLC, 0, 0)
		a.frontiers.noteProgress(now, v.Origin)
	}
}

// followLanes makes an adopted put wait for its lanes in place of the adopter's word: its coordinator is back.
func (a *adoption) followLanes(now causal.Now, p *put, w *causal.PutAfter) {
	if !p.awaitsPastClean {
		return
	}
	writes := causal.NewDepList(p.deps.Len() + len(w.Deps.Lanes()))
	for _, d := range p.deps.Writes() {
		writes.AddWrite(d)
	}
	for _, d := range w.Deps.Lanes() {
		writes.AddLane(d)
		a.frontiers.await(p, d)
	}
	if !p.submitted {
		p.deps = writes
	}
	a.meetPast(now, p)
	a.cleanPast(now, p)
}

// adoptStep takes an adopter's word on the past of writes.
func (a *adoption) adoptStep(now causal.Now, from topology.Node, s causal.AdoptStep) {
	if s.Incarnation != a.cfg.Incarnation || !a.usesSlotMap(s.Map) {
		return
	}
	limit := a.timeLimit(now)
	var writes []causal.Dep
	for _, v := range s.Versions {
		if !a.silence.isSilent(now, v.Origin) || v.HLC > limit {
			continue
		}
		p := a.writes.pendingPut(v)
		switch {
		case s.Past == causal.AdoptionComplete:
			a.host.noteComplete(now, v)
		case p == nil:
		case s.Past == causal.AdoptionReceived:
			a.dropLaneWaits(now, p)
		case s.Past == causal.AdoptionConfirmed:
			a.dropLaneWaits(now, p)
			a.dropLaneCleanWaits(now, p)
		}
		// If nothing is known of the write, its slot does not matter.
		d := causal.Dep{Version: v}
		if p != nil {
			d.Slot = topology.SlotOf(p.key)
		}
		writes = append(writes, d)
	}
	a.sendAdoptionStates(from, writes)
}

// meetPast and cleanPast end the waits for the word of an adopter, if there are any.
func (a *adoption) meetPast(now causal.Now, p *put) {
	if p.awaitsPastReceived {
		p.awaitsPastReceived = false
		a.host.depProcessed(now, p)
	}
}

func (a *adoption) cleanPast(now causal.Now, p *put) {
	if p.awaitsPastClean {
		p.awaitsPastClean = false
		a.host.depClean(now, p)
	}
}

// endCovered ends that puts wait for the word of an adopter which are acknowledged by this ring with all that they
// follow, as RV says (PROTOCOL ADO-12).
func (a *adoption) endCovered(now causal.Now) {
	a.awaiting = slices.DeleteFunc(a.awaiting, func(p *put) bool {
		if a.known.ProcessedIn(a.ring, p.record.Version) {
			a.meetPast(now, p)
			a.cleanPast(now, p)
		}
		return !p.awaitsPastClean
	})
}

// dropLaneWaits ends every wait of p for lanes to be received.
func (a *adoption) dropLaneWaits(now causal.Now, p *put) {
	for range a.removeWaits(p, func(f *frontier) *[]laneWait { return &f.awaitReceived }) {
		a.host.depProcessed(now, p)
	}
	a.meetPast(now, p)
}

// dropLaneCleanWaits ends every wait of p for lanes to be clean.
func (a *adoption) dropLaneCleanWaits(now causal.Now, p *put) {
	for range a.removeWaits(p, func(f *frontier) *[]laneWait { return &f.awaitClean }) {
		a.host.depClean(now, p)
	}
	a.cleanPast(now, p)
}

// removeWaits removes p from a list of every lane that it may wait for, and returns how often it was there.
func (a *adoption) removeWaits(p *put, waits func(*frontier) *[]laneWait) (n int) {
	for _, f := range a.lanesTo(p) {
		list := waits(f)
		before := len(*list)
		*list = slices.DeleteFunc(*list, func(w laneWait) bool { return w.put == p })
		n += before - len(*list)
	}
	return n
}

// lanesTo returns the frontiers of the lanes of the origin of p.
func (a *adoption) lanesTo(p *put) (fs []*frontier) {
	for _, f := range a.frontiers.ordered {
		if f.key.origin == p.record.Version.Origin {
			fs = append(fs, f)
		}
	}
	return fs
}

// isConfirmed reports whether p waits for nothing but its lanes or the word of the adopter.
func (a *adoption) isConfirmed(p *put) bool {
	if !p.processed || p.unconfirmedWaits > 0 {
		return false
	}
	waits := 0
	if p.awaitsPastClean {
		waits = 1
	}
	for _, f := range a.lanesTo(p) {
		for _, w := range f.awaitClean {
			if w.put == p {
				waits++
			}
		}
	}
	return p.uncleanDeps == waits
}

// adoptionState returns how far a write has come here.
func (a *adoption) adoptionState(v causal.Version, slot topology.Slot) causal.AdoptionState {
	p := a.writes.pendingPut(v)
	switch {
	case a.known.Complete(v) || a.writes.find(v).isMarkedComplete():
		return causal.AdoptionComplete
	case a.host.isClean(v, slot):
		return causal.AdoptionClean
	case p == nil:
		return causal.AdoptionUnknown
	case a.isConfirmed(p):
		return causal.AdoptionConfirmed
	}
	return causal.AdoptionReceived
}

// sendAdoptionStates tells an adopter how far writes have come.
func (a *adoption) sendAdoptionStates(to topology.Node, writes []causal.Dep) {
	var byState [causal.AdoptionComplete + 1][]causal.Version
	for _, w := range writes {
		state := a.adoptionState(w.Version, w.Slot)
		byState[state] = append(byState[state], w.Version)
	}
	for state, versions := range byState {
		if len(versions) > 0 {
			s := causal.AdoptStatus{State: causal.AdoptionState(state), Versions: versions,
				Incarnation: a.cfg.Incarnation}
			a.Send(s.Message(a.cfg.Self, to))
		}
	}
}
