package value

import (
	"iter"
	"maps"
	"slices"

	"github.com/causalstore/causalstore/sidecar/causal"
)

// collection is the type of hashes, sets, sorted sets, lists and HyperLogLogs (PROTOCOL HOV). A collection is rows of
// maxima: a row for each element, which is alive since a version, or removed up to one; deadlines; and the newest
// register that has overwritten the key. Rows become one with others of their element by the greater version, so a
// value is the same in whichever order its writes came.
//
// A removal names the version of the element that its client has seen. So an element that is added at the same time
// elsewhere stays: adds win.
//
// A value may have elements of several kinds, if data centers have made a hash and a set of one key at the same time.
// The kind of the newest element shows; the next write removes the others.
type collection struct{}

// WithCollections returns the types that ts knows, and collections.
func (ts *Types) WithCollections() (*Types, error) { return ts.With(causal.Collection, collection{}) }

// Shipped are the types that the parts of this release know.
func Shipped() *Types {
	types, err := (*Types)(nil).WithCollections()
	if err != nil {
		panic(err) // it is the only one that merges
	}
	return types
}

// Join implements Type.
func (collection) Join(a, b causal.Record) causal.Record {
	h, other := decodeRows(a), decodeRows(b)
	h.join(&other)
	return h.record(maxVersion(a.Version, b.Version))
}

// Overwrite implements Type. The register is the text of the key: it counts beside what data centers have added to it,
// and shows unless another element is newer.
func (collection) Overwrite(r, register causal.Record) (causal.Record, bool) {
	if !register.Version.Less(r.Version) {
		return causal.Record{}, false
	}
	h, text := decodeRows(r), rowsOfRegister(register)
	h.join(&text)
	return h.record(r.Version), true
}

// Writes implements Type. What is left of a write of which every row has a newer one is no row at all. The newest write
// is yielded nevertheless: it is the version of the record.
func (collection) Writes(r causal.Record) iter.Seq[causal.Record] {
	return func(yield func(causal.Record) bool) {
		writes := decodeRows(r).byWrite(r.Version)
		for _, v := range slices.SortedFunc(maps.Keys(writes), causal.Version.Compare) {
			if !yield(writes[v].record(v)) {
				return
			}
		}
	}
}

// Versions implements Dated.
func (collection) Versions(r causal.Record) iter.Seq[causal.Version] {
	return func(yield func(causal.Version) bool) {
		h := decodeRows(r)
		if !yield(r.Version) || h.overwritten.Written() && !yield(h.overwritten) {
			return
		}
		for i := range h.deadlines {
			if !yield(h.deadlines[i].at) {
				return
			}
		}
		for i := range h.list {
			r := &h.list[i]
			if v := r.writtenBy(); v.Written() && !yield(v) {
				return
			}
			for j := range r.sums {
				if !yield(r.sums[j].at) {
					return
				}
			}
		}
	}
}

// Check implements Checked.
func (collection) Check(v causal.Value) bool {
	h, ok := parseRows(causal.Record{Value: v})
	return ok && KindOf(v) == h.shown()
}

// HasDead implements Collecting.
func (collection) HasDead(r causal.Record) bool {
	h := decodeRows(r)
	for i := range h.list {
		if r := &h.list[i]; r.dead && !r.isBare() {
			return true
		}
	}
	return len(h.list) == 0
}

// Collect implements Collecting.
func (collection) Collect(r causal.Record, horizon causal.HLC) (left causal.Record, ok bool) {
	h := decodeRows(r)
	h.collect(horizon)
	if len(h.list) == 0 && r.Version.HLC <= horizon {
		return causal.Record{}, false
	}
	return h.record(r.Version), true
}

func maxVersion(a, b causal.Version) causal.Version {
	if a.Less(b) {
		return b
	}
	return a
}
