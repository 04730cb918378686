package middleman

import (
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/topology"
)

// What is known about single writes, and what follows from it: which are stable and which are clean (PROTOCOL §5).

// writes is what is known about single writes beyond the vectors.
type writes struct {
	pending   map[causal.Version]*put            // not acknowledged
	processed map[causal.Version]*processedWrite // not covered by RV
	complete  map[causal.Version]struct{}        // above SV, as coordinators have told
	room      []processedWrite                   // for the next processed writes, which are allocated together
	past      map[causal.Version]causal.HLC      // the greatest HLC in the past of each; not of all
}

// processedWrite is a processed write that RV does not cover yet.
type processedWrite struct {
	clean bool
	key   string // for the StatusPerKey fault
}

// processedRoom is for how many processed writes room is allocated at a time.
const processedRoom = 32

// addProcessed adds a write that is processed and not known to be clean.
func (w *writes) addProcessed(v causal.Version, key string) {
	if len(w.room) == 0 {
		w.room = make([]processedWrite, processedRoom)
	}
	w.room[0].key = key
	w.processed[v], w.room = &w.room[0], w.room[1:]
}

// maxCompleteMarks bounds the marks of complete writes above SV.
const maxCompleteMarks = 1 << 20

func newWrites() writes {
	return writes{
		pending: map[causal.Version]*put{}, processed: map[causal.Version]*processedWrite{},
		complete: map[causal.Version]struct{}{}, past: map[causal.Version]causal.HLC{},
	}
}

func (w *writes) isMarkedComplete(v causal.Version) bool {
	_, ok := w.complete[v]
	return ok
}

// purge removes what the vectors cover.
func (w *writes) purge(known *causal.Stability, ring topology.RingID) {
	for v, p := range w.processed {
		if p.clean && (w.isMarkedComplete(v) || known.ProcessedIn(ring, v)) {
			*p = processedWrite{} // others keep its room
			delete(w.processed, v)
		}
	}
	for v := range w.complete {
		if known.Complete(v) {
			delete(w.complete, v)
		}
	}
	if len(w.complete) > maxCompleteMarks {
		clear(w.complete) // safe at any time: these writes count as in-flight until SV passes them
	}
}

// pastKept is for how long after a write its past is kept: the base of reads at a cut is above older ones, or soon will be.
var pastKept = causal.HLCAt((2 * time.Second).Milliseconds())

// maxPasts bounds the writes whose past is kept.
const maxPasts = 1 << 17

// notePast keeps the greatest HLC in the past of a write.
func (w *writes) notePast(v causal.Version, past causal.HLC) {
	if past != 0 && len(w.past) < maxPasts {
		w.past[v] = past
	}
}

// purgePasts forgets the past of what is complete with all that is older, or old.
func (w *writes) purgePasts(known *causal.Stability) {
	newest := known.MaxSV()
	upTo := max(known.MinSV(), newest-min(newest, pastKept))
	for v := range w.past {
		if v.HLC <= upTo {
			delete(w.past, v)
		}
	}
}

// status returns what is known of the version that a read of key has found.
func (m *Middleman) status(key string, v causal.Version) causal.Status {
	if m.cfg.Broken.Any() {
		if s, broken := m.brokenStatus(key, v); broken {
			return s
		}
	}
	if !v.Written() || m.known.Complete(v) || m.writes.isMarkedComplete(v) {
		return causal.Stable
	}
	return causal.InFlight
}

// isClean reports whether v and all its dependencies are processed in this ring, and no cache of the ring holds older values
// of them.
func (m *Middleman) isClean(v causal.Version, slot topology.Slot) bool {
	if m.isCovered(v, slot) || v.HLC <= m.tombstones.horizon || m.writes.isMarkedComplete(v) {
		return true
	}
	if l := m.lanes.of(v.Origin); l != nil && v.HLC <= l.ackedUpTo && m.owns(slot) {
		return true // acknowledged by this shard, perhaps before a restart
	}
	p := m.writes.processed[v]
	return p != nil && p.clean
}

// isCovered reports whether the vectors say that v is processed in this ring. What RV covers, a shard that has lost its data owes
// until it has it again; what is complete, it gets from other rings.
func (m *Middleman) isCovered(v causal.Version, slot topology.Slot) bool {
	if m.backfill != nil && m.owns(slot) && !m.cfg.Broken.Has(causal.BackfillTrustsRV) {
		return m.known.Complete(v)
	}
	return m.known.ProcessedIn(m.ring, v)
}

// markClean records that v is clean, and tells everyone who waits for that.
func (m *Middleman) markClean(now causal.Now, v causal.Version) {
	if p := m.writes.processed[v]; p != nil {
		p.clean = true
	}
	m.resolveDep(now, v, true)
	m.notifyWatchers(v, true)
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
		m.writes.complete[v] = struct{}{}
		m.markClean(now, v)
		m.faults.noteComplete(m.writes.processed[v])
	}
	m.mergeVectors(now, []causal.VectorEntry{{Origin: s.Versions[0].Origin, SV: s.SV}})
}

// mergeVectors takes new vectors, and resolves everything that waited for what they cover.
func (m *Middleman) mergeVectors(now causal.Now, entries []causal.VectorEntry) {
	m.noteNews(now, entries)
	if !m.known.Merge(entries, m.timeLimit(now)) {
		return
	}
	isProcessed := func(v causal.Version) bool { return m.known.ProcessedIn(m.ring, v) }
	m.resolveDeps(now, isProcessed)
	m.raiseFrontiers(now)
	m.notifyWatchersOf(isProcessed)
}
