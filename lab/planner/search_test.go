package planner

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/causalstore/causalstore/lab/cost"
)

// searchFactor is how much worse than the best the search may be, on the random instances of these tests.
const searchFactor = 1.05

func TestSearchIsCloseToTheBest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 8).Draw(t, "data centers")
		s := drawScenario(t, n)
		r, err := newRules(s)
		if err != nil {
			t.Fatal(err)
		}
		e := newEvaluator(s, alike)
		best := tryAll(e, r)
		for rings, l := range tryMany(e, r).layouts {
			if found, want := e.score(l), e.score(best.layouts[rings]); found < want-1e-9*max(1, want) {
				t.Fatalf("of %d rings the search found %v, which is better than the best", rings, l)
			}
		}
		lowest := func(layouts map[int]cost.Layout) float64 {
			first, low := true, 0.0
			for _, l := range layouts {
				if score := e.score(l); first || score < low {
					first, low = false, score
				}
			}
			return low
		}
		if found, want := lowest(tryMany(e, r).layouts), lowest(best.layouts); found > want*searchFactor {
			t.Fatalf("the search found %.6f, the best is %.6f", found, want)
		}
	})
}

func TestSearchMeetsTheConstraints(t *testing.T) {
	given := 0
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 7).Draw(t, "data centers")
		s := drawScenario(t, n)
		s.Constraints = drawConstraints(t, n)
		r, err := newRules(s)
		if err != nil {
			return
		}
		e := newEvaluator(s, alike)
		best, found := tryAll(e, r), tryMany(e, r)
		for _, l := range found.layouts {
			if !keeps(s, l) {
				t.Fatalf("%v does not keep to %+v", l, s.Constraints)
			}
		}
		if len(best.layouts) > 0 {
			given++
			if len(found.layouts) == 0 {
				t.Fatalf("the search found nothing that keeps to %+v; there is %v", s.Constraints, best.layouts)
			}
		}
	})
	if given == 0 {
		t.Error("no draw had rings that keep to the constraints")
	}
}

// TestSearchPutsDataCentersWithFewZonesTogether: from most layouts no single step leads there.
func TestSearchPutsDataCentersWithFewZonesTogether(t *testing.T) {
	f := rapid.Custom(func(t *rapid.T) *cost.File { return drawFile(t, 15) }).Example(1)
	for i := range f.DataCenters {
		zones := 2
		if i%2 == 0 {
			zones = 4
		}
		f.DataCenters[i].Zones = &zones
	}
	s, err := f.Scenario()
	if err != nil {
		t.Fatal(err)
	}
	s.Constraints = cost.Constraints{Copies: cost.Range{Max: 2}, RingSize: cost.Range{Max: 8}, KeysSurviveZones: 3}
	p, err := Make(s, alike)
	if err != nil {
		t.Fatal(err)
	}
	if p.Exact || !keeps(s, p.Proposed.Layout) {
		t.Errorf("exact %v; %v does not keep to the constraints", p.Exact, p.Proposed.Layout)
	}
}

func TestSearchEndsAndIsDeterministic(t *testing.T) {
	files := rapid.Custom(func(t *rapid.T) *cost.File { return drawFile(t, 20) })
	for seed := range 3 {
		s, err := files.Example(seed).Scenario()
		if err != nil {
			t.Fatal(err)
		}
		s.Constraints.Copies = cost.Range{Min: 3, Max: 5}
		s.Constraints.Together = [][]string{{"dc1", "dc7"}}
		s.Constraints.Apart = [][]string{{"dc0", "dc1", "dc2"}}
		var plans [2]*Plan
		for i := range plans {
			if plans[i], err = Make(s, alike); err != nil {
				t.Fatal(err)
			}
		}
		if plans[0].Exact || plans[0].Examined > searchScores+2000 {
			t.Errorf("exact %v after %d layouts", plans[0].Exact, plans[0].Examined)
		}
		if !keeps(s, plans[0].Proposed.Layout) {
			t.Errorf("%v does not keep to the constraints", plans[0].Proposed.Layout)
		}
		if d := cmp.Diff(plans[0].Proposed, plans[1].Proposed); d != "" {
			t.Error(d)
		}
	}
}
