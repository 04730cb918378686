package cost

import (
	"fmt"
	"slices"
	"strings"
)

// DataCenter is one data center and its traffic.
type DataCenter struct {
	Name         string
	Zones        int
	Shards       int
	Coordinators int
	Caches       int
	// Reads and Writes are its shares of all gets and puts; each sums to 1 over the data centers.
	Reads, Writes float64
	// MissRatio is the share of its gets that its cache cannot answer.
	MissRatio float64
}

// Layout is a partition of the data centers into rings. Each ring lists indices of data centers.
type Layout [][]int

// Scenario is the input of the cost models.
type Scenario struct {
	Epoch uint64
	DCs   []DataCenter
	// Today is the layout that the file declares, with the names of its rings; nil if it declares none.
	Today     Layout
	RingNames []string
	// RTT[a][b] is the round-trip time in milliseconds. HasRTT is false if no pair has one.
	RTT    [][]float64
	HasRTT bool
	// Price[a][b] is the price of a GB (10^9 bytes) sent from a to b.
	Price [][]float64
	// OperationsPerSecond is the rate of all data centers together; 0 if unknown.
	OperationsPerSecond float64
	PutFraction         float64
	PutFractions        []float64
	// BoundReads is the share of gets by sessions under a restriction: they bypass the cache and go to a shard of the
	// ring of their data center. Other gets that miss the cache go to the nearest copy.
	BoundReads     float64
	Alphas         []float64
	MissOperations float64
	CacheShare     float64
	// PutBytes is sent for each copy of a put in another data center, GetBytes for each get that another data center
	// answers.
	PutBytes, GetBytes float64
	Constraints        Constraints

	order [][]int // for each data center, all of them from near to far, itself first
}

// FullReplication is the layout with a ring per data center.
func (s *Scenario) FullReplication() Layout {
	l := make(Layout, len(s.DCs))
	for i := range l {
		l[i] = []int{i}
	}
	return l
}

// LayoutOf parses rings, each given as names of data centers separated by spaces.
func (s *Scenario) LayoutOf(rings ...string) (Layout, error) {
	var l Layout
	for _, names := range rings {
		var ring []int
		for _, name := range strings.Fields(names) {
			at := slices.IndexFunc(s.DCs, func(d DataCenter) bool { return d.Name == name })
			if at < 0 {
				return nil, fmt.Errorf("unknown data center %q; use a name that dataCenters lists", name)
			}
			ring = append(ring, at)
		}
		l = append(l, ring)
	}
	return l, nil
}

// MissRatio is the miss ratio over all data centers.
func (s *Scenario) MissRatio() float64 {
	m := 0.0
	for _, d := range s.DCs {
		m += d.Reads * d.MissRatio
	}
	return m
}

// Capex is the model of compute and storage for a number of rings. With a ring per data center no cache is needed.
func (s *Scenario) Capex(rings int) Capex {
	if rings == len(s.DCs) {
		return Capex{DataCenters: rings, Rings: rings}
	}
	return Capex{DataCenters: len(s.DCs), Rings: rings, MissRatio: (1 - s.BoundReads) * s.MissRatio(),
		MissOperations: s.MissOperations, CacheShare: s.CacheShare}
}

// Order lists the data centers from near to far, starting with the given one. Of two at the same distance, the one
// declared first comes first.
func (s *Scenario) Order(from int) []int {
	if s.order == nil {
		s.order = make([][]int, len(s.DCs))
		for d := range s.DCs {
			near := make([]int, len(s.DCs))
			for i := range near {
				near[i] = i
			}
			slices.SortStableFunc(near, func(a, b int) int {
				switch {
				case a == b:
					return 0
				case a == d:
					return -1
				case b == d || s.RTT[d][a] > s.RTT[d][b]:
					return 1
				case s.RTT[d][a] < s.RTT[d][b]:
					return -1
				}
				return 0
			})
			s.order[d] = near
		}
	}
	return s.order[from]
}

// Owners returns for each data center the share of the keys of its ring that its shards own. Rendezvous hashing gives
// every shard of a ring the same share.
func (s *Scenario) Owners(l Layout) []float64 {
	share := make([]float64, len(s.DCs))
	for _, ring := range l {
		shards := 0
		for _, d := range ring {
			shards += s.DCs[d].Shards
		}
		for _, d := range ring {
			share[d] = float64(s.DCs[d].Shards) / float64(shards)
		}
	}
	return share
}

// Nearest returns for each data center the probability that it owns the copy of a random key that is nearest to from.
// The owner of a key in one ring is independent of its owner in another, so the probability that no copy is within a
// distance is the product of the rings' probabilities.
func (s *Scenario) Nearest(l Layout, from int) []float64 {
	owns := s.Owners(l)
	ringOf := make([]int, len(s.DCs))
	beyond := make([]float64, len(l)) // per ring: the probability that its copy is not among those seen
	for r, ring := range l {
		beyond[r] = 1
		for _, d := range ring {
			ringOf[d] = r
		}
	}
	near := make([]float64, len(s.DCs))
	for _, d := range s.Order(from) {
		others := 1.0
		for r, b := range beyond {
			if r != ringOf[d] {
				others *= b
			}
		}
		near[d] = owns[d] * others
		beyond[ringOf[d]] = max(0, beyond[ringOf[d]]-owns[d])
	}
	return near
}

// Answers returns for each data center the share of the gets of from that it answers. The share of from itself includes
// cache hits.
func (s *Scenario) Answers(l Layout, from int) []float64 {
	answers, owns := s.Nearest(l, from), s.Owners(l)
	missed := (1 - s.BoundReads) * s.DCs[from].MissRatio
	for d := range answers {
		answers[d] *= missed
	}
	for _, ring := range l {
		if slices.Contains(ring, from) {
			for _, d := range ring {
				answers[d] += s.BoundReads * owns[d]
			}
		}
	}
	answers[from] += (1 - s.BoundReads) * (1 - s.DCs[from].MissRatio)
	return answers
}

// ReadMs returns the expected round trip of a get of a data center; gets that are answered in it take none.
func (s *Scenario) ReadMs(l Layout, from int) float64 {
	ms := 0.0
	for d, share := range s.Answers(l, from) {
		if d != from {
			ms += share * s.RTT[from][d]
		}
	}
	return ms
}
