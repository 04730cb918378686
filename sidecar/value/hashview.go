package value

import (
	"iter"

	"github.com/causalstore/causalstore/sidecar/causal"
)

// Hash is a hash as clients see it: its fields, without those that were removed.
type Hash struct{ rows rows }

// HashOf returns the hash in a record that was read. Of anything else it is empty.
func HashOf(r causal.Record) Hash {
	if r.Value.Type != causal.Hash {
		return Hash{}
	}
	return Hash{decodeRows(r)}
}

// Len returns the number of fields.
func (h *Hash) Len() (n int) {
	for i := range h.rows.list {
		if !h.rows.list[i].dead {
			n++
		}
	}
	return n
}

// Get returns the value of a field.
func (h *Hash) Get(field string) (value string, ok bool) {
	if r := h.rows.find(field); r != nil && !r.dead {
		return r.value, true
	}
	return "", false
}

// All yields the fields with their values, in the order of their names.
func (h *Hash) All() iter.Seq2[string, string] {
	return func(yield func(field, value string) bool) {
		for i := range h.rows.list {
			if r := &h.rows.list[i]; !r.dead && !yield(r.field, r.value) {
				return
			}
		}
	}
}

// DeadlineMs returns when the hash expires, in milliseconds since the epoch; 0: never.
func (h *Hash) DeadlineMs() int64 { return h.rows.deadline.ms }

// HasFields reports whether a value is a hash with a field: one without is as missing as a key that was deleted.
func HasFields(v causal.Value) bool {
	h := HashOf(causal.Record{Value: v})
	return h.Len() > 0
}

// HashChange is what a command writes of a hash: the rows that it changes.
type HashChange struct {
	base    *Hash
	changed rows
	list    map[string]row
}

// Change begins to change a hash, which has to be what the newest record of its key has.
func (h *Hash) Change() *HashChange { return &HashChange{base: h, list: map[string]row{}} }

// Set sets a field.
func (c *HashChange) Set(field, value string) {
	c.list[field] = row{field: field, value: value, at: self}
}

// Remove removes a field, as far as it was read. What others set at the same time stays.
func (c *HashChange) Remove(field string) {
	delete(c.list, field)
	if r := c.base.rows.find(field); r != nil && !r.dead {
		c.list[field] = row{field: field, at: r.at, dead: true, by: self}
	}
}

// Clear removes all fields and the deadline.
func (c *HashChange) Clear() {
	for field := range c.base.All() {
		c.Remove(field)
	}
	if c.base.rows.deadline.ms != 0 {
		c.ExpireAt(0)
	}
}

// ExpireAt sets the deadline, in milliseconds since the epoch; 0: none.
func (c *HashChange) ExpireAt(ms int64) { c.changed.deadline = deadline{self, ms} }

// Value returns what is to be put.
func (c *HashChange) Value() causal.Value {
	c.changed.list = c.changed.list[:0]
	for _, r := range c.list {
		c.changed.list = append(c.changed.list, r)
	}
	c.changed.sort()
	return c.changed.record(self).Value
}

// Size returns how many bytes the hash has with the change, encoded, as one put would bring it.
func (c *HashChange) Size() int {
	after := rows{list: append([]row(nil), c.base.rows.list...), collected: c.base.rows.collected}
	after.join(&rows{list: HashOf(causal.Record{Version: self, Value: c.Value()}).rows.list})
	return len(after.record(self).Value.Data)
}
