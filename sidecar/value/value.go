// Package value says how the writes of a key become one value. It is pure: a type is three functions without state, and
// every shard of every ring that has the same writes has the same value, in whichever order they came, and however
// often.
//
// Package keystate is the only caller of Join in the protocol.
package value

import (
	"fmt"
	"iter"
	"slices"

	"github.com/causalstore/causalstore/sidecar/causal"
)

// Type is a type of values that merge. Records of the type are what a put has brought, with the version of that, and
// all that Join and After make of them. The version of a record is that of the newest write in it.
//
// Join has to be associative, commutative and idempotent, together with Overwrite: package laws checks that. Both leave
// their arguments as they are; the result may refer to the same memory.
type Type interface {
	// Join returns the value of all writes in a and b, which are of the type.
	Join(a, b causal.Record) causal.Record
	// Overwrite returns what a register leaves of a record: it overwrites all that is older. ok is false if that is
	// nothing. What is left remembers the register, so that older writes that are joined to it later are overwritten,
	// too.
	Overwrite(r, register causal.Record) (left causal.Record, ok bool)
	// Writes yields the writes that a record consists of, in ascending order of their versions, each as its put has
	// brought it.
	Writes(r causal.Record) iter.Seq[causal.Record]
}

// Dated is a type that tells the versions of the writes in a value without making records of them.
type Dated interface {
	// Versions yields the versions of what Writes yields, in any order and perhaps repeatedly.
	Versions(r causal.Record) iter.Seq[causal.Version]
}

// Checked is a type whose values may be damaged: they come from other processes.
type Checked interface {
	// Check reports whether a value is one of the type.
	Check(v causal.Value) bool
}

// Collecting is a type whose values remember what was removed from them, until no older write can arrive any more.
type Collecting interface {
	// HasDead reports whether a value may have something to collect, now or later.
	HasDead(r causal.Record) bool
	// Collect returns what is left of a value without what was removed from it by writes at or below a horizon: all
	// writes up to there are joined in it. ok is false if that is nothing, and the value is to be removed.
	Collect(r causal.Record, horizon causal.HLC) (left causal.Record, ok bool)
}

// Types are the types that a part of a deployment knows. A nil *Types knows registers only, as all parts do that ship.
type Types struct {
	id      causal.TypeID
	merging Type
}

// With returns the types that ts knows, and t. A key may be written as values of two types; nothing carries two values
// that merge side by side, so one merging type is all there can be.
func (ts *Types) With(id causal.TypeID, t Type) (*Types, error) {
	switch {
	case id == causal.Register || id == causal.Operation:
		return nil, fmt.Errorf("type %d is that of registers or of operations: give the new one another number", id)
	case ts != nil && ts.merging != nil:
		return nil,
			fmt.Errorf(
				"there is a merging type already, of number %d: a key with values of two such types would lose one "+
					"of them", ts.id)
	}
	return &Types{id: id, merging: t}, nil
}

// Knows reports whether values of a type can be joined here. Nothing may be made of others: they are refused where they
// come in.
func (ts *Types) Knows(id causal.TypeID) bool {
	return id == causal.Register || ts != nil && ts.merging != nil && ts.id == id
}

// Accepts reports whether a value can be joined here: its type is known, and it is one of that.
func (ts *Types) Accepts(v *causal.Value) bool {
	if !v.Merges() {
		return true
	}
	return ts.Knows(v.Type) && ts.isWhole(v)
}

func (ts *Types) isWhole(v *causal.Value) bool {
	checked, ok := ts.merging.(Checked)
	return !ok || checked.Check(*v)
}

// HasDead reports whether a value has something to collect, now or later.
func (ts *Types) HasDead(r *causal.Record) bool {
	if !r.Value.Merges() {
		return false
	}
	collecting, ok := ts.of(r.Value.Type).(Collecting)
	return ok && collecting.HasDead(*r)
}

// Collect returns what is left of a merging value without what was removed at or below a horizon, up to which all
// writes are joined in it. ok is false if that is nothing.
func (ts *Types) Collect(r causal.Record, horizon causal.HLC) (left causal.Record, ok bool) {
	collecting, is := ts.of(r.Value.Type).(Collecting)
	if !is {
		return r, true
	}
	return collecting.Collect(r, horizon)
}

// of returns a merging type. That it is known was checked where the value came in.
func (ts *Types) of(id causal.TypeID) Type {
	if !ts.Knows(id) || id == causal.Register {
		panic(fmt.Sprintf("value: a value of type %d, which this part does not know, was not refused where it came in",
			id))
	}
	return ts.merging
}

// Join returns the value of all writes in two records of a key. Of two registers the one with the greater version wins.
// A register overwrites what of a merging value is older, as SET and DEL do.
func (ts *Types) Join(a, b causal.Record) causal.Record {
	if !a.Value.Merges() && !b.Value.Merges() {
		return joinRegisters(a, b)
	}
	return ts.joinMerging(a, b)
}

func (ts *Types) joinMerging(a, b causal.Record) causal.Record {
	switch {
	case a.Value.Type == b.Value.Type:
		return ts.of(a.Value.Type).Join(a, b)
	case !a.Value.Merges():
		return ts.overwrite(b, a)
	default: // at most one type merges, so the other one is that of registers
		return ts.overwrite(a, b)
	}
}

// overwrite returns what a register leaves of a merging value: the register itself, if that is nothing.
func (ts *Types) overwrite(merging, register causal.Record) causal.Record {
	if left, ok := ts.of(merging.Value.Type).Overwrite(merging, register); ok {
		return left
	}
	return register
}

// Versions returns the versions of the writes that a record consists of and that are wanted, in ascending order.
func (ts *Types) Versions(r *causal.Record, wanted func(causal.Version) bool) (found []causal.Version) {
	if !r.Value.Merges() {
		if wanted(r.Version) {
			found = append(found, r.Version)
		}
		return found
	}
	last := causal.Version{} // the rows of one write are mostly together
	for v := range ts.versionsOf(r) {
		if v == last {
			continue
		}
		if last = v; wanted(v) {
			found = append(found, v)
		}
	}
	slices.SortFunc(found, causal.Version.Compare)
	return slices.Compact(found)
}

func (ts *Types) versionsOf(r *causal.Record) iter.Seq[causal.Version] {
	if dated, ok := ts.of(r.Value.Type).(Dated); ok {
		return dated.Versions(*r)
	}
	return func(yield func(causal.Version) bool) {
		for w := range ts.Writes(*r) {
			if !yield(w.Version) {
				return
			}
		}
	}
}

// Writes yields the writes that a record consists of, in ascending order of their versions. Those that a register has
// overwritten are none.
func (ts *Types) Writes(r causal.Record) iter.Seq[causal.Record] {
	if r.Value.Merges() {
		return ts.of(r.Value.Type).Writes(r)
	}
	return func(yield func(causal.Record) bool) { yield(r) }
}
