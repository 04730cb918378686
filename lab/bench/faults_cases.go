package bench

import (
	"fmt"

	"github.com/causalstore/causalstore/lab/local"
	"github.com/causalstore/causalstore/sidecar/topology"
)

// faultCase is a fault of one data center.
type faultCase struct {
	name, title string
	inject      []local.Fault
	// lasting: nothing ends the fault.
	lasting bool
	// here are the data centers that it concerns.
	here []string
}

// congestedMs is the delay that the congestion adds in each direction.
const congestedMs = 600

// faultNames are the names of all cases, in the order in which they are measured.
var faultNames = []string{"cache-dead", "cache-hung", "middleman-dead", "middleman-hung", "coordinator-dead", "coordinator-hung", "dc-dead", "dc-hung",
	"cut-all", "cut-in-ring", "cut-between-rings", "congestion", "storage-wiped"}

// FaultNames returns the names of the faults.
func FaultNames() []string { return faultNames }

// faultCases returns the faults of a data center that its topology allows.
func faultCases(t *topology.Topology, dc string) []faultCase {
	var cases []faultCase
	add := func(c faultCase) {
		c.here = append([]string{dc}, c.here...)
		cases = append(cases, c)
	}
	for _, part := range []string{"cache", "middleman", "coordinator", "all"} {
		name, what := part, "the "+part
		if part == "all" {
			name, what = "dc", "all parts"
		}
		add(faultCase{name: name + "-dead", title: what + " dead", inject: []local.Fault{{Kind: "crash", DC: dc, Part: part}}})
		add(faultCase{name: name + "-hung", title: what + " hung", inject: []local.Fault{{Kind: "pause", DC: dc, Part: part}}})
	}
	add(faultCase{name: "cut-all", title: "cut from all others", inject: []local.Fault{{Kind: "cut", From: dc, To: "*"}}})
	inRing, between := neighbors(t, dc)
	if inRing != "" {
		add(faultCase{name: "cut-in-ring", title: fmt.Sprintf("cut from %s (same ring)", inRing), here: []string{inRing},
			inject: []local.Fault{{Kind: "cut", From: dc, To: inRing}}})
	}
	if between != "" {
		add(faultCase{name: "cut-between-rings", title: fmt.Sprintf("cut from %s (other ring)", between), here: []string{between},
			inject: []local.Fault{{Kind: "cut", From: dc, To: between}}})
	}
	add(faultCase{name: "congestion", title: fmt.Sprintf("its links %d ms slower each way", congestedMs),
		inject: []local.Fault{{Kind: "congest", DC: dc, AddMs: congestedMs}}})
	add(faultCase{name: "storage-wiped", title: "storage wiped", lasting: true, inject: []local.Fault{{Kind: "crash", DC: dc, Part: "middleman"},
		{Kind: "wipe", DC: dc, Part: "middleman"}, {Kind: "restart", DC: dc, Part: "middleman"}}})
	return cases
}

// neighbors returns the first other data center in the ring of one, and the first in another ring; empty if there is none.
func neighbors(t *topology.Topology, name string) (inRing, between string) {
	dc, _ := t.ByName(name)
	for i, other := range t.DCs {
		switch {
		case topology.DC(i) == dc:
		case other.Ring == t.DCs[dc].Ring && inRing == "":
			inRing = other.Name
		case other.Ring != t.DCs[dc].Ring && between == "":
			between = other.Name
		}
	}
	return inRing, between
}
