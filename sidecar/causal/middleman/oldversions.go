package middleman

import (
	"slices"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/keystate"
	"github.com/causalstore/causalstore/sidecar/value"
)

// oldVersions keeps the versions of keys that newer ones have replaced, for reads at a cut (PROTOCOL SNAP, MGET).
// It bounds what the states of all keys take.
//
// Of these keys it also keeps the records that are in storage, so that the next write need not read them.
type oldVersions struct {
	types       *value.Types
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
	keystate.Key
	stored causal.Record // what is in storage; zero: not kept
}

// replacement is the insertion of a key's newest old version.
type replacement struct {
	by  causal.Version
	key string
}

func newOldVersions(types *value.Types, maxBytes int) oldVersions {
	return oldVersions{types: types, keys: map[string]*keyVersions{}, maxBytes: maxBytes}
}

// of returns the versions of a key, to which something is to be added.
func (h *oldVersions) of(key string) *keyVersions {
	vs := h.keys[key]
	if vs == nil {
		vs = &keyVersions{}
		h.keys[key] = vs
	}
	return vs
}

// add records that the register `by` has replaced old in storage. Its value is not kept unless keep is set.
func (h *oldVersions) add(key string, old, by causal.Record, keep bool) {
	vs := h.of(key)
	before := vs.Len()
	h.added(key, vs, by, before, vs.Replace(h.types, old, by), keep)
}

// merge records that stored, which is in storage now, is what was there and some writes.
func (h *oldVersions) merge(key string, old, stored causal.Record, writes []*put, keep bool) {
	vs := h.of(key)
	before, bytes := vs.Len(), 0
	for _, p := range writes {
		bytes += vs.Merge(h.types, old, p.record)
	}
	h.added(key, vs, stored, before, bytes, keep)
}

// added counts what was added to a key, and keeps the bound.
func (h *oldVersions) added(key string, vs *keyVersions, stored causal.Record, before, bytes int, keep bool) {
	if keep {
		h.keepStored(vs, stored)
	}
	h.order = append(h.order, replacement{vs.Newest(), key})
	h.bytes += bytes + (vs.Len()-before)*oldVersionOverhead
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
		if vs := h.keys[r.key]; vs != nil && count[r.key] < vs.Len() {
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
	if vs == nil {
		return
	}
	before := vs.Len()
	if bytes, added := vs.Insert(h.types, rec); added {
		h.bytes += bytes + (vs.Len()-before)*oldVersionOverhead
		h.trim()
	}
}

// at returns the value of a key at a cut, and the HLC of the version after it. The caller has checked that the current
// version is above the cut.
func (h *oldVersions) at(key string, cut causal.HLC) (rec causal.Record, next causal.HLC, ok bool) {
	vs := h.keys[key]
	if vs == nil {
		return causal.Record{}, 0, false
	}
	return vs.At(h.types, cut)
}

// first returns the oldest write of a key that is kept and for which is holds; the zero Version: there is none.
func (h *oldVersions) first(key string, is func(causal.Version) bool) causal.Version {
	if vs := h.keys[key]; vs != nil {
		return vs.First(is)
	}
	return causal.Version{}
}

// forget removes all versions of a key.
func (h *oldVersions) forget(key string) {
	if vs := h.keys[key]; vs != nil {
		records, bytes := vs.Drop()
		h.removed(key, vs, records, bytes)
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
	if vs := h.keys[key]; vs != nil {
		records, bytes := vs.Fold(h.types, keepFrom)
		h.removed(key, vs, records, bytes)
	}
}

// removed counts what was removed from a key.
func (h *oldVersions) removed(key string, vs *keyVersions, records, bytes int) {
	h.bytes -= bytes + records*oldVersionOverhead
	if vs.IsEmpty() {
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
