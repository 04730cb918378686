package process

import (
	"slices"

	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/sidecar/transport"
	"github.com/causalstore/causalstore/topology"
)

// acceptance reports which authorities of its own trust domain this part and those that it has links with accept; nil
// without TLS.
func (p *process) acceptance() []contract.Acceptance {
	_, own := p.net.Roots()
	if own == nil {
		return nil
	}
	return describeAcceptance(p.topo(), p.self.DC, own, p.net.Stats().Links)
}

// describeAcceptance reports what each data center accepts, by what this part accepts itself and by its links. Of a
// link that is down, what its peer has said last counts as well: it may come back with it.
func describeAcceptance(t *topology.Topology, self topology.DC, own []uint64,
	links []transport.LinkStats) []contract.Acceptance {
	all := make([]contract.Acceptance, len(t.DCs))
	accepted := make([][]uint64, len(t.DCs))
	heard := make([]bool, len(t.DCs))
	accepted[self], heard[self] = own, true
	for _, l := range links {
		if len(l.Nodes) == 0 || int(l.Nodes[0].DC) >= len(t.DCs) {
			continue // it has not come up yet
		}
		dc := l.Nodes[0].DC
		if l.Up {
			all[dc].Links++
		}
		lacks := func(root uint64) bool { return !slices.Contains(l.Roots, root) }
		if slices.ContainsFunc(own, lacks) && (all[dc].Behind == "" || l.Process < all[dc].Behind) {
			// the first by name, so that it stays the same
			all[dc].Behind = shorten(l.Process)
		}
		if !heard[dc] {
			accepted[dc], heard[dc] = l.Roots, true
			continue
		}
		accepted[dc] = slices.DeleteFunc(slices.Clone(accepted[dc]), lacks)
	}
	for dc := range all {
		all[dc].DataCenter = t.DCs[dc].Name
		for _, root := range accepted[dc] {
			all[dc].Roots = append(all[dc].Roots, contract.FormatRoot(root))
		}
	}
	return all
}
