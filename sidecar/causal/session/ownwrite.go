package session

import (
	"slices"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/keystate"
	"github.com/causalstore/causalstore/sidecar/value"
	"github.com/causalstore/causalstore/topology"
)

// ownWrite is an acknowledged put that the session's reads may have to return.
type ownWrite struct {
	version     causal.Version
	key         string
	value       causal.Value
	opCount     uint64        // the session's when the put was started
	coordinator topology.Node // that accepted it
	complete    bool          // but kept, since it is above the cut that the session reads at
	evicted     bool          // the value is in the coordinator's log only
	forgotten   bool          // it is no longer in ownWrites.newest
}

// ownOverhead is the memory that an own write takes beside its key and value, in bytes.
const ownOverhead = 150

// maxIdleOwn is the peak up to which the maps of own writes are kept when they are empty.
const maxIdleOwn = 4096

// record returns the write; of a merging value, all own writes of the key that are not complete.
func (w *ownWrite) record() causal.Record {
	return causal.Record{Version: w.version, Value: w.value}
}

// isIncomplete reports whether the value is not here, and the log has a part of it only.
func (w *ownWrite) isIncomplete() bool { return w.evicted && w.value.Merges() }

func (w *ownWrite) size() int { return len(w.key) + w.value.Size() + ownOverhead }

// ownWrites are the own writes of a session that it must still see though not every ring has them (PROTOCOL SES: own,
// last).
type ownWrites struct {
	newest     map[string]*ownWrite         // by key: what reads return
	incomplete map[causal.Version]*ownWrite // not known to be complete
	order      []*ownWrite                  // incomplete, in the order of acknowledgement; some may be complete already
	// overlay holds the writes that are complete, but above the base of reads at the cut. It is in the order of
	// completion.
	overlay []*ownWrite
	bytes   int // memory of all writes whose value is not evicted
	// The greatest lengths of the maps since they were made. Maps do not shrink, so those of a peak are replaced once
	// empty.
	newestPeak, incompletePeak int
	// recent are the writes that completed last: a middleman may not know it yet and return them as in-flight.
	recent      [8]causal.Version
	recentCount int
	// last is the newest own put, while it is incomplete. The next put depends on it.
	last causal.Dep
	// completeUpTo is the greatest HLC of an own complete write. Own writes below it are complete too.
	completeUpTo causal.HLC
}

// contains reports whether v is an own write that is incomplete or was until lately. Reading it adds no restriction.
func (o *ownWrites) contains(v causal.Version) bool {
	if _, ok := o.incomplete[v]; ok {
		return true
	}
	return slices.Contains(o.recent[:], v)
}

// add adds a write that was acknowledged.
func (o *ownWrites) add(types *value.Types, w *ownWrite, slot topology.Slot) {
	if o.last.Version.Less(w.version) {
		o.last = causal.Dep{Version: w.version, Slot: slot}
	}
	o.bytes += w.size()
	newest := w
	if old := o.newest[w.key]; old != nil {
		newest = o.join(types, old, w)
	}
	o.newest[w.key] = newest
	o.newestPeak = max(o.newestPeak, len(o.newest))
}

// join makes the newer one of two own writes of a key what reads of it return, and returns that. If it merges, it gets
// what the other one is, too; if the value of one of them was evicted, so is that of both.
func (o *ownWrites) join(types *value.Types, a, b *ownWrite) *ownWrite {
	ra, rb := a.record(), b.record()
	newest, other := a, b
	if keystate.Newer(&rb, &ra) {
		newest, other = b, a
	}
	switch {
	case !newest.value.Merges(), newest.evicted:
	case other.isIncomplete():
		o.bytes -= newest.size()
		newest.value.Data, newest.evicted = nil, true
	default:
		joined := types.Join(ra, rb)
		o.bytes += joined.Value.Size() - newest.value.Size()
		newest.value = joined.Value
	}
	return newest
}

// addIncomplete adds a write to those whose completion is awaited.
func (o *ownWrites) addIncomplete(w *ownWrite) {
	o.incomplete[w.version] = w
	o.incompletePeak = max(o.incompletePeak, len(o.incomplete))
	o.order = append(o.order, w)
}

// oldestIncomplete returns the write that was acknowledged first of those that are incomplete, or nil. Writes mostly
// complete in the order of acknowledgement.
func (o *ownWrites) oldestIncomplete() *ownWrite {
	for i, w := range o.order {
		if o.incomplete[w.version] == w {
			o.order = o.order[i:]
			return w
		}
		o.order[i] = nil
	}
	o.order = o.order[:0]
	return nil
}

// compact removes completed writes from order when most of it is completed.
func (o *ownWrites) compact() {
	if len(o.order) > 2*len(o.incomplete)+64 {
		o.order = slices.DeleteFunc(o.order, func(w *ownWrite) bool { return o.incomplete[w.version] != w })
	}
}

// markComplete notes that w is complete. The caller decides whether it is forgotten or joins the overlay.
func (o *ownWrites) markComplete(v causal.Version) {
	delete(o.incomplete, v)
	if len(o.incomplete) == 0 && o.incompletePeak > maxIdleOwn {
		o.incomplete, o.order, o.incompletePeak = map[causal.Version]*ownWrite{}, nil, 0
	}
	o.recent[o.recentCount%len(o.recent)] = v
	o.recentCount++
	o.completeUpTo = max(o.completeUpTo, v.HLC)
	if o.last.Version == v {
		o.last = causal.Dep{}
	}
}

// forget drops the value of a write: reads look for the key elsewhere.
func (o *ownWrites) forget(w *ownWrite) {
	if o.newest[w.key] == w {
		delete(o.newest, w.key)
		if len(o.newest) == 0 && o.newestPeak > maxIdleOwn {
			o.newest, o.newestPeak = map[string]*ownWrite{}, 0
		}
	}
	if !w.evicted && !w.forgotten {
		o.bytes -= w.size()
	}
	w.forgotten = true
}

// trimOverlay forgets the complete writes that the base of reads at the cut has passed.
func (o *ownWrites) trimOverlay(cut causal.HLC) {
	n := 0
	for n < len(o.overlay) && o.overlay[n].version.HLC <= cut {
		o.forget(o.overlay[n])
		n++
	}
	clear(o.overlay[:n])
	o.overlay = o.overlay[n:]
}

// evict drops values from memory, oldest first, until they take at most limit bytes. It returns the greatest HLC of the
// complete writes that were forgotten: the session has seen them, and reads them like foreign ones from here on.
func (o *ownWrites) evict(limit int) (forgotten causal.HLC) {
	for len(o.overlay) > 0 && o.bytes > limit {
		forgotten = max(forgotten, o.overlay[0].version.HLC)
		o.forget(o.overlay[0])
		o.overlay = o.overlay[1:]
	}
	for _, w := range o.order {
		if o.bytes <= limit {
			break
		}
		if o.incomplete[w.version] == w && !w.evicted {
			o.bytes -= w.size()
			w.value.Data, w.evicted = nil, true
		}
	}
	return forgotten
}

// addOwnWrite adds an acknowledged put to the session's own writes.
func (s *Sidecar) addOwnWrite(c *call, v causal.Version) {
	ss := c.session
	w := &ownWrite{version: v, key: c.op.Key, value: c.op.Value, opCount: c.opCount, coordinator: c.target}
	ss.floor = max(ss.floor, v.HLC)
	ss.coveredOps = max(ss.coveredOps, c.opCount)
	ss.own.add(s.cfg.Types, w, c.slot)
	if s.stability.Complete(v) || v.HLC <= ss.own.completeUpTo {
		s.completeOwnWrite(ss, w)
		return
	}
	ss.own.addIncomplete(w)
	s.activate(ss)
	if ss.own.bytes > s.cfg.MaxOwnBytes {
		forgotten := ss.own.evict(s.cfg.MaxOwnBytes / 2)
		ss.seen = max(ss.seen, forgotten)
		ss.past.raise(forgotten)
	}
}

// handleComplete takes a coordinator's notice that own writes are complete.
func (s *Sidecar) handleComplete(now causal.Now, m causal.Complete) {
	ss := s.sessions[m.Session]
	if ss == nil {
		return
	}
	for _, v := range m.Versions {
		if w := ss.own.incomplete[v]; w != nil {
			s.completeOwnWrite(ss, w)
		}
	}
	ss.own.compact()
	s.retryBlocked(now)
}

// completeOwnWrite notes that an own write is complete. Everything that it depends on is complete too, and so are the
// reads that the session made before it: their restrictions are lifted (PROTOCOL SES-7).
//
// Reads at a cut would not find it while it is above their base, at a shard that does not know that it is complete. So
// the write stays in the overlay until the base passes it.
func (s *Sidecar) completeOwnWrite(ss *session, w *ownWrite) {
	v := w.version
	hidden := s.cuts.used && ss.own.newest[w.key] == w && s.overlaidFrom() < v.HLC &&
		!s.cfg.Broken.Has(causal.CutWithoutOwn)
	ss.own.markComplete(v)
	switch {
	case hidden && !w.evicted:
		w.complete = true
		ss.own.overlay = append(ss.own.overlay, w)
		s.activate(ss)
	case hidden:
		ss.seen = max(ss.seen, v.HLC) // no value to overlay: it is read like a foreign write
		ss.past.raise(v.HLC)
		ss.own.forget(w)
	default:
		ss.own.forget(w)
	}
	ss.restrictions.lift(func(r *restriction) bool {
		return r.opCount <= w.opCount || s.cfg.Broken.Has(causal.LiftByEarlierPut)
	})
}
