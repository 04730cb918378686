package keystate

import (
	"slices"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/value"
)

// Key is what a shard keeps of a key beside the value in storage: a base, and the writes after it. So it says which
// value the key has at a cut.
//
// Invariant: the value at a cut at or above the version of the base, and below that of the value in storage, is the
// base joined with the writes at or below the cut. If the newest write is a register, it may be missing in writes:
// storage has it.
type Key struct {
	// writes are the base, and then writes in ascending order of their versions. The base may be Missing.
	writes []causal.Record
	newest causal.Version
	few    [1]causal.Record // of writes, if they are not more
	// merging: some of writes merges, so that the value at a cut is more than one of them.
	merging bool
	// joined are the writes behind the base up to an index, as one: reads go back to about the same cut. Every read
	// would join all of them else, of a key that is written often.
	joined joinedWrites
}

// joinedWrites are writes[1:end], as one; end 0: none.
type joinedWrites struct {
	rec causal.Record
	end int
}

// The joined writes end up to maxUnjoined before the newest one that was asked for, and move on to minUnjoined before
// it: the next read may be at a cut that is a little earlier.
const minUnjoined, maxUnjoined = 8, 24

// IsEmpty reports whether nothing is kept, not even a base.
func (k *Key) IsEmpty() bool { return len(k.writes) == 0 }

// Len returns the number of records that are kept.
func (k *Key) Len() int { return len(k.writes) }

// Newest returns the version of the newest write.
func (k *Key) Newest() causal.Version { return k.newest }

// Replace says that the write of a register has replaced the value old in storage.
func (k *Key) Replace(types *value.Types, old, by causal.Record) (kept int) {
	if k.merging || old.Value.Merges() {
		return k.Merge(types, old, by)
	}
	if k.writes == nil {
		k.writes = k.few[:0]
	}
	k.writes = append(k.writes, old)
	k.newest = by.Version
	return old.Value.Size()
}

// Merge says that a write was joined with the value old in storage, which is the base if there is none. It returns how
// many bytes of values it keeps for that.
func (k *Key) Merge(types *value.Types, old, write causal.Record) (kept int) {
	switch {
	case len(k.writes) == 0:
		k.writes = append(k.few[:0], old)
		k.newest = old.Version
		kept = old.Value.Size()
	case k.writes[len(k.writes)-1].Version.Less(k.newest): // the newest write is in storage only
		k.writes = append(k.writes, old)
		kept = old.Value.Size()
	}
	k.merging = k.merging || old.Value.Merges()
	n, ok := k.insert(types, write)
	if ok && k.newest.Less(write.Version) {
		k.newest = write.Version
	}
	return kept + n
}

// Insert adds a write that came after a greater one, which has replaced it in storage if it is a register. It returns
// how many bytes it keeps for it.
func (k *Key) Insert(types *value.Types, write causal.Record) (kept int, added bool) {
	if len(k.writes) == 0 {
		return 0, false
	}
	return k.insert(types, write)
}

func (k *Key) insert(types *value.Types, write causal.Record) (kept int, added bool) {
	base := &k.writes[0]
	if !Newer(&write, base) { // at every cut that can be asked for it is in the base
		if joined, changed := Add(types, *base, write); changed {
			kept = joined.Value.Size() - base.Value.Size()
			*base = joined
			k.merging = k.merging || joined.Value.Merges()
			return kept, true
		}
		return 0, false
	}
	i, known := slices.BinarySearchFunc(k.writes, write, func(a, b causal.Record) int {
		return a.Version.Compare(b.Version)
	})
	if known {
		return 0, false
	}
	k.writes = slices.Insert(k.writes, i, write)
	if i < k.joined.end {
		k.joined = joinedWrites{types.Join(k.joined.rec, write), k.joined.end + 1}
	}
	k.merging = k.merging || write.Value.Merges()
	return write.Value.Size(), true
}

// At returns the value at a cut below the version in storage, and the HLC of the write after it. ok is false if that is
// not kept any more.
func (k *Key) At(types *value.Types, cut causal.HLC) (rec causal.Record, next causal.HLC, ok bool) {
	next = k.newest.HLC
	for i := len(k.writes) - 1; i >= 0; i-- {
		if k.writes[i].Version.HLC <= cut {
			return k.upTo(types, i), next, true
		}
		next = k.writes[i].Version.HLC
	}
	return causal.Record{}, 0, false
}

// upTo returns the base joined with the writes up to one of them. Of registers, that is this one.
func (k *Key) upTo(types *value.Types, last int) causal.Record {
	if !k.merging {
		return k.writes[last]
	}
	if last == 0 {
		return k.writes[0]
	}
	if last+1-max(k.joined.end, 1) > maxUnjoined {
		k.joined = joinedWrites{k.joinWrites(types, last+1-minUnjoined), last + 1 - minUnjoined}
	}
	return types.Join(k.writes[0], k.joinWrites(types, last+1)) // the base may be large, and the others are small
}

// joinWrites returns writes[1:end], as one.
func (k *Key) joinWrites(types *value.Types, end int) causal.Record {
	from, rec := 2, k.writes[1]
	if k.joined.end > 1 && k.joined.end <= end {
		from, rec = k.joined.end, k.joined.rec
	}
	for _, w := range k.writes[from:end] {
		rec = types.Join(rec, w)
	}
	return rec
}

// First returns the oldest write behind the base for which is holds; the zero Version: there is none.
func (k *Key) First(is func(causal.Version) bool) causal.Version {
	for i := 1; i < len(k.writes); i++ {
		if v := k.writes[i].Version; is(v) {
			return v
		}
	}
	return causal.Version{}
}

// Fold makes the value at a cut the base, if there is one that is older: no lower cut will be asked for. It returns how
// many records and bytes of values it does not keep any more. A key of which only the value in storage can be asked for
// is empty afterwards.
func (k *Key) Fold(types *value.Types, cut causal.HLC) (records, bytes int) {
	if k.newest.HLC <= cut {
		return k.Drop()
	}
	last := 0
	for last+1 < len(k.writes) && k.writes[last+1].Version.HLC <= cut {
		last++
	}
	if last == 0 {
		return 0, 0
	}
	base := k.upTo(types, last)
	for _, w := range k.writes[:last+1] {
		bytes += w.Value.Size()
	}
	k.writes = slices.Delete(k.writes, 0, last)
	k.writes[0] = base
	if k.joined.end -= last; k.joined.end <= 1 {
		k.joined = joinedWrites{} // else it has writes of the base, too
	}
	return last, bytes - base.Value.Size()
}

// Drop forgets everything. It returns how many records and bytes of values that are.
func (k *Key) Drop() (records, bytes int) {
	for _, w := range k.writes {
		bytes += w.Value.Size()
	}
	records = len(k.writes)
	k.writes = slices.Delete(k.writes, 0, records)
	k.merging, k.joined = false, joinedWrites{}
	return records, bytes
}
