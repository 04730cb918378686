package local

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/causalstore/causalstore/console"
)

// meshed returns the snapshot of a whole network of data centers with the same round trip, declared as 80 ms.
func meshed(roundTripMs float64, names ...string) (s console.Snapshot) {
	for i, a := range names {
		s.DataCenters = append(s.DataCenters, console.DataCenter{Name: a,
			Parts: []console.Part{{Kind: "middleman", State: console.PartServing}}})
		for _, b := range names[i+1:] {
			s.Links = append(s.Links, console.Link{A: a, B: b, DeclaredMs: 80, RoundTripMs: ptr(roundTripMs)})
		}
	}
	return s
}

// ends returns the data centers of problems.
func ends(found []console.Problem) (all [][2]string) {
	for _, p := range found {
		all = append(all, [2]string{p.DataCenter, p.Other})
	}
	return all
}

func TestOneProblemSaysThatAllLinksOfADataCenterAreSlow(t *testing.T) {
	s := meshed(80, "a", "b", "c", "d")
	for i := range s.Links[:3] {
		s.Links[i].RoundTripMs = ptr(1280 + float64(i))
	}
	found := slowProblems(&s)
	if d := cmp.Diff([][2]string{{"a", ""}}, ends(found)); d != "" {
		t.Fatalf("problems (-want +got):\n%s", d)
	}
	if want := "All links of a are slow: round trips of 1280 to 1282 ms, declared: 80 ms. Writes take longer to " +
		"reach it, and from there the other rings."; found[0].Text != want {
		t.Errorf("%q; want %q", found[0].Text, want)
	}
	s.Links[0].RoundTripMs = ptr(80.0)
	if d := cmp.Diff([][2]string{{"a", "c"}, {"a", "d"}}, ends(slowProblems(&s))); d != "" {
		t.Errorf("with one link that is not slow (-want +got):\n%s", d)
	}
}

func TestRoundTripsToPartsThatAreDownSayNothingOfTheNetwork(t *testing.T) {
	s := meshed(2005, "a", "b")
	if found := slowProblems(&s); len(found) != 1 {
		t.Fatalf("%d problems while all parts serve: %+v; want 1", len(found), found)
	}
	s.DataCenters[1].Parts[0].State = console.PartDown
	if found := slowProblems(&s); len(found) != 0 {
		t.Errorf("a middleman is down: %+v; want no problem of the network", found)
	}
}

func TestACutHasBothItsEnds(t *testing.T) {
	s := meshed(80, "a", "b", "c", "d")
	s.Links[3].CutAB, s.Links[3].CutBA = true, true
	if d := cmp.Diff([][2]string{{"b", "c"}}, ends(cutProblems(&s, nil))); d != "" {
		t.Errorf("one link is cut (-want +got):\n%s", d)
	}
	for i := range s.Links {
		if s.Links[i].A == "b" || s.Links[i].B == "b" {
			s.Links[i].CutAB = true
		}
	}
	if d := cmp.Diff([][2]string{{"b", ""}}, ends(cutProblems(&s, nil))); d != "" {
		t.Errorf("b is cut off (-want +got):\n%s", d)
	}
	if text := cutProblems(&s, map[string]string{"a": "north"})[0].Text; !strings.Contains(text,
		"A write of one of its keys") {
		t.Errorf("b is cut off, one of several data centers of its ring: %s", text)
	}
	if text := cutProblems(&s, map[string]string{"b": "south"})[0].Text; !strings.Contains(text, "all of ring south") ||
		!strings.Contains(text, "Every write") {
		t.Errorf("b is cut off, which is all of ring south: %s", text)
	}
}
