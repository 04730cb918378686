package causal

import (
	"cmp"
	"encoding/binary"
	"errors"
	"math"
	"slices"
)

// Reach is how far a storage had come: in which start of its shard, and up to which of its changes. Coordinators
// remember it of each shard, so that an older copy of a storage is noticed (PROTOCOL OLD). The
// zero Reach: nothing is known.
type Reach struct {
	Incarnation uint64
	Changes     uint64
}

// Max returns the later one of what was heard of one storage.
func (r Reach) Max(o Reach) Reach {
	if cmp.Or(cmp.Compare(r.Incarnation, o.Incarnation), cmp.Compare(r.Changes, o.Changes)) < 0 {
		return o
	}
	return r
}

// Position is how far a storage has come, as it says itself.
type Position struct {
	// Storage names what counts the changes: positions of different ones cannot be compared.
	Storage uint64
	Changes uint64
}

// anyChanges stands for a number of changes that is not known: anything may have come before it.
const anyChanges = math.MaxUint64

// maxStarts bounds the starts that a Lineage has.
const maxStarts = 256

// Lineage is the history of what a storage holds: the starts of the shard on it, in ascending order, each with the
// changes that came before it. What an earlier copy lacks is not in its lineage. It is never changed in place.
type Lineage struct {
	Storage uint64 // that counts the changes of the last start
	Starts  []Reach
}

// With returns the lineage with another start, on a storage that has come to a position. At the bound the oldest start
// is forgotten.
func (l Lineage) With(incarnation uint64, at Position) Lineage {
	if len(l.Starts) > 0 && at.Storage != l.Storage {
		at.Changes = anyChanges // how far the one before had come is not known any more
	}
	starts := append(slices.Clone(l.Starts), Reach{incarnation, at.Changes})
	return Lineage{at.Storage, starts[max(0, len(starts)-maxStarts):]}
}

// Last returns the incarnation of the last start; 0: there was none.
func (l Lineage) Last() uint64 {
	if len(l.Starts) == 0 {
		return 0
	}
	return l.Starts[len(l.Starts)-1].Incarnation
}

// HasPast reports whether there was a start before the present one, which is the last one.
func (l Lineage) HasPast() bool { return len(l.Starts) > 1 }

// Holds reports whether a storage has what somebody has heard of. What is older than the lineage is not judged.
func (l Lineage) Holds(r Reach) bool {
	if len(l.Starts) == 0 || r.Incarnation < l.Starts[0].Incarnation {
		return true
	}
	i, found := slices.BinarySearchFunc(l.Starts, r.Incarnation, func(s Reach, n uint64) int {
		return cmp.Compare(s.Incarnation, n)
	})
	if !found {
		return false // it was heard of a start on what another copy holds
	}
	return i == len(l.Starts)-1 || r.Changes <= l.Starts[i+1].Changes
}

// Encode returns l as bytes.
func (l Lineage) Encode() []byte {
	b := binary.AppendUvarint(nil, l.Storage)
	for _, s := range l.Starts {
		b = binary.AppendUvarint(binary.AppendUvarint(b, s.Incarnation), s.Changes)
	}
	return b
}

// ParseLineage is the inverse of Encode.
func ParseLineage(b []byte) (l Lineage, err error) {
	d := NewFieldReader(b)
	l.Storage = d.Uvarint()
	for d.Left() > 0 && !d.Failed() {
		l.Starts = append(l.Starts, Reach{d.Uvarint(), d.Uvarint()})
	}
	ascends := slices.IsSortedFunc(l.Starts, func(a, b Reach) int { return cmp.Compare(a.Incarnation, b.Incarnation) })
	if d.Failed() || !ascends || len(l.Starts) > maxStarts {
		return Lineage{},
			errors.New("it is no list of starts; the storage is damaged, or belongs to another application")
	}
	return l, nil
}
