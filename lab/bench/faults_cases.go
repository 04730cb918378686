package bench

import (
	"fmt"

	"github.com/causalstore/causalstore/lab/local"
	"github.com/causalstore/causalstore/topology"
)

// faultCase is a fault of one data center.
type faultCase struct {
	name, title string
	inject      []local.Fault
	// repair ends the fault; if it is empty, everything is healed.
	repair []local.Fault
	// gone: the data center stays dead.
	gone bool
	// here are the data centers that it concerns.
	here []string
}

// congestedMs is the delay that the congestion adds in each direction.
const congestedMs = 600

// faultNames are the names of all cases, in the order in which they are measured.
var faultNames = []string{"cache-dead", "cache-hung", "middleman-dead", "middleman-hung", "coordinator-dead",
	"coordinator-hung", "member-dead", "member-hung", "disk-lost", "zone-dead", "dc-dead", "dc-hung",
	"cut-all", "cut-in-ring", "cut-between-rings", "congestion", "shard-lost", "ring-lost", "dc-lost"}

// faultCases returns the faults of a data center that its topology, and the number of members, allow.
func faultCases(t *topology.Topology, dc string, members int) []faultCase {
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
		add(faultCase{name: name + "-dead", title: what + " dead",
			inject: []local.Fault{{Kind: "crash", DC: dc, Part: part}}})
		add(faultCase{name: name + "-hung", title: what + " hung",
			inject: []local.Fault{{Kind: "pause", DC: dc, Part: part}}})
	}
	if members > 1 {
		first := local.Fault{Kind: "crash", DC: dc, Part: "coordinator", Member: 1}
		add(faultCase{name: "member-dead", title: "a member of the coordinator dead", inject: []local.Fault{first}})
		first.Kind = "pause"
		add(faultCase{name: "member-hung", title: "a member of the coordinator hung", inject: []local.Fault{first}})
	}
	add(lostDisk(dc, members))
	if members > 1 {
		add(deadZone(dc))
	}
	add(faultCase{name: "cut-all", title: "cut from all others",
		inject: []local.Fault{{Kind: "cut", From: dc, To: "*"}}})
	inRing, between := neighbors(t, dc)
	if inRing != "" {
		add(faultCase{name: "cut-in-ring", title: fmt.Sprintf("cut from %s (same ring)", inRing),
			here:   []string{inRing},
			inject: []local.Fault{{Kind: "cut", From: dc, To: inRing}}})
	}
	if between != "" {
		add(faultCase{name: "cut-between-rings", title: fmt.Sprintf("cut from %s (other ring)", between),
			here:   []string{between},
			inject: []local.Fault{{Kind: "cut", From: dc, To: between}}})
	}
	add(faultCase{name: "congestion", title: fmt.Sprintf("its links %d ms slower each way", congestedMs),
		inject: []local.Fault{{Kind: "congest", DC: dc, AddMs: congestedMs}}})
	add(faultCase{name: "shard-lost", title: "the middleman dead, and its data lost",
		inject: []local.Fault{{Kind: "crash", DC: dc, Part: "middleman"}},
		repair: []local.Fault{{Kind: "wipe", DC: dc, Part: "middleman"}, {Kind: "restart", DC: dc, Part: "middleman"}}})
	if between != "" {
		add(lostRing(t, dc))
		add(faultCase{name: "dc-lost", title: "all parts dead for good, and then excluded", gone: true,
			inject: []local.Fault{{Kind: "crash", DC: dc, Part: "all"}},
			repair: []local.Fault{{Kind: "exclude", DC: dc}}})
	}
	return cases
}

// lostDisk is the loss of a disk of the coordinator, whose process starts again at once. If it was the only one, a
// person accepts the loss in the end.
func lostDisk(dc string, members int) faultCase {
	c := faultCase{name: "disk-lost", title: "a disk of the coordinator lost"}
	for _, kind := range []string{"crash", "wipe", "restart"} {
		c.inject = append(c.inject, local.Fault{Kind: kind, DC: dc, Part: "coordinator", Member: 1})
	}
	if members == 1 {
		c.repair = []local.Fault{{Kind: "accept-loss", DC: dc, Part: "coordinator"}}
	}
	return c
}

// deadZone is the loss of one of the zones of a data center: of a member of its coordinator and of each of its shards,
// and of the cache.
func deadZone(dc string) faultCase {
	return faultCase{name: "zone-dead", title: "a zone dead: a member of each group, and the cache",
		inject: []local.Fault{{Kind: "crash", DC: dc, Part: "coordinator", Member: 1},
			{Kind: "crash", DC: dc, Part: "middleman", Member: 1}, {Kind: "crash", DC: dc, Part: "cache"}}}
}

// lostRing is the loss of the data of all shards of the ring of a data center.
func lostRing(t *topology.Topology, name string) faultCase {
	c := faultCase{name: "ring-lost", title: "all middlemen of its ring dead, and their data lost"}
	dc, _ := t.ByName(name)
	for _, other := range t.DCs {
		if other.Ring != t.DCs[dc].Ring {
			continue
		}
		if other.Name != name {
			c.here = append(c.here, other.Name)
		}
		c.inject = append(c.inject, local.Fault{Kind: "crash", DC: other.Name, Part: "middleman"})
		c.repair = append(c.repair, local.Fault{Kind: "wipe", DC: other.Name, Part: "middleman"},
			local.Fault{Kind: "restart", DC: other.Name, Part: "middleman"})
	}
	return c
}

// lost returns the data centers whose shards lose their data.
func (c *faultCase) lost() (names []string) {
	for _, f := range c.repair {
		if f.Kind == "wipe" {
			names = append(names, f.DC)
		}
	}
	return names
}

// neighbors returns the first other data center in the ring of one, and the first in another ring; empty if there is
// none.
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
