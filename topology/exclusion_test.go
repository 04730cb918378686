package topology

import (
	"fmt"
	"strings"
	"testing"
)

// divided returns a topology of some rings of one data center each, d0 to dn, of which those in a set of bits are
// excluded once.
func divided(t *testing.T, rings int, excluded uint, tieBreaker string, change func([]DataCenter)) *Topology {
	t.Helper()
	var dcs []DataCenter
	var all []Ring
	for i := range rings {
		dc := DataCenter{Name: fmt.Sprint("d", i), Coordinators: 1, Shards: 1}
		if excluded&(1<<i) != 0 {
			dc.Exclusions = 1
		}
		dcs, all = append(dcs, dc), append(all, Ring{Name: fmt.Sprint("r", i), DCs: []DC{DC(i)}})
	}
	if change != nil {
		change(dcs)
	}
	topo, err := New(1, dcs, all, nil)
	if err != nil {
		t.Fatal(err)
	}
	topo.TieBreaker = tieBreaker
	return topo
}

// TestNoTwoSidesMayExcludeAllRingsOfEachOther: whatever two sides exclude, in however many steps, a ring is left that
// neither has excluded.
func TestNoTwoSidesMayExcludeAllRingsOfEachOther(t *testing.T) {
	for rings := 2; rings <= 6; rings++ {
		for tie := range rings + 1 {
			tieBreaker := ""
			if tie < rings {
				tieBreaker = fmt.Sprint("d", tie)
			}
			var allowed []uint
			for excluded := range uint(1) << rings {
				if divided(t, rings, excluded, tieBreaker, nil).CheckExclusions(nil) == nil {
					allowed = append(allowed, excluded)
				}
			}
			everything := uint(1)<<rings - 1
			for _, a := range allowed {
				for _, b := range allowed {
					if a|b == everything {
						t.Fatalf("%d rings, tie-breaker %q: one side may exclude %b, and the other %b", rings,
							tieBreaker, a, b)
					}
				}
			}
			if most := rings - rings/2 - 1; len(allowed) == 0 ||
				divided(t, rings, 1<<most-1, tieBreaker, nil).CheckExclusions(nil) != nil {
				t.Errorf("%d rings, tie-breaker %q: a majority may not exclude %d", rings, tieBreaker, most)
			}
			if half := uint(1)<<(rings/2) - 1; rings%2 == 0 &&
				(divided(t, rings, half, tieBreaker, nil).CheckExclusions(nil) == nil) != (tieBreaker != "" &&
					tie >= rings/2) {
				t.Errorf("%d rings, tie-breaker %q: half of them exclude the others: %v", rings, tieBreaker,
					divided(t, rings, half, tieBreaker, nil).CheckExclusions(nil))
			}
		}
	}
}

func TestOnlyWhatIsExcludedAnewIsJudgedAndForcedExclusionsAreNot(t *testing.T) {
	for what, c := range map[string]struct {
		excluded   uint
		tieBreaker string
		before     map[string]int
		change     func([]DataCenter)
		want       string
	}{
		"one of two": {excluded: 1,
			want: "to exclude d0 leaves 1 of 2 rings: more than half of all rings must be left"},
		"as before": {excluded: 1, before: map[string]int{"d0": 1}},
		"once more": {before: map[string]int{"d0": 1}, change: func(d []DataCenter) {
			d[0].Exclusions = 2
		}, want: "to exclude d0"},
		"forced": {change: func(d []DataCenter) {
			d[0].Exclusions, d[0].ForceExclusion = 2, 2
		}},
		"an earlier one was forced": {before: map[string]int{"d0": 1}, change: func(d []DataCenter) {
			d[0].Exclusions, d[0].ForceExclusion = 2, 1
		}, want: "to exclude d0"},
		"the other side has the tie-breaker": {excluded: 1, tieBreaker: "d0", want: "leaves 1 of 2 rings"},
		"this side has the tie-breaker":      {excluded: 1, tieBreaker: "d1"},
		"the other one is back": {tieBreaker: "d1", before: map[string]int{"d1": 1},
			change: func(d []DataCenter) { d[0].Exclusions, d[1].Exclusions, d[1].Returned = 1, 1, 1 }},
		"the other one is back from an earlier one": {tieBreaker: "d1", before: map[string]int{"d1": 2},
			change: func(d []DataCenter) {
				d[0].Exclusions, d[1].Exclusions, d[1].Returned = 1, 2,
					1
			}, want: "leaves 0 of 2 rings"},
	} {
		err := divided(t, 2, c.excluded, c.tieBreaker, c.change).CheckExclusions(c.before)
		if (c.want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", what, err, c.want)
		}
	}
}

func TestFieldsOfExclusionsAreChecked(t *testing.T) {
	const text = `{epoch: 1, dataCenters: [{name: a, exclusions: 2%s}, {name: b}], rings: [{name: one, dataCenters: [a]}, {name: two, dataCenters: [b]}]%s}`
	for _, c := range []struct{ dc, rest, want string }{
		{", returned: 2, forceExclusion: 2", ", tieBreaker: b", ""},
		{", returned: 3", "", "returned is 3 and exclusions is 2"},
		{", forceExclusion: 3", "", "forceExclusion is 3 and exclusions is 2"},
		{"", ", tieBreaker: c", `tieBreaker is "c"`},
	} {
		got, err := Parse(fmt.Appendf(nil, text, c.dc, c.rest))
		if (c.want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %s: %v, want %q", c.dc, c.rest, err, c.want)
		}
		if err == nil && (got.TieBreaker != "b" || got.DCs[0].Returned != 2 || got.DCs[0].ForceExclusion != 2) {
			t.Errorf("read as %+v", got)
		}
	}
}
