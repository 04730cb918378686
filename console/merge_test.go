package console

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func ptr[T any](v T) *T { return &v }

func TestRegionsAreMergedIntoOnePage(t *testing.T) {
	site := func(name, ring, region string) LayoutSite { return LayoutSite{Name: name, Ring: ring, Region: region} }
	layout := Layout{Rings: []string{"west", "east"},
		DataCenters: []LayoutSite{site("a", "west", "us"), site("b", "east", "eu"), site("c", "east", "ap")},
		Version:     "v1", FactsAgeMs: 2000}
	newer := layout
	newer.Version = "v2"
	merged := MergeLayouts("both", []Layout{layout, newer})
	want := layout
	want.Title, want.Version = "both", "v1, v2"
	if d := cmp.Diff(want, merged); d != "" {
		t.Errorf("the layout (-want +got):\n%s", d)
	}

	problem := Problem{Severity: Critical, Text: "b gives no answer"}
	us := Snapshot{Epoch: 3, DataCenters: []DataCenter{{Name: "a", InFlight: ptr(4)}, UnknownDataCenter("b", "eu"),
		UnknownDataCenter("c", "ap")},
		Links: []Link{{A: "a", B: "b", CutAB: true, BytesPerSecond: ptr(10.0)},
			{A: "a", B: "c", RoundTripMs: ptr(80.0)}},
		Problems: []Problem{{Severity: Warning, Text: "slow"}, problem}}
	eu := Snapshot{Epoch: 4, DataCenters: []DataCenter{UnknownDataCenter("a", "us"), {Name: "b", InFlight: ptr(5)},
		UnknownDataCenter("c", "ap")},
		Links:    []Link{{A: "b", B: "a", RoundTripMs: ptr(70.0), BytesPerSecond: ptr(5.0)}, {A: "b", B: "c"}},
		Problems: []Problem{problem}}
	got := Merge(merged, 99, []Snapshot{us, eu}, func(s LayoutSite) string { return "not asked: " + s.Region })
	if d := cmp.Diff(Snapshot{AtMs: 99, Epoch: 4,
		DataCenters: []DataCenter{{Name: "a", InFlight: ptr(4)}, {Name: "b", InFlight: ptr(5)},
			UnknownDataCenter("c", "not asked: ap")},
		Links: []Link{{A: "a", B: "b", CutAB: true, RoundTripMs: ptr(70.0), BytesPerSecond: ptr(15.0)},
			{A: "a", B: "c", RoundTripMs: ptr(80.0)}, {A: "b", B: "c"}},
		Problems: []Problem{problem, {Severity: Warning, Text: "slow"}}}, got); d != "" {
		t.Errorf("the snapshot (-want +got):\n%s", d)
	}
}

func TestRatesOfAnotherServerAreKept(t *testing.T) {
	rates := &Rates{Writes: 5}
	r := still(&source{})
	r.take = func() Snapshot {
		return Snapshot{AtMs: 1, DataCenters: []DataCenter{{Name: "a", Rates: rates}},
			Links: []Link{{A: "a", B: "b", BytesPerSecond: ptr(7.0)}}}
	}
	r.record()
	r.record()
	if got := r.last.DataCenters[0].Rates; got != rates || *r.last.Links[0].BytesPerSecond != 7 {
		t.Errorf("rates %+v, link %+v", got, r.last.Links[0])
	}
}
