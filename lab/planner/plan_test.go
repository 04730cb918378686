package planner

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/causalstore/causalstore/lab/cost"
	"github.com/causalstore/causalstore/topology"
)

func parse(t *testing.T, text string) *cost.Scenario {
	t.Helper()
	f, err := cost.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	s, err := f.Scenario()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func twitter(t *testing.T) []cost.TwitterCase {
	t.Helper()
	cases, err := cost.TwitterCases()
	if err != nil {
		t.Fatal(err)
	}
	return cases
}

func TestDelaysAloneGiveTheRingsOfThePaper(t *testing.T) {
	s, err := cost.OfTopology(topology.Default()).Scenario()
	if err != nil {
		t.Fatal(err)
	}
	l, err := byDelay(s, 3)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(sorted(s.Today), sorted(l)); d != "" { // the default topology has the rings of section 5
		t.Error(d)
	}
}

func TestRingsForThePapersUsersSaveMoreThanFortyPercentOfTheTraffic(t *testing.T) {
	s := *twitter(t)[1].Scenario // reads as tweets: 70 % East, 29 % West
	s.Constraints.Copies = cost.Range{Min: 3, Max: 3}
	p, err := Make(&s, alike)
	if err != nil {
		t.Fatal(err)
	}
	if saved := p.Proposed.Figures.SavedBytes; saved < 0.40 {
		t.Errorf("%v saves %.3f of the traffic of full replication", p.Proposed.Rings, saved)
	}
}

func TestIfOnlyFirstReadsMissRingsSaveMoreThanThePapersButLessThanFortyPercent(t *testing.T) {
	c := twitter(t)[0]
	s := *c.Scenario
	p, err := Make(&s, Options{Weights: Weights{Bandwidth: 1}, Alpha: 0.5}) // any number of copies, traffic alone
	if err != nil {
		t.Fatal(err)
	}
	if saved := p.Proposed.Figures.SavedBytes; !p.Exact || saved <= c.Aware || saved >= 0.40 {
		t.Errorf("the best of all layouts saves %.3f; the paper's rings by users %.3f", saved, c.Aware)
	}
}

func TestUnsatisfiableConstraintsAreNamed(t *testing.T) {
	three := `dataCenters: [{name: a, zones: 3}, {name: b}, {name: c}], roundTripMs: {a: {b: 1, c: 2}, b: {c: 3}}, constraints: `
	for text, want := range map[string]string{
		`{copies: {min: 4}}`: "at least 4 rings, but at most 3 are possible with 3 data " +
			"centers; lower copies.min",
		`{copies: {min: -1}}`:          "numbers must not be negative",
		`{ringSize: {min: 2, max: 1}}`: "ringSize.min is 2, but rings can have at most 1",
		`{ringSize: {min: 2}, copies: {min: 2}}`: "at least 2 rings of at least 2 data centers, but " +
			"there are only 3",
		`{ringSize: {max: 1}, copies: {max: 2}}`: "at most 2 rings of at most 1 data centers, but there are 3",
		`{together: [[a, x]]}`:                   `constraints.together names data center "x", which dataCenters does not list`,
		`{apart: [[a]]}`:                         "constraints.apart has a group of 1",
		`{together: [[a, b], [b, c]], apart: [[c, a]]}`: "separates a and c, but constraints.together puts them in " +
			"one ring; drop one of the two",
		`{ringsSurviveZones: 1}`: "needs 3 zones in each data center, one of them the front, but " +
			"these have fewer: b (2), c (2)",
		`{keysSurviveZones: 9}`: "there are layouts without constraints.keysSurviveZones",
		`{copies: {max: 1}, apart: [[a, b]]}`: "there are layouts without constraints.copies, or without " +
			"constraints.apart",
		`{ringSize: {min: 2}, apart: [[a, b]]}`: "there are layouts without constraints.ringSize, or without " +
			"constraints.apart",
	} {
		if _, err := Make(parse(t, "{"+three+text+"}"), alike); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\n  gives %v, want something with %q", text, err, want)
		}
	}
}

func TestMissingRoundTripIsAnErrorUnlessLatencyHasNoWeight(t *testing.T) {
	s := parse(t, `{dataCenters: [{name: a}, {name: b}, {name: c}], roundTripMs: {a: {b: 1, c: 2}}}`)
	if _, err := Make(s, alike); err == nil || !strings.Contains(err.Error(),
		"roundTripMs has no value for b and c; add one") {
		t.Errorf("a missing round trip gives %v", err)
	}
	s = parse(t, `{dataCenters: [{name: a}, {name: b}, {name: c}]}`)
	p, err := Make(s, Options{Weights: Weights{Bandwidth: 1}})
	if err != nil {
		t.Fatal(err)
	}
	for _, other := range p.Others {
		if other.Name == "network-aware" {
			t.Error("rings by delay are proposed without any delay")
		}
	}
}

// failuresThatTakeAll finds by trying how many zones must fail until no ring is whole. A zone is the front, or holds
// data.
func failuresThatTakeAll(s *cost.Scenario, l cost.Layout) int {
	type zone struct{ dc, number int }
	var zones []zone
	for d, dc := range s.DCs {
		for z := range dc.Zones {
			zones = append(zones, zone{d, z})
		}
	}
	least := len(zones) + 1
	for failed := range 1 << len(zones) {
		count, left := 0, make([]int, len(s.DCs)) // zones with data that are left
		for i, z := range zones {
			holds := z.number > 0 || s.DCs[z.dc].Zones == 1 // zone 0 is the front, unless it is the only one
			switch {
			case failed&(1<<i) != 0:
				count++
			case holds:
				left[z.dc]++
			}
		}
		whole := 0
		for _, ring := range l {
			intact := true
			for _, d := range ring {
				intact = intact && left[d] > 0
			}
			if intact {
				whole++
			}
		}
		if whole == 0 {
			least = min(least, count)
		}
	}
	return least
}

func TestKeysSurviveExactlyTheZoneFailuresThatTheRulesCompute(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 4).Draw(t, "data centers")
		s := drawScenario(t, n)
		for i := range s.DCs {
			s.DCs[i].Zones = rapid.IntRange(1, 3).Draw(t, "zones")
		}
		var l cost.Layout
		partitions(n, func(p cost.Layout) {
			if l == nil || rapid.Bool().Draw(t, "this one") {
				l = p
			}
		})
		needed := failuresThatTakeAll(s, l)
		for asked, want := range map[int]bool{needed - 1: true, needed: false} {
			s.Constraints.KeysSurviveZones = asked
			r, err := newRules(s)
			if err != nil {
				t.Fatal(err)
			}
			if got := r.brokenBy(l) == 0; got != want {
				t.Fatalf("%v outlives %d failures: %v by the rules; %d take all rings", l, asked, got, needed)
			}
		}
	})
}

func TestTopologyAndManifestHaveTheProposedRings(t *testing.T) {
	f, err := cost.Load("../../topology/default.yaml")
	if err != nil {
		t.Fatal(err)
	}
	f.Epoch = 7
	f.Constraints.Copies = cost.Range{Min: 3, Max: 3}
	s, err := f.Scenario()
	if err != nil {
		t.Fatal(err)
	}
	p, err := Make(s, alike)
	if err != nil {
		t.Fatal(err)
	}
	b, err := p.Topology()
	if err != nil {
		t.Fatal(err)
	}
	topo, err := topology.Parse(b)
	if err != nil {
		t.Fatal(err)
	}
	if topo.Epoch != 8 {
		t.Errorf("epoch %d does not follow 7", topo.Epoch)
	}
	if d := cmp.Diff(s.RTT, topo.RTT); d != "" {
		t.Error(d)
	}
	var rings []Ring
	for _, r := range topo.Rings {
		ring := Ring{Name: r.Name}
		for _, d := range r.DCs {
			ring.DataCenters = append(ring.DataCenters, topo.DCs[d].Name)
		}
		rings = append(rings, ring)
		if line := "- {name: " + r.Name + ", dataCenters: [" + strings.Join(ring.DataCenters,
			", ") + "]}\n"; !strings.Contains(p.Manifest(), line) {
			t.Errorf("the manifest lacks %s\n%s", line, p.Manifest())
		}
	}
	if d := cmp.Diff(p.Proposed.Rings, rings); d != "" {
		t.Error(d)
	}
}

func TestRingsAreNamedAfterTheirDataCenters(t *testing.T) {
	for want, names := range map[string][]string{
		"sa-east-1":        {"sa-east-1"},
		"us-west":          {"us-west-1", "us-west-2"},
		"us":               {"us-east-1", "us-west-2"},
		"us-eu":            {"us-east-1", "eu-west-1", "us-west-1"},
		"paris-and-4-more": {"paris", "rome", "oslo", "bonn", "kyiv"},
	} {
		if got := nameOf(names); got != want {
			t.Errorf("%v is named %q, want %q", names, got, want)
		}
	}
	s := parse(t,
		`{dataCenters: [{name: us-1}, {name: us-2}, {name: us-3}, {name: us-4}], rings: [{name: us, dataCenters: [us-1, us-2]}, {name: rest, dataCenters: [us-3, us-4]}]}`)
	got := nameRings(s, cost.Layout{{2, 0}, {1, 3}})
	if got[0].Name != "us" || got[1].Name != "us-2" {
		t.Errorf("two rings would be named alike: %v", got)
	}
	if got = nameRings(s, cost.Layout{{1, 0}, {3}, {2}}); got[0].Name != "us" {
		t.Errorf("a ring of today lost its name: %v", got)
	}
}
