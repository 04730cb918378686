package planner

import (
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/causalstore/causalstore/lab/cost"
	"github.com/causalstore/causalstore/topology"
)

var alike = Options{Weights: Weights{Latency: 1, Bandwidth: 1, Capex: 1}, Alpha: 0.5}

// drawFile draws data centers with any traffic, distances, prices, zones and shards.
func drawFile(t *rapid.T, n int) *cost.File {
	f := &cost.File{RoundTripMs: map[string]map[string]float64{}, PricePerGB: map[string]map[string]float64{}}
	for i := range n {
		name := fmt.Sprintf("dc%d", i)
		shards, zones := rapid.IntRange(1, 3).Draw(t, "shards"), rapid.IntRange(1, 4).Draw(t, "zones")
		reads, writes, miss := rapid.Float64Range(1, 9).Draw(t, "reads"), rapid.Float64Range(0, 9).Draw(t,
			"writes"), rapid.Float64Range(0, 1).Draw(t, "miss ratio")
		f.DataCenters = append(f.DataCenters,
			cost.FileDataCenter{FileDataCenter: topology.FileDataCenter{Name: name, Shards: &shards},
				Zones: &zones, ReadsPerSecond: &reads, WritesPerSecond: &writes, MissRatio: &miss})
		rtt, price := map[string]float64{}, map[string]float64{}
		for j := range i {
			rtt[fmt.Sprintf("dc%d", j)] = float64(rapid.IntRange(1, 300).Draw(t, "round trip"))
			price[fmt.Sprintf("dc%d", j)] = float64(rapid.IntRange(0, 9).Draw(t, "price"))
		}
		f.RoundTripMs[name], f.PricePerGB[name] = rtt, price
	}
	bound := rapid.Float64Range(0, 0.5).Draw(t, "bound reads")
	f.BoundReads = &bound
	return f
}

func drawScenario(t *rapid.T, n int) *cost.Scenario {
	s, err := drawFile(t, n).Scenario()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func drawConstraints(t *rapid.T, n int) cost.Constraints {
	group := rapid.SliceOfNDistinct(rapid.IntRange(0, n-1), 2, min(3, n), rapid.ID[int])
	named := func(label string) [][]string {
		var all [][]string
		for range rapid.IntRange(0, 2).Draw(t, label) {
			var names []string
			for _, d := range group.Draw(t, label) {
				names = append(names, fmt.Sprintf("dc%d", d))
			}
			all = append(all, names)
		}
		return all
	}
	between := func(label string) cost.Range {
		return cost.Range{Min: rapid.IntRange(0, 3).Draw(t, label),
			Max: rapid.SampledFrom([]int{0, 2, 3, 4}).Draw(t, label)}
	}
	return cost.Constraints{Copies: between("copies"), RingSize: between("ring size"), Together: named("together"),
		Apart:            named("apart"),
		KeysSurviveZones: rapid.IntRange(0, 4).Draw(t, "keys survive")}
}

// partitions calls f for every partition of n data centers.
func partitions(n int, f func(cost.Layout)) {
	var assign func(l cost.Layout, d int)
	assign = func(l cost.Layout, d int) {
		if d == n {
			f(l)
			return
		}
		for r := range len(l) + 1 {
			next := make(cost.Layout, max(len(l), r+1))
			for i := range l {
				next[i] = append([]int(nil), l[i]...)
			}
			next[r] = append(next[r], d)
			assign(next, d+1)
		}
	}
	assign(nil, 0)
}

// keeps judges a layout by the words of the constraints.
func keeps(s *cost.Scenario, l cost.Layout) bool {
	c := s.Constraints
	ringOf := map[string]int{}
	backs := 0
	for r, ring := range l {
		if len(ring) < c.RingSize.Min || c.RingSize.Max > 0 && len(ring) > c.RingSize.Max {
			return false
		}
		least := math.MaxInt
		for _, d := range ring {
			ringOf[s.DCs[d].Name] = r
			least = min(least, max(1, s.DCs[d].Zones-1))
		}
		backs += least
	}
	for _, g := range c.Together {
		for _, name := range g {
			if ringOf[name] != ringOf[g[0]] {
				return false
			}
		}
	}
	for _, g := range c.Apart {
		for i := range g {
			for j := range i {
				if ringOf[g[i]] == ringOf[g[j]] {
					return false
				}
			}
		}
	}
	return len(l) >= c.Copies.Min && (c.Copies.Max == 0 || len(l) <= c.Copies.Max) && backs > c.KeysSurviveZones
}

func TestPlanIsTheBestPartitionThatMeetsTheConstraints(t *testing.T) {
	possible, impossible := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 6).Draw(t, "data centers")
		s := drawScenario(t, n)
		s.Constraints = drawConstraints(t, n)
		best := math.Inf(1)
		partitions(n, func(l cost.Layout) {
			if keeps(s, l) {
				best = min(best, Evaluate(s, l, alike).Score)
			}
		})
		p, err := Make(s, alike)
		if math.IsInf(best, 1) {
			impossible++
			if err == nil {
				t.Fatalf("no partition keeps to %+v, and %v was proposed", s.Constraints, p.Proposed.Layout)
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		possible++
		if !keeps(s, p.Proposed.Layout) {
			t.Fatalf("%v does not keep to %+v", p.Proposed.Layout, s.Constraints)
		}
		if got := p.Proposed.Figures.Score; math.Abs(got-best) > 1e-9*max(1, best) {
			t.Fatalf("%v scores %.9f, the best is %.9f", p.Proposed.Layout, got, best)
		}
	})
	if possible == 0 || impossible == 0 {
		t.Errorf("constraints of %d draws could be kept to and of %d not; there should be both", possible, impossible)
	}
}

func TestFastScoreAgreesWithTheCostModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 9).Draw(t, "data centers")
		s := drawScenario(t, n)
		var l cost.Layout
		for d := range n {
			r := rapid.IntRange(0, len(l)).Draw(t, "ring")
			if r == len(l) {
				l = append(l, nil)
			}
			l[r] = append(l[r], d)
		}
		if fast, slow := newEvaluator(s, alike).score(l),
			Evaluate(s, l, alike).Score; math.Abs(fast-slow) > 1e-7*max(1, slow) {
			t.Fatalf("%v scores %.12f fast and %.12f slowly", l, fast, slow)
		}
	})
}

func TestTwelveDataCentersAreSearchedExhaustively(t *testing.T) {
	f := &cost.File{RoundTripMs: map[string]map[string]float64{}}
	for i := range MaxExact {
		name := fmt.Sprintf("dc%d", i)
		f.DataCenters = append(f.DataCenters, cost.FileDataCenter{FileDataCenter: topology.FileDataCenter{Name: name}})
		f.RoundTripMs[name] = map[string]float64{}
		for j := range i {
			f.RoundTripMs[name][fmt.Sprintf("dc%d", j)] = float64(1 + (i*37+j*91)%200)
		}
	}
	s, err := f.Scenario()
	if err != nil {
		t.Fatal(err)
	}
	p, err := Make(s, alike)
	if err != nil {
		t.Fatal(err)
	}
	const bell12 = 4213597
	if !p.Exact || p.Examined != bell12 {
		t.Errorf("%d partitions were looked at, exact %v; there are %d", p.Examined, p.Exact, bell12)
	}
}
