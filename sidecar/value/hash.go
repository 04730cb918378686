package value

import (
	"iter"
	"maps"
	"slices"

	"github.com/causalstore/causalstore/sidecar/causal"
)

// hash is the type of Redis hashes (PROTOCOL HOV). A hash is rows of maxima: a row for each field, which is alive since
// a version, or removed up to one; the deadline; and the newest register that has overwritten the key. Rows become one
// with others of their field by the greater version, so a value is the same in whichever order its writes came.
//
// A removal names the version of the field that its client has seen. So a field that is set at the same time elsewhere
// stays: adds win.
type hash struct{}

// WithHashes returns the types that ts knows, and hashes.
func (ts *Types) WithHashes() (*Types, error) { return ts.With(causal.Hash, hash{}) }

// Shipped are the types that the parts of this release know.
func Shipped() *Types {
	types, err := (*Types)(nil).WithHashes()
	if err != nil {
		panic(err) // it is the only one that merges
	}
	return types
}

// Join implements Type.
func (hash) Join(a, b causal.Record) causal.Record {
	h, other := decodeRows(a), decodeRows(b)
	h.join(&other)
	return h.record(maxVersion(a.Version, b.Version))
}

// After implements Type.
func (hash) After(r causal.Record, v causal.Version) (causal.Record, bool) {
	if !v.Less(r.Version) {
		return causal.Record{}, false
	}
	h := decodeRows(r)
	h.overwrite(v)
	return h.record(r.Version), true
}

// Writes implements Type. What is left of a write of which every row has a newer one is no row at all. The newest write
// is yielded nevertheless: it is the version of the record.
func (hash) Writes(r causal.Record) iter.Seq[causal.Record] {
	return func(yield func(causal.Record) bool) {
		writes := decodeRows(r).byWrite(r.Version)
		for _, v := range slices.SortedFunc(maps.Keys(writes), causal.Version.Compare) {
			if !yield(writes[v].record(v)) {
				return
			}
		}
	}
}

// Check implements Checked.
func (hash) Check(v causal.Value) bool {
	_, ok := parseRows(causal.Record{Value: v})
	return ok
}

// HasDead implements Collecting.
func (hash) HasDead(r causal.Record) bool {
	h := decodeRows(r)
	for i := range h.list {
		if h.list[i].dead {
			return true
		}
	}
	return len(h.list) == 0
}

// Collect implements Collecting.
func (hash) Collect(r causal.Record, horizon causal.HLC) (left causal.Record, ok bool) {
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
