package causal

import "github.com/causalstore/causalstore/topology"

// Binding decides which rings the sessions and caches of a data center read. All parts of a deployment have the same
// one: links compare it. It combines with every Level.
type Binding uint8

// The bindings.
const (
	// Dynamic lets a session read in any ring that has everything the session has seen (Karma).
	Dynamic Binding = iota
	// Static keeps sessions and caches with the ring of their data center (COPS-PR).
	Static
)

func (b Binding) String() string { return [...]string{"Dynamic", "Static"}[b] }

// Bindings returns all bindings, the default first.
func Bindings() []Binding { return []Binding{Dynamic, Static} }

// Rings returns the rings that a data center reads.
func (b Binding) Rings(t *topology.Topology, dc topology.DC) topology.RingSet {
	if b == Static {
		return topology.RingsOf(t.RingOf(dc))
	}
	return t.AllRings()
}
