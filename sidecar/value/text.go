package value

import (
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/operation"
)

// A string is a register, until somebody adds to the number that it is, as INCR does. Then it is a collection with one
// element of the kind Text: its row is the newest register, and the sums are what data centers have added to that. So
// what several of them add at the same time adds up, and a register overwrites what was added before, as SET and DEL
// do.

// text is the element of strings.
var text = element{kind: Text}

// rowsOf decodes a value of any type.
func rowsOf(r causal.Record) rows {
	if r.Value.Type == causal.Collection {
		return decodeRows(r)
	}
	return rowsOfRegister(r)
}

// rowsOfRegister returns a register as rows: those of the string, with its deadline.
func rowsOfRegister(r causal.Record) rows {
	h := rows{overwritten: r.Version}
	if r.Value.Tombstone || !r.Version.Written() {
		return h
	}
	h.list = []row{{element: text, payload: string(r.Value.Data), at: r.Version}}
	h.deadlines = deadlines{{at: r.Version, ms: r.Value.ExpireAtMs}}
	return h
}

// isRegister reports whether rows, of which v is the newest write, are those of a register.
func (h *rows) isRegister(v causal.Version) bool {
	if !v.Written() || h.overwritten != v || h.collected != 0 || len(h.list) != len(h.deadlines) || len(h.list) > 1 {
		return false
	}
	if len(h.list) == 0 {
		return true
	}
	r := &h.list[0]
	return r.element == text && !r.dead && r.at == v && len(r.sums) == 0 && h.deadlines[0].at == v
}

func (h *rows) register(v causal.Version) causal.Record {
	r := causal.Record{Version: v, Value: causal.Value{Tombstone: true}}
	if len(h.list) == 1 {
		r.Value = causal.Value{Data: []byte(h.list[0].payload), ExpireAtMs: h.deadlines[0].ms}
	}
	return r
}

// TextOf returns a value as those see it who read strings: a string to which numbers were added as a register. Other
// values it returns as they are.
func TextOf(v causal.Value) causal.Value {
	if KindOf(v) != Text {
		return v
	}
	h := decodeRows(causal.Record{Value: v})
	return causal.Value{Data: []byte(h.find(text).text()), ExpireAtMs: v.ExpireAtMs}
}

// WrittenText returns the string that an operation has made, by what it has put.
func WrittenText(put causal.Value) causal.Value {
	if KindOf(put) != Text {
		return put
	}
	v := TextOf(put)
	h := decodeRows(causal.Record{Value: put})
	if r := h.find(text); len(r.sums) > 0 {
		v.Data = []byte(r.sums[len(r.sums)-1].total)
	}
	return v
}

// Executing is a type on whose values operations can be executed.
type Executing interface {
	// IsExecutable reports whether operations can be executed on a value.
	IsExecutable(v causal.Value) bool
	// Execute executes an operation on a value, which may be a register, for clients of a line. Next of the outcome is
	// what is to be put.
	Execute(o *operation.Operation, on causal.Record, nowMs int64, line Line) operation.Outcome
}

// IsExecutable implements Executing: operations are for strings.
func (collection) IsExecutable(v causal.Value) bool {
	kind := KindOf(v)
	return kind == Text || kind == None
}

// Execute implements Executing.
func (collection) Execute(o *operation.Operation, on causal.Record, nowMs int64, line Line) operation.Outcome {
	if IsForeign(on) {
		return o.Apply(on.Value, nowMs)
	}
	c := ChangeOf(on)
	if !operation.Exists(on.Value, nowMs) {
		c.Clear()
	}
	r := o.Apply(c.Text(), nowMs)
	if r.Writes && (on.Value.Merges() || o.Adds()) && c.Do(o, &r, line) {
		r.Next = c.Value()
	}
	return r
}

// IsForeign reports whether a string has no version: the store has not written it. It is no row to add to.
func IsForeign(r causal.Record) bool {
	return !r.Value.Merges() && len(r.Value.Data) > 0 && !r.Version.Written()
}

// Text returns the string that a change has made so far; a missing one is a tombstone.
func (c *Change) Text() causal.Value {
	data, ok := c.Get("")
	if c.kind != Text || !ok {
		return causal.Value{Tombstone: true}
	}
	return causal.Value{Data: []byte(data), ExpireAtMs: c.DeadlineMs()}
}

// Do changes a string as an operation does that was applied to it. It returns false, and changes nothing, if the
// operation makes another string of it: that is put as a register.
func (c *Change) Do(o *operation.Operation, r *operation.Outcome, line Line) bool {
	switch {
	case r.Next.Tombstone:
		return false
	case o.Adds() && line != 0:
		c.Increment(Text, "", string(r.Next.Data), line)
	case (o.Kind == operation.Expire || o.Kind == operation.Persist) && c.Kind() == Text:
		c.ExpireAt(r.Next.ExpireAtMs)
	default:
		return false
	}
	return true
}

// executing returns the type of merging values, if operations can be executed on them.
func (ts *Types) executing() (e Executing, ok bool) {
	if ts == nil {
		return nil, false
	}
	e, ok = ts.merging.(Executing)
	return e, ok
}

// IsExecutable reports whether operations can be executed on a value.
func (ts *Types) IsExecutable(v *causal.Value) bool {
	if !v.Merges() {
		return true
	}
	e, ok := ts.executing()
	return ok && ts.Knows(v.Type) && e.IsExecutable(*v)
}

// Execute executes an operation on a value on which it can be, for clients of a line; 0: of none. Next of the outcome
// is what is to be put.
func (ts *Types) Execute(o *operation.Operation, on causal.Record, nowMs int64, line Line) operation.Outcome {
	if e, ok := ts.executing(); ok && (on.Value.Merges() || line != 0) {
		return e.Execute(o, on, nowMs, line)
	}
	return o.Apply(on.Value, nowMs)
}
