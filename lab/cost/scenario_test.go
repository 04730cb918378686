package cost

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/causalstore/causalstore/topology"
)

func parse(t *testing.T, text string) *Scenario {
	t.Helper()
	f, err := Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	s, err := f.Scenario()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// drawScenario draws data centers with any traffic, distances, prices and shards.
func drawScenario(t *rapid.T, n int) *Scenario {
	f := File{RoundTripMs: map[string]map[string]float64{}, PricePerGB: map[string]map[string]float64{}}
	for i := range n {
		name := fmt.Sprintf("dc%d", i)
		shards := rapid.IntRange(1, 4).Draw(t, "shards")
		reads, writes, miss := rapid.Float64Range(0, 9).Draw(t, "reads"), rapid.Float64Range(0, 9).Draw(t,
			"writes"), rapid.Float64Range(0, 1).Draw(t, "miss ratio")
		reads++ // somebody reads
		f.DataCenters = append(f.DataCenters,
			FileDataCenter{FileDataCenter: topology.FileDataCenter{Name: name, Shards: &shards},
				ReadsPerSecond: &reads, WritesPerSecond: &writes, MissRatio: &miss})
		rtt, price := map[string]float64{}, map[string]float64{}
		for j := range n {
			if j < i {
				rtt[fmt.Sprintf("dc%d", j)] = float64(rapid.IntRange(1, 300).Draw(t, "round trip"))
			}
			if j != i {
				price[fmt.Sprintf("dc%d", j)] = float64(rapid.IntRange(0, 9).Draw(t, "price"))
			}
		}
		f.RoundTripMs[name], f.PricePerGB[name] = rtt, price
	}
	bound := rapid.Float64Range(0, 1).Draw(t, "bound reads")
	f.BoundReads = &bound
	s, err := f.Scenario()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// drawLayout draws a partition.
func drawLayout(t *rapid.T, n int) Layout {
	var l Layout
	for d := range n {
		r := rapid.IntRange(0, len(l)).Draw(t, "ring")
		if r == len(l) {
			l = append(l, nil)
		}
		l[r] = append(l[r], d)
	}
	return l
}

// placements calls f for every way that the rings can place a key, with its probability.
func placements(s *Scenario, l Layout, f func(owners []int, p float64)) {
	owns := s.Owners(l)
	var place func(owners []int, p float64)
	place = func(owners []int, p float64) {
		if len(owners) == len(l) {
			f(owners, p)
			return
		}
		for _, d := range l[len(owners)] {
			place(append(owners, d), p*owns[d])
		}
	}
	place(nil, 1)
}

func TestNearestAgreesWithEnumerationOfPlacements(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 6).Draw(t, "data centers")
		s, l := drawScenario(t, n), drawLayout(t, n)
		for from := range n {
			want, order := make([]float64, n), s.Order(from)
			placements(s, l, func(owners []int, p float64) {
				for _, d := range order {
					for _, o := range owners {
						if o == d {
							want[d] += p
							return
						}
					}
				}
			})
			for d, p := range s.Nearest(l, from) {
				near(t, fmt.Sprintf("share of %d nearest to %d", d, from), p, want[d], 1e-9)
			}
		}
	})
}

func TestAnswersSumToOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 8).Draw(t, "data centers")
		s, l := drawScenario(t, n), drawLayout(t, n)
		for from := range n {
			all := 0.0
			for _, share := range s.Answers(l, from) {
				all += share
			}
			near(t, "sum of shares", all, 1, 1e-9)
		}
	})
}

func TestNearestAgreesWithTheSlotMap(t *testing.T) {
	topo := topology.Default()
	s, err := OfTopology(topo).Scenario()
	if err != nil {
		t.Fatal(err)
	}
	for from := range s.DCs {
		counted := make([]float64, len(s.DCs))
		for slot := range topology.Slots {
			best := -1
			for r := range topo.Rings {
				d := int(topo.Owner(topology.RingID(r), topology.Slot(slot)).DC)
				if best < 0 || topo.RTT[from][d] < topo.RTT[from][best] {
					best = d
				}
			}
			counted[best] += 1.0 / topology.Slots
		}
		for d, share := range s.Nearest(s.Today, from) {
			near(t, fmt.Sprintf("share of %s nearest to %s", s.DCs[d].Name, s.DCs[from].Name), share, counted[d], 0.03)
		}
	}
}

func TestFullReplicationSendsEveryPutToEveryOtherDataCenter(t *testing.T) {
	s := parse(t, `{valueBytes: 100, dataCenters: [{name: a}, {name: b}, {name: c}, {name: d}]}`)
	near(t, "bytes", s.Full(0.5).Bytes(), 0.5*3*100, 1e-9)
}

func TestPutsGoToEveryRingExceptWhereTheWriterOwnsTheKey(t *testing.T) {
	s := parse(t,
		`{valueBytes: 1, boundReads: 0, missRatio: 0, dataCenters: [{name: a, users: 1}, {name: b, users: 0}, {name: c, users: 0, shards: 3}],
		rings: [{name: one, dataCenters: [a, c]}, {name: two, dataCenters: [b]}]}`)
	near(t, "crossings", s.Rings(s.Today, 1).Bytes(), 1+0.75, 1e-9) // c has three of the four shards of the ring
}

func TestGetsArePricedByTheDirectionOfTheAnswer(t *testing.T) {
	s := parse(t,
		`{valueBytes: 1, boundReads: 0, missRatio: 1, dataCenters: [{name: a, users: 1}, {name: b, users: 0}], rings: [{name: one, dataCenters: [a, b]}],
		pricePerGB: {a: {b: 5}, b: {a: 7}}}`)
	b := s.Rings(s.Today, 0.5)
	near(t, "price of puts", b.PutPrice, 0.5*0.5*5, 1e-9)
	near(t, "price of gets", b.GetPrice, 0.5*0.5*7, 1e-9)
}

func TestBoundGetsStayInTheirRing(t *testing.T) {
	s := parse(t,
		`{boundReads: 1, dataCenters: [{name: a}, {name: far}, {name: next}], rings: [{name: one, dataCenters: [a, far]}, {name: two, dataCenters: [next]}],
		roundTripMs: {a: {far: 200, next: 1}, far: {next: 200}}}`)
	near(t, "read", s.ReadMs(s.Today, 0), 100, 1e-9)
	s.BoundReads = 0
	// half are its own, the others next door
	near(t, "read that is not bound", s.ReadMs(s.Today, 0), DefaultMissRatio*0.5, 1e-9)
}
