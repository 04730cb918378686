package middleman

import (
	"slices"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// The life of a put-after: received, staged until its dependencies allow it to be written, processed, acknowledged
// (PROTOCOL MM).

// put is a put-after until it is acknowledged.
type put struct {
	write            *write // what is known of it, while it is pending
	key              string
	record           causal.Record
	coordinator      topology.Node // the last one that sent it
	unprocessedDeps  int           // dependencies that are not processed in this ring, or not received by their lane
	uncleanDeps      int           // dependencies that are not clean in this ring
	unconfirmedWaits int           // invalidations that are not confirmed, and leases of others that still run
	processed        bool
	submitted        bool // its write is queued
	// adopted says that an adopter relies on p: what follows it may be visible in this ring although the lane has not
	// come so far. Of a put that came from an adopter only, awaitsPastReceived and awaitsPastClean count as a
	// dependency until it says that the writes of its origin that p follows are received, and confirmed, or RV covers
	// p.
	adopted, awaitsPastReceived, awaitsPastClean bool

	// While it is staged:
	next        *put // staged later, of the same key
	deps        causal.DepList
	stagedBytes int        // what it counts for
	questions   []question // that wait until it is written
	// isQuestioned: it is in stagedPuts.questioned
	isQuestioned bool
	probeAt      int64 // monotonic: when its unmet dependencies are probed, if there are questions
	// awaitsEarlier says that only an earlier put of its key, which is staged too, keeps it from being written.
	awaitsEarlier bool
	missingAsOf   uint64 // the newest probe after whose sending a dependency was missing; 0: none
}

// putAfter handles a put, which its coordinator repeats until it is acknowledged.
func (m *Middleman) putAfter(now causal.Now, from topology.Node, a causal.PutAfter) {
	v := a.Record.Version
	l := m.lanes.of(v.Origin)
	if l == nil {
		return // a coordinator that this topology does not have
	}
	if !m.knowsType(&a.Record) {
		return // it is sent again, perhaps to a later version
	}
	if m.fences.refuse(now, from, &a) || m.backfill != nil && !m.backfill.takesPutsOf(v.Origin) {
		return // without an acknowledgement it is sent again
	}
	limit := m.timeLimit(now)
	if isAhead(&a, limit) {
		m.stats.ClockRefused++
		m.stats.LastRefused, m.stats.RefusedFrom = v, from
		return // it is not acknowledged, so its coordinator sends it again
	}
	a.AckedUpTo = min(a.AckedUpTo, limit)
	if m.backfill != nil {
		a.AckedUpTo = 0 // that may be from before the loss; only the answer to a LaneHello counts
	}
	if !m.usesSlotMap(a.Map) {
		l.otherMap = true // the next LaneHello tells the coordinator which map is in use here
		return
	}
	w := m.writes.find(v)
	isClean := m.isCleanWrite(w, v, topology.SlotOf(a.Key)) && (w != nil && w.clean || !m.isInDoubt(v))
	if !m.staged.hasRoom(v.Origin, stagedSize(a.Key, &a.Record, a.Deps.Len()), maxStagedBytes) && !a.Complete &&
		m.writes.pendingPut(v) == nil && !isClean {
		m.stats.Crowded++
		return // without an acknowledgement it is sent again
	}
	if !m.known.Complete(v) {
		m.adoption.retained.retain(&a, m.cfg.Broken.Has(causal.AdoptFilteredDeps))
		if w == nil {
			w = m.writes.add(v)
		}
		m.writes.notePast(w, min(a.Past, v.HLC))
	}
	if a.Complete && len(l.unclean) >= maxUnclean {
		m.stats.Crowded++
		return // it is sent again
	}
	if a.Complete || isClean {
		if !a.Complete {
			m.acks.add(from, v)
		}
		l.markClean(v.HLC)
		l.receive(v.HLC, a.Previous, a.AckedUpTo)
		m.frontiers.noteProgress(now, v.Origin)
		return
	}
	if p := m.writes.pendingPut(v); p != nil {
		p.coordinator = from
		m.adoption.followLanes(now, p, &a)
		l.receive(v.HLC, a.Previous, a.AckedUpTo) // its place in the lane may have been forgotten
		m.frontiers.noteProgress(now, v.Origin)
		return
	}
	p := &put{key: a.Key, record: a.Record, coordinator: from, deps: a.Deps}
	m.stats.Puts++
	if m.backfill != nil {
		m.backfill.notePut(a.Key, l, v.HLC)
	}
	m.writes.stage(m.writes.get(v), p)
	m.staged.add(p)
	l.receive(v.HLC, a.Previous, a.AckedUpTo)
	m.frontiers.noteProgress(now, v.Origin)
	if m.cfg.Broken.Has(causal.LoserSkipsDeps) && v.Less(m.mutations.latest[p.key]) {
		m.write(now, p)
		return
	}
	for _, d := range a.Deps.Writes() {
		m.deps.await(now, p, d)
	}
	for _, d := range a.Deps.Lanes() {
		m.frontiers.await(p, d)
	}
	if p.unprocessedDeps == 0 {
		m.write(now, p)
	} else {
		m.stats.DepWaits++
	}
}

// isAhead reports whether a put or something that it depends on has a timestamp above limit. Once written it would win
// over every later write of its key, and whoever read it could not write.
func isAhead(a *causal.PutAfter, limit causal.HLC) bool {
	above := func(d causal.Dep) bool { return d.Version.HLC > limit }
	return a.Record.Version.HLC > limit || slices.ContainsFunc(a.Deps.Writes(), above) ||
		slices.ContainsFunc(a.Deps.Lanes(), above)
}

// depProcessed releases p from waiting for one dependency to be processed.
func (m *Middleman) depProcessed(now causal.Now, p *put) {
	if p.unprocessedDeps--; p.unprocessedDeps == 0 && !p.submitted {
		m.write(now, p)
	}
}

// depClean releases p from waiting for one dependency to be clean.
func (m *Middleman) depClean(now causal.Now, p *put) {
	p.uncleanDeps--
	m.acknowledgeIfClean(now, p)
}

// cacheConfirmed releases p from waiting for one cache.
func (m *Middleman) cacheConfirmed(now causal.Now, p *put) {
	p.unconfirmedWaits--
	m.advanceLaneIfConfirmed(now, p)
	m.acknowledgeIfClean(now, p)
}

// write queues the write of p, whose dependencies are processed. A write that merges, and does not replace what the key
// had before, is never in the value without that: of lanes, it and what it depends on wait for receipt only, so earlier
// writes may be staged.
func (m *Middleman) write(now causal.Now, p *put) {
	if p.record.Value.Merges() && m.staged.hasEarlier(p) && !m.cfg.Broken.Has(causal.DeltaOvertakes) {
		p.awaitsEarlier = true
		return
	}
	p.submitted = true
	m.tasks.submit(m.tasks.write(p))
	m.unstage(now, p)
}

// markProcessed follows the write to storage in the same step. From here on readers of this ring may see the write, as
// in-flight, so puts that depend on it may be written; caches that hold older values are told.
func (m *Middleman) markProcessed(now causal.Now, p *put, superseded bool) {
	v := p.record.Version
	p.processed = true
	m.writes.markProcessed(p.write, p.key)
	m.mutations.noteProcessed(p.key, v)
	if superseded {
		m.stats.Superseded++
	}
	m.invalidate(now, p, superseded)
	m.deps.resolve(now, v, false)
	m.deps.notifyWatchers(v, false)
	m.advanceLaneIfConfirmed(now, p)
	m.acknowledgeIfClean(now, p)
}

// advanceLaneIfConfirmed advances the lane once p is processed and no cache holds an older value of its key.
func (m *Middleman) advanceLaneIfConfirmed(now causal.Now, p *put) {
	if !p.processed || p.unconfirmedWaits > 0 {
		return
	}
	v := p.record.Version
	if m.lanes.of(v.Origin).markClean(v.HLC) {
		m.frontiers.noteProgress(now, v.Origin)
	}
}

// acknowledgeIfClean acknowledges last (PROTOCOL MM-3): no cache of the ring holds a value older than the write, or
// older than a write that it depends on. Without waiting for the latter, a session that is released by the completion
// of this write could read an older value of a dependency from a cache whose invalidation is still under way.
func (m *Middleman) acknowledgeIfClean(now causal.Now, p *put) {
	confirmed := p.unconfirmedWaits == 0 || m.cfg.Broken.Has(causal.AckBeforeInvalidation)
	depsClean := p.uncleanDeps == 0 || m.cfg.Broken.Has(causal.AckBeforeDepsClean)
	if !p.processed || !confirmed || !depsClean {
		return
	}
	v := p.record.Version
	if !m.writes.acknowledge(p) {
		return
	}
	if p.coordinator.Part == topology.Coordinator { // an adopter asks
		m.acks.add(p.coordinator, v)
	}
	m.markClean(now, v, p.write)
}
