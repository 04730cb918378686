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

// handleAdopter handles a message from an adopter. A shard that has lost its data takes no part before it has them
// again: what it could report as clean may be what its storage has lost, and what it could take may be older than what
// the donors have dropped.
func (m *Middleman) handleAdopter(now causal.Now, msg *causal.Message) {
	if m.backfill != nil {
		return // without an answer it is sent again
	}
	switch msg.Kind {
	case causal.KindAdoptQuery:
		m.reportHeld(msg.From, msg.AdoptQuery())
	case causal.KindAdoptPut:
		m.adoptPut(now, msg.From, msg.AdoptPut())
	case causal.KindAdoptStep:
		m.adoptStep(now, msg.From, msg.AdoptStep())
	}
}

// adoptPut takes a write from an adopter, which repeats it until it is answered.
func (m *Middleman) adoptPut(now causal.Now, from topology.Node, a causal.AdoptPut) {
	v, slot := a.Record.Version, topology.SlotOf(a.Key)
	switch {
	case !m.isSilent(now, v.Origin), !m.knowsType(&a.Record), !m.usesSlotMap(a.Map), !m.owns(slot),
		a.Generation < m.fenceOf(now, v.Origin):
		return
	case m.isAheadOfClock(now, &a):
		m.stats.ClockRefused++
		m.stats.LastRefused, m.stats.RefusedFrom = v, from
		return
	}
	if p := m.writes.pendingPut(v); p != nil {
		p.adopted = true
	} else if !m.isClean(v, slot) {
		m.stageAdopted(now, &a)
	}
	m.sendAdoptionStates(from, []causal.Dep{{Version: v, Slot: slot}})
}

// isAheadOfClock is isAhead for what an adopter sends.
func (m *Middleman) isAheadOfClock(now causal.Now, a *causal.AdoptPut) bool {
	limit := m.timeLimit(now)
	return a.Record.Version.HLC > limit || slices.ContainsFunc(a.Deps, func(d causal.Dep) bool {
		return d.Version.HLC > limit
	})
}

// stageAdopted stages a write that was not received before.
func (m *Middleman) stageAdopted(now causal.Now, a *causal.AdoptPut) {
	v := a.Record.Version
	if !m.staged.hasRoom(v.Origin, stagedSize(a.Key, &a.Record, len(a.Deps)), maxStagedBytes+maxStagedAdopted) {
		m.stats.Crowded++
		return // its adopter is told that it is not here, and sends it again
	}
	m.stats.Puts++
	if !slices.Contains(m.adoptedOf, v.Origin) {
		m.adoptedOf = append(m.adoptedOf, v.Origin)
	}
	p := &put{key: a.Key, record: a.Record, adopted: true, awaitsPastReceived: true, awaitsPastClean: true,
		unprocessedDeps: 1, uncleanDeps: 1}
	p.deps = causal.NewDepList(len(a.Deps))
	for _, d := range a.Deps {
		p.deps.AddWrite(d)
	}
	m.writes.stage(m.writes.get(v), p)
	m.staged.add(p)
	for _, d := range a.Deps {
		m.awaitWrite(now, p, d)
	}
	if m.cfg.Broken.Has(causal.AdoptMovesLane) {
		m.lanes.of(v.Origin).receive(v.HLC, 0, 0)
		m.noteLaneProgress(now, v.Origin)
	}
}

// followLanes makes an adopted put wait for its lanes in place of the adopter's word: its coordinator is back.
func (m *Middleman) followLanes(now causal.Now, p *put, a *causal.PutAfter) {
	if !p.awaitsPastClean {
		return
	}
	writes := causal.NewDepList(p.deps.Len() + len(a.Deps.Lanes()))
	for _, d := range p.deps.Writes() {
		writes.AddWrite(d)
	}
	for _, d := range a.Deps.Lanes() {
		writes.AddLane(d)
		m.awaitLane(p, d)
	}
	if !p.submitted {
		p.deps = writes
	}
	m.meetPast(now, p)
	m.cleanPast(now, p)
}

// adoptStep takes an adopter's word on the past of writes.
func (m *Middleman) adoptStep(now causal.Now, from topology.Node, s causal.AdoptStep) {
	if s.Incarnation != m.cfg.Incarnation || !m.usesSlotMap(s.Map) {
		return
	}
	limit := m.timeLimit(now)
	var writes []causal.Dep
	for _, v := range s.Versions {
		if !m.isSilent(now, v.Origin) || v.HLC > limit {
			continue
		}
		p := m.writes.pendingPut(v)
		switch {
		case s.Past == causal.AdoptionComplete:
			m.noteComplete(now, v)
		case p == nil:
		case s.Past == causal.AdoptionReceived:
			m.dropLaneWaits(now, p)
		case s.Past == causal.AdoptionConfirmed:
			m.dropLaneWaits(now, p)
			m.dropLaneCleanWaits(now, p)
		}
		// If nothing is known of the write, its slot does not matter.
		d := causal.Dep{Version: v}
		if p != nil {
			d.Slot = topology.SlotOf(p.key)
		}
		writes = append(writes, d)
	}
	m.sendAdoptionStates(from, writes)
}

// meetPast and cleanPast end the waits for the word of an adopter, if there are any.
func (m *Middleman) meetPast(now causal.Now, p *put) {
	if p.awaitsPastReceived {
		p.awaitsPastReceived = false
		m.depProcessed(now, p)
	}
}

func (m *Middleman) cleanPast(now causal.Now, p *put) {
	if p.awaitsPastClean {
		p.awaitsPastClean = false
		m.depClean(now, p)
	}
}

// dropLaneWaits ends every wait of p for lanes to be received.
func (m *Middleman) dropLaneWaits(now causal.Now, p *put) {
	n := 0
	for _, f := range m.lanesTo(p) {
		before := len(f.awaitReceived)
		f.awaitReceived = slices.DeleteFunc(f.awaitReceived, func(w laneWait) bool { return w.put == p })
		n += before - len(f.awaitReceived)
	}
	for range n {
		m.depProcessed(now, p)
	}
	m.meetPast(now, p)
}

// dropLaneCleanWaits ends every wait of p for lanes to be clean.
func (m *Middleman) dropLaneCleanWaits(now causal.Now, p *put) {
	n := 0
	for _, f := range m.lanesTo(p) {
		before := len(f.awaitClean)
		f.awaitClean = slices.DeleteFunc(f.awaitClean, func(w laneWait) bool { return w.put == p })
		n += before - len(f.awaitClean)
	}
	for range n {
		m.depClean(now, p)
	}
	m.cleanPast(now, p)
}

// lanesTo returns the frontiers of the lanes of the origin of p.
func (m *Middleman) lanesTo(p *put) (fs []*frontier) {
	for _, f := range m.frontiers.ordered {
		if f.key.origin == p.record.Version.Origin {
			fs = append(fs, f)
		}
	}
	return fs
}

// isConfirmed reports whether p waits for nothing but its lanes or the word of the adopter.
func (m *Middleman) isConfirmed(p *put) bool {
	if !p.processed || p.unconfirmedWaits > 0 {
		return false
	}
	waits := 0
	if p.awaitsPastClean {
		waits = 1
	}
	for _, f := range m.lanesTo(p) {
		for _, w := range f.awaitClean {
			if w.put == p {
				waits++
			}
		}
	}
	return p.uncleanDeps == waits
}

// adoptionState returns how far a write has come here.
func (m *Middleman) adoptionState(v causal.Version, slot topology.Slot) causal.AdoptionState {
	p := m.writes.pendingPut(v)
	switch {
	case m.known.Complete(v) || m.writes.find(v).isMarkedComplete():
		return causal.AdoptionComplete
	case m.isClean(v, slot):
		return causal.AdoptionClean
	case p == nil:
		return causal.AdoptionUnknown
	case m.isConfirmed(p):
		return causal.AdoptionConfirmed
	}
	return causal.AdoptionReceived
}

// sendAdoptionStates tells an adopter how far writes have come.
func (m *Middleman) sendAdoptionStates(to topology.Node, writes []causal.Dep) {
	var byState [causal.AdoptionComplete + 1][]causal.Version
	for _, w := range writes {
		state := m.adoptionState(w.Version, w.Slot)
		byState[state] = append(byState[state], w.Version)
	}
	for state, versions := range byState {
		if len(versions) > 0 {
			s := causal.AdoptStatus{State: causal.AdoptionState(state), Versions: versions,
				Incarnation: m.cfg.Incarnation}
			m.Send(s.Message(m.cfg.Self, to))
		}
	}
}
