package value

import "github.com/causalstore/causalstore/sidecar/causal"

// Kind is what clients see of a collection. The numbers are in values, so they never change.
type Kind uint8

// The kinds.
const (
	None Kind = iota // no element: the key is missing
	Hash
	Set
	SortedSet
	List
	Stream
	HyperLogLog // a string, to clients
	// Text is a string to which data centers have added numbers (text.go). It shows as a string.
	Text
	lastKind = Text
)

// KindOf returns what clients see of a value: of a register, and of a collection without elements, None.
func KindOf(v causal.Value) Kind {
	if v.Type != causal.Collection || len(v.Data) == 0 {
		return None
	}
	return Kind(v.Data[0])
}

// Exists reports whether there is something in a value: it is no tombstone, and no collection without elements. It may
// have expired.
func Exists(v causal.Value) bool {
	return !v.Tombstone && (!v.Merges() || KindOf(v) != None)
}
