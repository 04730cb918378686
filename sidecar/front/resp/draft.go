package resp

import (
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/operation"
	"github.com/causalstore/causalstore/sidecar/value"
)

// draft is a key as commands that are executed together have made of it so far: those of a pipeline, or of EXEC.
type draft struct {
	base    causal.Record // as it was read
	value   causal.Value  // of a string, or a tombstone
	change  *value.Change // of a collection, or of a string to which numbers were added; nil: the key is none
	written bool
	// isSet says that value is another string than was read.
	isSet bool
}

func newDraft(base causal.Record, nowMs int64) *draft {
	d := &draft{base: base, value: base.Value}
	if base.Value.Merges() {
		d.change = value.ChangeOf(base)
		if !operation.Exists(base.Value, nowMs) {
			d.change.Clear()
		}
	}
	return d
}

// draftOf returns what the commands so far have made of a key, as it was read. Within EXEC, these are all of the
// transaction.
func (c *connection) draftOf(name string, read causal.Record) *draft {
	if o, ok := c.session.Session.(*overlay); ok {
		return o.draftOf(name, c.nowMs())
	}
	return newDraft(read, c.nowMs())
}

// isCollection reports whether the key is a collection with elements.
func (d *draft) isCollection() bool {
	return d.change != nil && d.change.Kind() != value.None && d.change.Kind() != value.Text
}

// text returns the string that the key is, if it is no collection.
func (d *draft) text() causal.Value {
	if d.change == nil {
		return d.value
	}
	return d.change.Text()
}

// setText makes the key another string.
func (d *draft) setText(v causal.Value) { d.value, d.change, d.isSet = v, nil, true }

// current returns the value as commands read it.
func (d *draft) current() causal.Value {
	switch {
	case !d.isCollection():
		return d.text()
	case d.change.IsEmpty():
		return d.base.Value
	}
	return d.change.Result()
}

// exists reports whether the key exists.
func (d *draft) exists(nowMs int64) bool {
	return d.isCollection() || operation.Exists(d.text(), nowMs)
}

// set replaces the value by a string, or deletes the key.
func (d *draft) set(v causal.Value) {
	switch {
	case v.Tombstone && d.isCollection():
		d.change.Clear()
	case v.Merges(): // it is what a draft has returned
	default:
		d.setText(v)
	}
	d.written = true
}

// collection returns the collection of a kind that the key is, to read and change it; a missing key is an empty one.
func (d *draft) collection(kind value.Kind, nowMs int64) (*value.Change, error) {
	isString := !d.isCollection() && operation.Exists(d.text(), nowMs)
	switch {
	case isString && kind == value.HyperLogLog:
		err := d.convert()
		return d.change, err
	case d.isCollection() && d.change.Kind() != kind, isString:
		return nil, errWrongType
	case d.change == nil:
		d.change = d.newChange()
	}
	return d.change, nil
}

// newChange returns the collection that takes the place of a string, or of nothing.
func (d *draft) newChange() *value.Change {
	ch := value.ChangeOf(d.base)
	ch.Clear() // of a string that has expired, or of what a string has replaced meanwhile
	return ch
}

// edit executes a command on the collection, or the string, that the key is.
func (d *draft) edit(e *edit, nowMs int64) (o operation.Outcome) {
	if e.text != nil {
		return d.editText(e, nowMs)
	}
	before := d.change
	ch, err := d.collection(e.kind, nowMs)
	if err == nil {
		o.Exists = d.isCollection()
		o.Writes, err = e.apply(ch)
	}
	if o.Err = err; err != nil || !o.Writes {
		d.change, o.Writes = before, false
		return o
	}
	d.written = true
	o.Next = d.put()
	return o
}

// editText executes a command on the string that the key is; a missing key is an empty one. It keeps the expire time.
func (d *draft) editText(e *edit, nowMs int64) (o operation.Outcome) {
	old := causal.Value{}
	if o.Exists = d.exists(nowMs); o.Exists {
		var ok bool
		if old, ok = asString(d.current()); !ok {
			return operation.Outcome{Exists: true, Err: errWrongType}
		}
	}
	next, err := e.text(old.Data)
	if o.Err = err; err == nil && next != nil {
		o.Next, o.Writes = causal.Value{Data: next, ExpireAtMs: old.ExpireAtMs}, true
		d.set(o.Next)
	}
	return o
}

// apply executes an operation on the key, for clients of a line. Collections have only those that are for every kind of
// value; a HyperLogLog has all, as it is a string to clients.
func (d *draft) apply(o *operation.Operation, nowMs int64, line value.Line) operation.Outcome {
	if !d.isCollection() {
		return d.applyToText(o, nowMs, line)
	}
	old := causal.Value{ExpireAtMs: d.change.DeadlineMs()}
	if o.ReturnsOld || !isForEveryKind(o.Kind) {
		var ok bool
		if old, ok = asString(d.current()); !ok {
			return operation.Outcome{Exists: true, Err: errWrongType}
		}
	}
	r := o.Apply(old, nowMs)
	if !r.Writes {
		return r
	}
	switch {
	case r.Next.Tombstone:
		d.change.Clear()
	case o.Kind == operation.Expire, o.Kind == operation.Persist:
		d.change.ExpireAt(r.Next.ExpireAtMs)
	default:
		d.setText(r.Next)
	}
	d.written = true
	return r
}

// applyToText is apply for a string, or a missing key. What is added to the number that was read adds up with what
// other lines add to it.
func (d *draft) applyToText(o *operation.Operation, nowMs int64, line value.Line) operation.Outcome {
	r := o.Apply(d.text(), nowMs)
	if !r.Writes {
		return r
	}
	if d.change == nil && !d.isSet && o.Adds() && line != 0 && !value.IsForeign(d.base) {
		if d.change = value.ChangeOf(d.base); !r.Exists {
			d.change.Clear()
		}
	}
	if d.written = true; d.change == nil || !d.change.Do(o, &r, line) {
		d.setText(r.Next)
	}
	return r
}

// isForEveryKind reports whether an operation does not ask for a string.
func isForEveryKind(k operation.Kind) bool {
	switch k {
	case operation.Set, operation.Delete, operation.Expire, operation.Persist:
		return true
	}
	return false
}

// put returns the value that is to be put for all that the commands have done. A collection without elements hides a
// string that was there, as a tombstone would, and leaves what other data centers add at the same time.
func (d *draft) put() causal.Value {
	if d.change == nil {
		return d.value
	}
	return d.change.Value()
}

// replace makes the key what another one is, with its expire time.
func (d *draft) replace(from *draft) {
	d.written = true
	if !from.isCollection() {
		d.setText(from.text())
		return
	}
	d.change = value.ChangeOf(d.base)
	d.change.Clear()
	for name, payload := range from.change.All() {
		addElement(d.change, from.change.Kind(), name, payload)
	}
	d.change.ExpireAt(from.change.DeadlineMs())
}

// changeKeys reads keys, lets f change them, and puts what it has changed in the order of the keys: in one step, in an
// exact session, and again while others write the keys meanwhile. They are given by the names under which they are
// stored; two may be the same.
func (c *connection) changeKeys(names []string, f func(ds []*draft) error) error {
	return c.retryConflicts(func() error {
		defer c.lockStored(names...)()
		records, err := c.recordsToWrite(names)
		if err != nil {
			return err
		}
		ds, distinct := make([]*draft, len(names)), make(map[string]*draft, len(names))
		for i, name := range names {
			if distinct[name] == nil {
				distinct[name] = c.draftOf(name, records[i])
				distinct[name].written = false
			}
			ds[i] = distinct[name]
		}
		if err := f(ds); err != nil {
			return err
		}
		var written []string
		var values []causal.Value
		for i, name := range names {
			if ds[i].written && distinct[name] != nil {
				written, values = append(written, name), append(values, ds[i].put())
				delete(distinct, name)
			}
		}
		value := func(i int) causal.Value { return values[i] }
		if c.session.IsExact() {
			return c.commitStored(written, value, names)
		}
		return c.putStored(written, value)
	})
}
