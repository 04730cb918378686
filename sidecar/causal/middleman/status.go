package middleman

import (
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// What follows from what is known about writes: which are stable and which are clean (PROTOCOL MM).

// status returns what is known of the version that a read of key has found.
func (m *Middleman) status(key string, v causal.Version) causal.Status {
	if m.cfg.Broken.Any() {
		if s, broken := m.brokenStatus(key, v); broken {
			return s
		}
	}
	if !v.Written() || m.known.Complete(v) || m.writes.find(v).isMarkedComplete() {
		return causal.Stable
	}
	return causal.InFlight
}

// isClean reports whether v and all its dependencies are processed in this ring, and no cache of the ring holds older
// values of them.
func (m *Middleman) isClean(v causal.Version, slot topology.Slot) bool {
	return m.isCleanWrite(m.writes.find(v), v, slot)
}

// isCleanWrite is isClean for what is known of v itself.
func (m *Middleman) isCleanWrite(w *write, v causal.Version, slot topology.Slot) bool {
	if m.isCovered(v, slot) || v.HLC <= m.tombstones.horizon || w.isMarkedComplete() {
		return true
	}
	if l := m.lanes.of(v.Origin); l != nil && v.HLC <= l.ackedUpTo && m.owns(slot) {
		return true // acknowledged by this shard, perhaps before a restart
	}
	return w != nil && w.clean
}

// isCovered reports whether the vectors say that v is processed in this ring. What RV covers, a shard that has lost its
// data owes until it has it again; what is complete, it gets from other rings.
func (m *Middleman) isCovered(v causal.Version, slot topology.Slot) bool {
	if m.backfill != nil && m.owns(slot) && !m.cfg.Broken.Has(causal.BackfillTrustsRV) {
		return m.known.Complete(v)
	}
	return m.known.ProcessedIn(m.ring, v)
}

// markClean records that v is clean, and tells everyone who waits for that. w is what is known of it.
func (m *Middleman) markClean(now causal.Now, v causal.Version, w *write) {
	w.markClean()
	m.deps.resolve(now, v, true)
	m.deps.notifyWatchers(v, true)
}

// markComplete records the writes that a coordinator reports as complete.
func (m *Middleman) markComplete(now causal.Now, s causal.StableMarks) {
	if len(s.Versions) == 0 {
		return
	}
	limit := m.timeLimit(now)
	for _, v := range s.Versions {
		if v.HLC > limit {
			continue
		}
		m.noteComplete(now, v)
	}
	m.mergeVectors(now, []causal.VectorEntry{{Origin: s.Versions[0].Origin, SV: s.SV}})
}

// noteComplete records that v is complete.
func (m *Middleman) noteComplete(now causal.Now, v causal.Version) {
	w := m.writes.markComplete(v)
	m.markClean(now, v, w)
	m.mutations.noteComplete(w)
}

// mergeVectors takes new vectors, and resolves everything that waited for what they cover.
func (m *Middleman) mergeVectors(now causal.Now, entries []causal.VectorEntry) {
	m.silence.noteNews(now, entries)
	if !m.known.Merge(entries, m.timeLimit(now)) {
		return
	}
	isProcessed := func(v causal.Version) bool { return m.known.ProcessedIn(m.ring, v) }
	m.deps.resolveProcessed(now, isProcessed)
	m.frontiers.raiseToRV(now)
	m.adoption.endCovered(now)
	m.deps.notifyWatchersOf(isProcessed)
}
