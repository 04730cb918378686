package causal

import "slices"

// history holds the versions of keys that newer ones have replaced, for snapshot cuts (PROTOCOL §9).
//
// For each key the list is complete from its lowest entry up to the version in storage: a cut below the lowest entry
// cannot be answered, one at or above it can.
type history struct {
	keys  map[string]*versions
	order []historyRef // the key of each insertion, oldest first
	bytes int
	max   int
}

// historyOverhead is what an old version costs beside its value, in bytes.
const historyOverhead = 128

type versions struct {
	old     []Record // ascending; old[0] may be Missing
	current Version
}

type historyRef struct {
	replaced Version // by which write the key got its newest old version
	key      string
}

func (h *history) init(maxBytes int) { h.keys, h.max = map[string]*versions{}, maxBytes }

// overwritten notes that the write `by` replaced old in storage.
func (h *history) overwritten(key string, old Record, by Version) {
	vs := h.keys[key]
	if vs == nil {
		vs = &versions{}
		h.keys[key] = vs
	}
	vs.old = append(vs.old, old)
	vs.current = by
	h.order = append(h.order, historyRef{by, key})
	h.bytes += old.Value.Size() + historyOverhead
	h.trim()
	if len(h.order) > 1024+2*h.bytes/historyOverhead {
		h.compact()
	}
}

// compact drops the references to versions that are forgotten: a key has no more than it has versions.
func (h *history) compact() {
	kept, count := make([]historyRef, 0, len(h.order)/2), map[string]int{}
	for i := len(h.order) - 1; i >= 0; i-- {
		r := h.order[i]
		if vs := h.keys[r.key]; vs != nil && count[r.key] < len(vs.old) {
			count[r.key]++
			kept = append(kept, r)
		}
	}
	slices.Reverse(kept)
	h.order = kept
}

// superseded notes a write that was processed after a greater one.
func (h *history) superseded(key string, rec Record) {
	vs := h.keys[key]
	if vs == nil || rec.Version.Less(vs.old[0].Version) {
		return
	}
	i, dup := slices.BinarySearchFunc(vs.old, rec, func(a, b Record) int { return a.Version.Compare(b.Version) })
	if dup {
		return
	}
	vs.old = slices.Insert(vs.old, i, rec)
	h.bytes += rec.Value.Size() + historyOverhead
	h.trim()
}

// at returns the newest old version at or below cut, and the HLC of the one that came next; the caller has seen that the
// current one is above the cut.
func (h *history) at(key string, cut HLC) (rec Record, next HLC, ok bool) {
	vs := h.keys[key]
	if vs == nil {
		return Record{}, 0, false
	}
	next = vs.current.HLC
	for i := len(vs.old) - 1; i >= 0; i-- {
		if vs.old[i].Version.HLC <= cut {
			return vs.old[i], next, true
		}
		next = vs.old[i].Version.HLC
	}
	return Record{}, 0, false
}

// drop forgets a key.
func (h *history) drop(key string) {
	if vs := h.keys[key]; vs != nil {
		h.forget(key, vs, len(vs.old))
	}
}

// prune forgets what no cut at or above keepFrom can ask for.
func (h *history) prune(keepFrom HLC) {
	n := 0
	for n < len(h.order) && h.order[n].replaced.HLC <= keepFrom {
		h.pruneKey(h.order[n].key, keepFrom)
		n++
	}
	clear(h.order[:n])
	h.order = h.order[n:]
}

func (h *history) pruneKey(key string, keepFrom HLC) {
	vs := h.keys[key]
	if vs == nil {
		return
	}
	if vs.current.HLC <= keepFrom {
		h.forget(key, vs, len(vs.old))
		return
	}
	keep := 0
	for keep+1 < len(vs.old) && vs.old[keep+1].Version.HLC <= keepFrom {
		keep++
	}
	h.forget(key, vs, keep)
}

// forget drops the n lowest versions of a key.
func (h *history) forget(key string, vs *versions, n int) {
	for _, r := range vs.old[:n] {
		h.bytes -= r.Value.Size() + historyOverhead
	}
	clear(vs.old[:n])
	vs.old = vs.old[n:]
	if len(vs.old) == 0 {
		delete(h.keys, key)
	}
}

// trim keeps the bound by forgetting the oldest keys whole: cuts below their current version are then too old.
func (h *history) trim() {
	for h.bytes > h.max && len(h.order) > 0 {
		h.drop(h.order[0].key)
		h.order[0] = historyRef{}
		h.order = h.order[1:]
	}
}
