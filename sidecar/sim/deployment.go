package sim

import (
	"fmt"
	"math/rand/v2"

	"github.com/causalstore/causalstore/sidecar/topology"
)

// shape bounds a random deployment.
type shape struct {
	rings, perRing       span // rings, and data centres in each
	shards, coordinators span // in each data centre
	caches               span
	rttMs                span // between two data centres
	// near says that the data centres with the same place in their rings lie close together, so that what is nearest
	// belongs to another ring as often as not.
	near bool
}

// span is an inclusive range of integers.
type span struct{ from, to int }

func (s span) draw(rng *rand.Rand) int { return s.from + rng.IntN(s.to-s.from+1) }

// anyShape is two or three rings of one or two data centres.
var anyShape = shape{rings: span{2, 3}, perRing: span{1, 2}, shards: span{1, 2}, coordinators: span{1, 2}, caches: span{1, 2}, rttMs: span{5, 85}}

// deployment draws a topology.
func (s shape) deployment(rng *rand.Rand) *topology.Topology {
	var dcs []topology.DataCenter
	var rings []topology.Ring
	var place []int // of each data centre in its ring
	for r := range s.rings.draw(rng) {
		ring := topology.Ring{Name: fmt.Sprintf("ring%d", r)}
		for i := range s.perRing.draw(rng) {
			place = append(place, i)
			ring.DCs = append(ring.DCs, topology.DC(len(dcs)))
			dcs = append(dcs, topology.DataCenter{Name: fmt.Sprintf("dc%d", len(dcs)), Coordinators: s.rarelyMore(rng, s.coordinators),
				Caches: s.rarelyMore(rng, s.caches), Shards: s.shards.draw(rng)})
		}
		rings = append(rings, ring)
	}
	rtt := make([][]float64, len(dcs))
	for i := range rtt {
		rtt[i] = make([]float64, len(dcs))
		for j := range i {
			ms := s.rttMs
			if s.near && place[i] == place[j] {
				ms = span{1, 6}
			}
			rtt[i][j] = float64(ms.draw(rng)) + rng.Float64()
			rtt[j][i] = rtt[i][j]
		}
	}
	t, err := topology.New(1, dcs, rings, rtt)
	if err != nil {
		panic(err) // the shapes are ours
	}
	return t
}

// rarelyMore draws the least of a span four times in five: one coordinator and one cache meet more trouble than many.
func (s shape) rarelyMore(rng *rand.Rand, n span) int {
	if rng.IntN(5) > 0 {
		return n.from
	}
	return n.draw(rng)
}
