package middleman

import (
	"slices"

	"github.com/causalstore/causalstore/sidecar/causal"
)

// oldVersions keeps the versions of keys that newer ones have replaced, for reads at a cut (PROTOCOL §9, "Snapshot
// reads of one key").
//
// Invariant: for each key the list is complete from its lowest entry up to the version in storage. A cut below the
// lowest entry cannot be answered, one at or above it can.
//
// Of these keys it also keeps the records that are in storage, so that the next write need not read them.
type oldVersions struct {
	keys        map[string]*keyVersions
	order       []replacement // the key of each insertion, oldest first
	bytes       int           // of old versions
	storedBytes int           // of records that are in storage
	maxBytes    int
}

// storedShare is the part of maxBytes that records in storage may take beside the old versions.
const storedShare = 4

// oldVersionOverhead is what an old version costs beside its value, in bytes.
const oldVersionOverhead = 128

// keyVersions are the versions of one key.
type keyVersions struct {
	old     []causal.Record // ascending; old[0] may be Missing
	current causal.Version
	few     [1]causal.Record // of old, if they are not more
	stored  causal.Record    // what is in storage; zero: not kept
}

// replacement is the insertion of a key's newest old version.
type replacement struct {
	by  causal.Version
	key string
}

func newOldVersions(maxBytes int) oldVersions {
	return oldVersions{keys: map[string]*keyVersions{}, maxBytes: maxBytes}
}

// add records that the write `by` has replaced old in storage. Its value is not kept unless keep is set.
func (h *oldVersions) add(key string, old, by causal.Record, keep bool) {
	vs := h.keys[key]
	if vs == nil {
		vs = &keyVersions{}
		vs.old = vs.few[:0]
		h.keys[key] = vs
	}
	vs.old = append(vs.old, old)
	vs.current = by.Version
	if keep {
		h.keepStored(vs, by)
	}
	h.order = append(h.order, replacement{by.Version, key})
	h.bytes += old.Value.Size() + oldVersionOverhead
	h.trim()
	if len(h.order) > 1024+2*h.bytes/oldVersionOverhead {
		h.compact()
	}
}

// stored returns the record of a key that is in storage. It returns false if that is not kept.
func (h *oldVersions) stored(key string) (causal.Record, bool) {
	vs := h.keys[key]
	if vs == nil || !vs.stored.Version.Written() {
		return causal.Record{}, false
	}
	return vs.stored, true
}

// keepStored keeps the record that is in storage, unless those of all keys would take more than their share.
func (h *oldVersions) keepStored(vs *keyVersions, rec causal.Record) {
	h.dropStored(vs)
	if size := rec.Value.Size() + oldVersionOverhead; h.storedBytes+size <= h.maxBytes/storedShare {
		vs.stored = rec
		h.storedBytes += size
	}
}

func (h *oldVersions) dropStored(vs *keyVersions) {
	if vs.stored.Version.Written() {
		h.storedBytes -= vs.stored.Value.Size() + oldVersionOverhead
		vs.stored = causal.Record{}
	}
}

// noteOtherWrite says that something else than the write of a put has changed what storage has of a key.
func (h *oldVersions) noteOtherWrite(key string) {
	if vs := h.keys[key]; vs != nil {
		h.dropStored(vs)
	}
}

// compact removes insertions of versions that are forgotten: a key keeps as many as it has versions.
func (h *oldVersions) compact() {
	kept, count := make([]replacement, 0, len(h.order)/2), map[string]int{}
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

// addSuperseded records a write that was processed after a greater one.
func (h *oldVersions) addSuperseded(key string, rec causal.Record) {
	vs := h.keys[key]
	if vs == nil || rec.Version.Less(vs.old[0].Version) {
		return
	}
	i, dup := slices.BinarySearchFunc(vs.old, rec, func(a, b causal.Record) int { return a.Version.Compare(b.Version) })
	if dup {
		return
	}
	vs.old = slices.Insert(vs.old, i, rec)
	h.bytes += rec.Value.Size() + oldVersionOverhead
	h.trim()
}

// at returns the newest old version at or below cut, and the HLC of the version after it. The caller has checked that
// the current version is above the cut.
func (h *oldVersions) at(key string, cut causal.HLC) (rec causal.Record, next causal.HLC, ok bool) {
	vs := h.keys[key]
	if vs == nil {
		return causal.Record{}, 0, false
	}
	next = vs.current.HLC
	for i := len(vs.old) - 1; i >= 0; i-- {
		if vs.old[i].Version.HLC <= cut {
			return vs.old[i], next, true
		}
		next = vs.old[i].Version.HLC
	}
	return causal.Record{}, 0, false
}

// forget removes all versions of a key.
func (h *oldVersions) forget(key string) {
	if vs := h.keys[key]; vs != nil {
		h.removeLowest(key, vs, len(vs.old))
	}
}

// prune removes what no cut at or above keepFrom can ask for.
func (h *oldVersions) prune(keepFrom causal.HLC) {
	n := 0
	for n < len(h.order) && h.order[n].by.HLC <= keepFrom {
		h.pruneKey(h.order[n].key, keepFrom)
		n++
	}
	clear(h.order[:n])
	h.order = h.order[n:]
}

func (h *oldVersions) pruneKey(key string, keepFrom causal.HLC) {
	vs := h.keys[key]
	if vs == nil {
		return
	}
	if vs.current.HLC <= keepFrom {
		h.removeLowest(key, vs, len(vs.old))
		return
	}
	keep := 0
	for keep+1 < len(vs.old) && vs.old[keep+1].Version.HLC <= keepFrom {
		keep++
	}
	h.removeLowest(key, vs, keep)
}

// removeLowest removes the n lowest versions of a key.
func (h *oldVersions) removeLowest(key string, vs *keyVersions, n int) {
	for _, r := range vs.old[:n] {
		h.bytes -= r.Value.Size() + oldVersionOverhead
	}
	vs.old = slices.Delete(vs.old, 0, n)
	if len(vs.old) == 0 {
		h.dropStored(vs)
		delete(h.keys, key)
	}
}

// trim keeps the bound: it forgets whole keys, the one with the oldest insertion first. Cuts below their current
// versions are then too old.
func (h *oldVersions) trim() {
	for h.bytes > h.maxBytes && len(h.order) > 0 {
		h.forget(h.order[0].key)
		h.order[0] = replacement{}
		h.order = h.order[1:]
	}
}
