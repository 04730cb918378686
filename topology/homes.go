package topology

import (
	"fmt"

	"github.com/cespare/xxhash/v2"
)

// HomeOf returns the coordinator of a data center that is the home of a slot while n of them are homes: the one with
// the highest rendezvous score. So if a home comes or goes, only its own slots move.
func (t *Topology) HomeOf(dc DC, slot Slot, n int) Node {
	home := Node{DC: dc, Part: Coordinator}
	if n <= 1 {
		return home
	}
	var best uint64
	for i, seed := range t.homeSeeds[dc][:n] {
		if score := mix(seed ^ mix(uint64(slot)+1)); i == 0 || score > best {
			best, home.Index = score, uint64(i)
		}
	}
	return home
}

// homeSeedsOf returns the rendezvous seeds of the coordinators that each data center may have.
func homeSeedsOf(dcs []DataCenter) [][MaxCoordinators]uint64 {
	seeds := make([][MaxCoordinators]uint64, len(dcs))
	for i, dc := range dcs {
		for j := range seeds[i] {
			seeds[i][j] = xxhash.Sum64String(fmt.Sprintf("%s/coordinator/%d", dc.Name, j))
		}
	}
	return seeds
}
