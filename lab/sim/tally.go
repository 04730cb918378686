package sim

import (
	"encoding/binary"
	"iter"
	"slices"
	"strings"

	"github.com/causalstore/causalstore/history"
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/operation"
	"github.com/causalstore/causalstore/sidecar/value"
	"github.com/causalstore/causalstore/topology"
)

// tally is a type of values that merge, for the simulator only: a counter that remembers each of its increments by a
// name. So a value tells which writes are in it, how often, and in particular which are not.
//
// The data of a tally are the version of the newest register that has overwritten it, the HLC up to which it was
// collected, then all increments but the newest, in ascending order, each with its version; then the name of the
// newest, of which the record has the version. So what a put brings is a tally of one increment.
type tally struct {
	// doubles makes increments that both sides have count twice, for the fault DeltaDoubled.
	doubles bool
	// format is that of tallies; 0: there are no parts of an earlier version.
	format causal.Format
	// executedOn has on which increments each one was executed last that a home has executed, by its name.
	executedOn map[string][]history.Part
}

// IsExecutable implements value.Executing.
func (tally) IsExecutable(causal.Value) bool { return true }

// Execute implements value.Executing: an append adds an increment to a tally.
func (y tally) Execute(o *operation.Operation, on causal.Record, nowMs int64, _ value.Line) operation.Outcome {
	if o.Kind != operation.Append {
		return o.Apply(on.Value, nowMs)
	}
	y.executedOn[string(o.Data)] = nil
	if on.Value.Merges() {
		y.executedOn[string(o.Data)] = decodeTally(on).increments
	}
	return operation.Outcome{Next: increment(string(o.Data)), Writes: true}
}

// Reads implements value.Formatted.
func (y tally) Reads() causal.Format { return y.format }

// FormatOf implements value.Formatted.
func (y tally) FormatOf(causal.Value) causal.Format { return y.format }

// tallyType is the number of the type.
const tallyType causal.TypeID = 255

// tallyTypes are registers, and tallies of a format. executedOn is noted what homes execute on.
func tallyTypes(format causal.Format, broken causal.Mutations, executedOn map[string][]history.Part) *value.Types {
	types, err := (*value.Types)(nil).With(tallyType, tally{broken.Has(causal.DeltaDoubled), format, executedOn})
	if err != nil {
		panic(err) // it is the only one
	}
	return types
}

// increment returns the value of the put of one increment.
func increment(name string) causal.Value {
	return tallied{increments: []history.Part{{Value: name}}}.record().Value
}

// tallied is a tally that was decoded.
type tallied struct {
	overwritten causal.Version // the newest register that it has met
	// collected: of what is at or below it, every increment that counts is here.
	collected  causal.HLC
	increments []history.Part
}

func decodeTally(r causal.Record) (t tallied) {
	d := causal.NewFieldReader(r.Value.Data)
	version := func() causal.Version {
		return causal.Version{HLC: causal.HLC(d.Uvarint()), Origin: topology.Origin(d.Uvarint())}
	}
	t.overwritten, t.collected = version(), causal.HLC(d.Uvarint())
	for range d.Uvarint() {
		v := version()
		t.increments = append(t.increments, history.Part{Version: v, Value: string(d.Take(d.Uvarint()))})
	}
	t.increments = append(t.increments, history.Part{Version: r.Version, Value: string(d.Take(uint64(d.Left())))})
	if d.Failed() {
		panic("sim: a damaged tally")
	}
	return t
}

// record returns the record of a tally that has increments.
func (t tallied) record() causal.Record {
	appendVersion := func(b []byte, v causal.Version) []byte {
		return binary.AppendUvarint(binary.AppendUvarint(b, uint64(v.HLC)), uint64(v.Origin))
	}
	last := len(t.increments) - 1
	b := binary.AppendUvarint(appendVersion(nil, t.overwritten), uint64(t.collected))
	b = binary.AppendUvarint(b, uint64(last))
	for _, p := range t.increments[:last] {
		b = binary.AppendUvarint(appendVersion(b, p.Version), uint64(len(p.Value)))
		b = append(b, p.Value...)
	}
	newest := t.increments[last]
	return causal.Record{Version: newest.Version,
		Value: causal.Value{Data: append(b, newest.Value...), Type: tallyType}}
}

// overwrite removes what a register at v overwrites.
func (t *tallied) overwrite(v causal.Version) {
	if t.overwritten.Less(v) {
		t.overwritten = v
	}
	t.increments = slices.DeleteFunc(t.increments, func(p history.Part) bool { return !t.overwritten.Less(p.Version) })
}

// Join implements value.Type.
func (y tally) Join(a, b causal.Record) causal.Record {
	t, other := decodeTally(a), decodeTally(b)
	t.dropCollected(&other)
	other.dropCollected(&t)
	t.collected = max(t.collected, other.collected)
	t.increments = append(t.increments, other.increments...)
	slices.SortStableFunc(t.increments, func(a, b history.Part) int { return a.Version.Compare(b.Version) })
	if !y.doubles {
		t.increments = slices.Compact(t.increments)
	}
	if t.overwrite(other.overwritten); len(t.increments) == 0 {
		return a // collected too early on both sides
	}
	return t.record()
}

// dropCollected removes the increments that another tally would have, if they counted.
func (t *tallied) dropCollected(other *tallied) {
	t.increments = slices.DeleteFunc(t.increments, func(p history.Part) bool {
		return p.Version.HLC <= other.collected && !slices.Contains(other.increments, p)
	})
}

// HasDead implements value.Collecting.
func (tally) HasDead(r causal.Record) bool { return !decodeTally(r).overwritten.IsZero() }

// Collect implements value.Collecting.
func (tally) Collect(r causal.Record, horizon causal.HLC) (causal.Record, bool) {
	t := decodeTally(r)
	t.collected = max(t.collected, horizon)
	if t.overwritten.HLC <= t.collected {
		t.overwritten = causal.Version{}
	}
	return t.record(), true
}

// Overwrite implements value.Type.
func (tally) Overwrite(r, register causal.Record) (causal.Record, bool) {
	t := decodeTally(r)
	if t.overwrite(register.Version); len(t.increments) == 0 {
		return causal.Record{}, false
	}
	return t.record(), true
}

// Writes implements value.Type.
func (tally) Writes(r causal.Record) iter.Seq[causal.Record] {
	return func(yield func(causal.Record) bool) {
		for _, p := range decodeTally(r).increments {
			if !yield(tallied{increments: []history.Part{p}}.record()) {
				return
			}
		}
	}
}

// readOf returns what the history says of a value that was read.
func readOf(key string, r causal.Record) history.Read {
	read := history.Read{Key: key, Version: written(r.Version), Missing: isGone(r.Value)}
	if r.Value.Type == tallyType {
		read.Parts = decodeTally(r).increments
	} else {
		read.Value = string(r.Value.Data)
	}
	return read
}

// isGone reports whether clients take a value for missing. They do that with a register that expires from the start, so
// that it is one more kind of delete, which leaves no tombstone when it is dropped.
func isGone(v causal.Value) bool { return v.Tombstone || v.ExpireAtMs != 0 }

// shownValue returns a value in a form for people.
func shownValue(r causal.Record) string {
	switch read := readOf("", r); {
	case read.Missing:
		return "missing"
	case len(read.Parts) > 0:
		return shownParts(read.Parts)
	}
	return string(r.Value.Data)
}

func shownParts(parts []history.Part) string {
	names := make([]string, len(parts))
	for i, p := range parts {
		names[i] = p.Value
	}
	return strings.Join(names, "+")
}
