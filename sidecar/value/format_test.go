package value_test

import (
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/value"
)

// PROTOCOL FMT-1.
func TestElementsOfLaterKindsNeedALaterFormat(t *testing.T) {
	hash := set(causal.Record{}, "field", "value")
	hash.Increment(value.Hash, "number", "7", 3)
	list := push(causal.Record{}, true, "a", "b")
	list.Insert(0, true, "c")
	list.SetItem(1, "d")
	emptied := value.ChangeOf(at(10, 1, list))
	emptied.SetItem(0, "e")
	emptied.RemoveItems(1, 3)
	later := value.ChangeOf(causal.Record{})
	later.Add(value.Stream, "name", "payload")
	removal, replaced := value.ChangeOf(at(10, 1, later)), value.ChangeOf(at(10, 1, later))
	removal.Remove("name")
	replaced.Clear()
	replaced.Add(value.Set, "member", "")
	for _, c := range []struct {
		name  string
		value causal.Value
		want  causal.Format
	}{
		{"register", causal.Value{Data: []byte("text")}, value.FormatRegisters},
		{"tombstone", causal.Value{Tombstone: true}, value.FormatRegisters},
		{"hash", hash.Value(), value.FormatCollections},
		{"list", list.Value(), value.FormatCollections},
		{"changed list", emptied.Value(), value.FormatCollections},
		{"later kind", later.Value(), value.FormatLaterKinds},
		{"removal of it", removal.Value(), value.FormatLaterKinds},
		{"set that hides it", replaced.Value(), value.FormatLaterKinds},
	} {
		if got := value.Shipped().FormatOf(&c.value); got != c.want {
			t.Errorf("%s: format %d, want %d", c.name, got, c.want)
		}
	}
}
