package value

import (
	"iter"
	"slices"

	"github.com/causalstore/causalstore/sidecar/causal"
)

// Change is a collection that commands read and change, one after the other. What they have changed is put as one
// write: the rows that changed.
type Change struct {
	base    rows
	changed map[element]row
	expires *deadline
	length  int // of the shown kind
	kind    Kind
	bytes   int

	items  []Item // of a list, unless it has changed otherwise since they were asked for
	pushed uint32 // how many positions were made

	stream *StreamLog // likewise
}

// ChangeOf begins to change the collection, or the string, in a record that was read, with its version.
func ChangeOf(r causal.Record) *Change {
	c := &Change{changed: map[element]row{}, bytes: len(r.Value.Data), base: rowsOf(r)}
	c.base.overwrite(causal.Version{}) // what is overwritten counts for nothing, if somebody has made it up
	c.kind = c.base.shown()
	for i := range c.base.list {
		switch row := &c.base.list[i]; {
		case !row.isAlive():
		case row.kind == c.kind:
			c.length++
		default: // hidden: the next write removes it
			c.remove(row)
			c.bytes -= len(row.payload)
		}
	}
	return c
}

// Kind returns what the collection is now; None: it has no element.
func (c *Change) Kind() Kind {
	if c.length == 0 {
		return None
	}
	return c.kind
}

// Len returns the number of elements.
func (c *Change) Len() int { return c.length }

// Size returns about how many bytes the collection has as a value, with what it remembers of removed elements.
func (c *Change) Size() int { return c.bytes }

// Get returns the payload of an element, such as the value of a field.
func (c *Change) Get(name string) (payload string, ok bool) {
	r := c.row(element{c.kind, name})
	if !r.isAlive() {
		return "", false
	}
	return r.text(), true
}

// row returns what is known of an element now.
func (c *Change) row(e element) row {
	changed, has := c.changed[e]
	base := c.base.find(e)
	switch {
	case base == nil && !has:
		return row{element: e, dead: true}
	case base == nil:
		return changed
	case !has:
		return *base
	}
	return base.join(&changed, 0, 0)
}

// All yields the elements with their payloads, in the order of their names.
func (c *Change) All() iter.Seq2[string, string] {
	return func(yield func(name, payload string) bool) {
		rows := c.result()
		for i := range rows.list {
			r := &rows.list[i]
			if r.isAlive() && r.kind == c.kind && !yield(r.name, r.text()) {
				return
			}
		}
	}
}

// Add adds an element to a collection of a kind, or gives it another payload. A collection that is empty becomes one of
// the kind; another one has to be of it. It reports whether the element is new.
func (c *Change) Add(kind Kind, name, payload string) (isNew bool) {
	e := element{kind, name}
	return c.set(row{element: e, payload: payload, at: self}, len(payload))
}

// Increment is Add of a number that is more or less than the one that the element is, or than 0. What clients of other
// lines add at the same time adds up with it.
func (c *Change) Increment(kind Kind, name, total string, line Line) (isNew bool) {
	e := element{kind, name}
	old := c.row(e)
	if line == 0 || !old.dead && old.at == self {
		return c.Add(kind, name, total)
	}
	next := row{element: e, dead: true}
	if removed, has := c.changed[e]; has {
		next.at, next.by = removed.at, removed.by
	}
	bytes := len(total)
	if old.sumOf(line) == nil {
		bytes += sumBytes
	}
	next.sums = []sum{old.next(line, total)}
	return c.set(next, bytes)
}

// set replaces what is changed of an element, of which the payload takes some bytes.
func (c *Change) set(r row, bytes int) (isNew bool) {
	if c.length == 0 { // it comes into being, and does not expire
		c.kind = r.kind
		c.ExpireAt(0)
	}
	c.items, c.stream = nil, nil
	old, had := c.Get(r.name)
	c.changed[r.element] = r
	if c.bytes += bytes - len(old); !had {
		c.length++
		c.bytes += len(r.name) + rowBytes
	}
	return !had
}

// sumBytes is about what a line takes besides its total.
const sumBytes = 24

// rowBytes is about what a row takes besides its name and its payload.
const rowBytes = 20

// Remove removes an element, as far as it was read: what others add at the same time stays. It reports whether there
// was one.
func (c *Change) Remove(name string) bool {
	payload, had := c.Get(name)
	if !had {
		return false
	}
	c.items, c.stream = nil, nil
	e := element{c.kind, name}
	delete(c.changed, e)
	if r := c.base.find(e); r != nil && r.isAlive() {
		c.remove(r)
	}
	c.length--
	c.bytes -= len(payload)
	return true
}

func (c *Change) remove(r *row) {
	c.changed[r.element] = row{element: r.element, at: r.seen(), dead: true, by: self}
}

// Clear removes all elements.
func (c *Change) Clear() {
	for e, r := range c.changed {
		if r.isAlive() {
			delete(c.changed, e)
			c.bytes -= len(r.name) + len(r.payload) + rowBytes
		}
	}
	for i := range c.base.list {
		if r := &c.base.list[i]; r.isAlive() {
			if _, isReplaced := c.changed[r.element]; !isReplaced {
				c.bytes -= len(r.payload)
			}
			c.remove(r)
		}
	}
	c.length, c.expires, c.items, c.stream = 0, nil, nil, nil
}

// DeadlineMs returns when the collection expires, in milliseconds since the epoch; 0: never.
func (c *Change) DeadlineMs() int64 {
	switch {
	case c.length == 0:
		return 0
	case c.expires != nil:
		return c.expires.ms
	}
	return c.base.deadlines.ms()
}

// ExpireAt sets the deadline, in milliseconds since the epoch; 0: never.
func (c *Change) ExpireAt(ms int64) {
	c.expires = &deadline{at: self, ms: ms, seen: c.base.deadlines.seen()}
}

// IsEmpty reports whether nothing was changed.
func (c *Change) IsEmpty() bool { return len(c.changed) == 0 && c.expires == nil }

// Value returns what is to be put.
func (c *Change) Value() causal.Value {
	changed := c.rows()
	return changed.record(self).Value
}

func (c *Change) rows() (changed rows) {
	changed.list = make([]row, 0, len(c.changed))
	for _, r := range c.changed {
		changed.list = append(changed.list, r)
	}
	changed.sort()
	if !c.base.overwritten.Written() {
		changed.overwritten = c.base.overwritten
	}
	if c.expires != nil {
		changed.deadlines = deadlines{*c.expires}
	}
	return changed
}

// Result returns the whole collection, as it is when what was changed is put. It is for reading: it has no version.
func (c *Change) Result() causal.Value {
	rows := c.result()
	return rows.record(self).Value
}

func (c *Change) result() rows {
	rows := c.base
	if c.IsEmpty() {
		return rows
	}
	changed := c.rows()
	rows.list, rows.deadlines = slices.Clone(rows.list), slices.Clone(rows.deadlines)
	rows.join(&changed)
	return rows
}
