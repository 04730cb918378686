package process

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/sidecar/transport"
	"github.com/causalstore/causalstore/topology"
)

func TestADataCenterAcceptsAnAuthorityIfAllItsPartsDo(t *testing.T) {
	top := mustLoad(t, good, topology.Coordinator).Topology
	const here, there = 1, 0
	link := func(dc topology.DC, up bool, roots ...uint64) transport.LinkStats {
		return transport.LinkStats{Up: up, Nodes: []topology.Node{{DC: dc}}, Roots: roots}
	}
	const before, after = "0000000000000001", "0000000000000002"
	for name, c := range map[string]struct {
		own         []uint64
		links       []transport.LinkStats
		there, here contract.Acceptance
	}{
		"there are no links": {[]uint64{1, 2}, nil, contract.Acceptance{},
			contract.Acceptance{Roots: []string{before, after}}},
		"this part itself does not": {[]uint64{1}, []transport.LinkStats{link(here, true, 1, 2)}, contract.Acceptance{},
			contract.Acceptance{Links: 1, Roots: []string{before}}},
		"all do": {[]uint64{1, 2}, []transport.LinkStats{link(there, true, 1, 2), link(there, true, 1, 2)},
			contract.Acceptance{Links: 2, Roots: []string{before, after}},
			contract.Acceptance{Roots: []string{before, after}}},
		"one of two does not": {[]uint64{1, 2}, []transport.LinkStats{link(there, true, 1, 2), link(there, true, 1)},
			contract.Acceptance{Links: 2, Roots: []string{before}},
			contract.Acceptance{Roots: []string{before, after}}},
		"those that do not are named": {[]uint64{1, 2},
			[]transport.LinkStats{{Up: true, Process: "b", Nodes: []topology.Node{{DC: there}}, Roots: []uint64{1}},
				{Up: true, Process: "a", Nodes: []topology.Node{{DC: there}}, Roots: []uint64{1}},
				link(there, true, 2, 1)},
			contract.Acceptance{Links: 3, Roots: []string{before}, Behind: "a"},
			contract.Acceptance{Roots: []string{before, after}}},
		"one does not say": {[]uint64{1, 2},
			[]transport.LinkStats{link(there, true), link(there, true, 1, 2)}, contract.Acceptance{Links: 2},
			contract.Acceptance{Roots: []string{before, after}}},
		"one that did not is away": {[]uint64{1, 2},
			[]transport.LinkStats{link(there, true, 1, 2), link(there, false, 1)},
			contract.Acceptance{Links: 1, Roots: []string{before}},
			contract.Acceptance{Roots: []string{before, after}}},
		"one that was never there has not spoken": {[]uint64{1, 2},
			[]transport.LinkStats{link(there, true, 1, 2), {Dialed: true}},
			contract.Acceptance{Links: 1, Roots: []string{before, after}},
			contract.Acceptance{Roots: []string{before, after}}},
	} {
		c.there.DataCenter, c.here.DataCenter = top.DCs[there].Name, top.DCs[here].Name
		if diff := cmp.Diff([]contract.Acceptance{c.there, c.here},
			describeAcceptance(top, here, c.own, c.links)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
