package sim

import (
	"fmt"
	"math/rand/v2"

	"github.com/causalstore/causalstore/topology"
)

// deploymentShape bounds a random deployment.
type deploymentShape struct {
	rings, perRing       intRange // rings, and data centers in each
	shards, coordinators intRange // in each data center
	members              intRange // of each coordinator; none: 1
	shardMembers         intRange // of each shard; none: 1
	caches               intRange
	rttMs                intRange // between two data centers
	// nearbyAcrossRings puts the data centers with the same position in their rings close together, so that the nearest
	// middleman often belongs to another ring.
	nearbyAcrossRings bool
}

// intRange is an inclusive range of integers.
type intRange struct{ from, to int }

func (s intRange) draw(rng *rand.Rand) int { return s.from + rng.IntN(s.to-s.from+1) }

// defaultShape has two or three rings of one or two data centers.
var defaultShape = deploymentShape{rings: intRange{2, 3}, perRing: intRange{1, 2}, shards: intRange{1, 2},
	coordinators: intRange{1, 2}, caches: intRange{1, 2}, rttMs: intRange{5, 85}}

// draw draws a topology of this shape.
func (s deploymentShape) draw(rng *rand.Rand) *topology.Topology {
	var dcs []topology.DataCenter
	var rings []topology.Ring
	var place []int // of each data center in its ring
	for r := range s.rings.draw(rng) {
		ring := topology.Ring{Name: fmt.Sprintf("ring%d", r)}
		for i := range s.perRing.draw(rng) {
			place = append(place, i)
			ring.DCs = append(ring.DCs, topology.DC(len(dcs)))
			dcs = append(dcs, topology.DataCenter{Name: fmt.Sprintf("dc%d", len(dcs)),
				Coordinators: s.drawMostlyMin(rng, s.coordinators),
				Caches:       s.drawMostlyMin(rng, s.caches), Shards: s.shards.draw(rng)})
		}
		rings = append(rings, ring)
	}
	for i := range dcs {
		if s.members.to > 0 {
			dcs[i].CoordinatorMembers = s.members.draw(rng)
		}
		if s.shardMembers.to > 0 {
			dcs[i].ShardMembers = s.shardMembers.draw(rng)
		}
	}
	rtt := make([][]float64, len(dcs))
	for i := range rtt {
		rtt[i] = make([]float64, len(dcs))
		for j := range i {
			ms := s.rttMs
			if s.nearbyAcrossRings && place[i] == place[j] {
				ms = intRange{1, 6}
			}
			rtt[i][j] = float64(ms.draw(rng)) + rng.Float64()
			rtt[j][i] = rtt[i][j]
		}
	}
	t, err := topology.New(1, dcs, rings, rtt)
	if err != nil {
		panic(err) // all shapes are defined in this package
	}
	return t
}

// drawMostlyMin draws the minimum of a range four times in five: a single coordinator or cache meets more faults than
// each of many.
func (s deploymentShape) drawMostlyMin(rng *rand.Rand, n intRange) int {
	if rng.IntN(5) > 0 {
		return n.from
	}
	return n.draw(rng)
}
