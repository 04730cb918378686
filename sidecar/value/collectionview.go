package value

import (
	"iter"

	"github.com/causalstore/causalstore/sidecar/causal"
)

// Collection is a collection as clients see it.
type Collection struct {
	rows rows
	kind Kind
}

// CollectionOf returns the collection in a value. Of anything else it is empty.
func CollectionOf(v causal.Value) Collection {
	if v.Type != causal.Collection {
		return Collection{}
	}
	h := decodeRows(causal.Record{Value: v})
	return Collection{h, h.shown()}
}

// Len returns the number of elements.
func (h *Collection) Len() (n int) {
	for i := range h.rows.list {
		if r := &h.rows.list[i]; r.isAlive() && r.kind == h.kind {
			n++
		}
	}
	return n
}

// Get returns the payload of an element, such as the value of a field.
func (h *Collection) Get(name string) (payload string, ok bool) {
	if r := h.rows.find(element{h.kind, name}); r != nil && r.isAlive() {
		return r.text(), true
	}
	return "", false
}

// All yields the elements with their payloads, in the order of their names.
func (h *Collection) All() iter.Seq2[string, string] {
	return func(yield func(name, payload string) bool) {
		for i := range h.rows.list {
			if r := &h.rows.list[i]; r.isAlive() && r.kind == h.kind && !yield(r.name, r.text()) {
				return
			}
		}
	}
}
