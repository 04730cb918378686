package topology

import (
	"fmt"

	"github.com/cespare/xxhash/v2"
)

// HomeOf returns the coordinator of a data center that is the home of a slot: the one with the highest rendezvous
// score. So if a coordinator comes or goes, only its own slots move.
func (t *Topology) HomeOf(dc DC, slot Slot) Node {
	home := Node{DC: dc, Part: Coordinator}
	if t.DCs[dc].Coordinators == 1 {
		return home
	}
	var best uint64
	for i, seed := range t.homeSeeds[dc] {
		if score := mix(seed ^ mix(uint64(slot)+1)); i == 0 || score > best {
			best, home.Index = score, uint64(i)
		}
	}
	return home
}

// homeSeedsOf returns the rendezvous seeds of the coordinators of each data center.
func homeSeedsOf(dcs []DataCenter) [][]uint64 {
	seeds := make([][]uint64, len(dcs))
	for i, dc := range dcs {
		for j := range dc.Coordinators {
			seeds[i] = append(seeds[i], xxhash.Sum64String(fmt.Sprintf("%s/coordinator/%d", dc.Name, j)))
		}
	}
	return seeds
}
