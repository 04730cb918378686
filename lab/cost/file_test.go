package cost

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/causalstore/causalstore/topology"
)

func TestErrorsNameTheFieldAndTheRemedy(t *testing.T) {
	two := `dataCenters: [{name: a}, {name: b}]`
	for text, want := range map[string]string{
		`{}`:                                            "dataCenters is empty; list at least one",
		`{dataCenters: [{name: a, user: 3}]}`:           "user",
		`{dataCenters: [{name: a, users: -3}]}`:         `users of data center "a" is -3; it must not be negative`,
		`{dataCenters: [{name: a, users: 0}]}`:          "there is no traffic: give at least one data center users",
		`{dataCenters: [{name: a, zones: 0}]}`:          `zones of data center "a" is 0; give at least 1`,
		`{dataCenters: [{name: a, shards: 0}]}`:         `"a": shards and coordinators must be at least 1`,
		`{dataCenters: [{name: a, readsPerSecond: 3}]}`: "only one of readsPerSecond and writesPerSecond; give both",
		`{dataCenters: [{name: a, readsPerSecond: 3, writesPerSecond: 1}, {name: b, users: 2}]}`: `"b" has users, but others have readsPerSecond`,
		`{dataCenters: [{name: a, missRatio: 3}]}`:                                               `missRatio of data center "a" is 3; it is a share`,
		`{` + two +
			`, missRatio: 35}`: "missRatio is 35; it is a share and must be between 0 and 1",
		`{` + two + `, putFraction: -1}`:        "putFraction is -1",
		`{` + two + `, putFractions: [0.1, 5]}`: "putFractions is 5",
		`{` + two + `, alphas: [2]}`:            "alphas is 2",
		`{` + two + `, boundReads: 2}`:          "boundReads is 2",
		`{` + two + `, cacheShare: 2}`:          "cacheShare is 2",
		`{` + two +
			`, putBytes: -1}`: "putBytes is -1; it must not be negative",
		`{` + two +
			`, pricePerGB: {a: {c: 1}}}`: `from "a" to "c"; use names that dataCenters lists`,
		`{` + two +
			`, pricePerGB: {a: {b: -1}}}`: "must not be negative, and be between two different data centers",
		`{` + two +
			`, pricePerGB: {a: {a: 1}}}`: "must not be negative, and be between two different data centers",
		`{` + two +
			`, defaultPricePerGB: -1}`: "defaultPricePerGB is -1; it must not be negative",
		`{` + two +
			`, rings: [{name: r, dataCenters: [a]}]}`: `"b" is in no ring; add it to one`,
		`{` + two +
			`, roundTripMs: {a: {c: 1}}}`: "dataCenters does not list both",
		`{` + two + `, rings: [{name: r, dataCenters: [a, b]}, {name: q, dataCenters: [a]}]}`: "belongs to exactly one",
	} {
		f, err := Parse([]byte(text))
		if err == nil {
			_, err = f.Scenario()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\n  gives %v, want something with %q", text, err, want)
		}
	}
}

func TestTopologyFileIsAnInputWithEvenTraffic(t *testing.T) {
	f, err := Load("../../topology/default.yaml")
	if err != nil {
		t.Fatal(err)
	}
	fromFile, err := f.Scenario()
	if err != nil {
		t.Fatal(err)
	}
	fromTopology, err := OfTopology(topology.Default()).Scenario()
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(fromTopology, fromFile, cmp.AllowUnexported(Scenario{})); d != "" {
		t.Error(d)
	}
	for _, d := range fromFile.DCs {
		near(t, "reads of "+d.Name, d.Reads, 1.0/8, 1e-12)
	}
}

func TestRatesDetermineThePutFraction(t *testing.T) {
	s := parse(t,
		`{dataCenters: [{name: a, readsPerSecond: 60, writesPerSecond: 10}, {name: b, readsPerSecond: 20, writesPerSecond: 10}]}`)
	near(t, "put fraction", s.PutFraction, 0.2, 1e-12)
	near(t, "rate", s.OperationsPerSecond, 100, 1e-12)
	near(t, "reads of a", s.DCs[0].Reads, 0.75, 1e-12)
	near(t, "writes of a", s.DCs[0].Writes, 0.5, 1e-12)
	near(t, "a month of 1 byte for each operation", s.PerMonth(1), 100*30.4375*86400/1e9, 1e-9)
}

func TestPricesFallBackToTheStarThenTheOtherDirectionThenTheDefault(t *testing.T) {
	s := parse(t,
		`{dataCenters: [{name: a}, {name: b}, {name: c}], pricePerGB: {a: {b: 2, "*": 3}}, defaultPricePerGB: 9}`)
	want := [][]float64{{0, 2, 3}, {2, 0, 9}, {9, 9, 0}} // a star says nothing of the way back
	if d := cmp.Diff(want, s.Price); d != "" {
		t.Error(d)
	}
	if s.PricesAreAlike() {
		t.Error("these prices are taken to be alike")
	}
}

func TestModelReproducesMeasuredBytes(t *testing.T) {
	s := parse(t,
		`{dataCenters: [{name: a, users: 3}, {name: b, users: 1}, {name: c, users: 1}], rings: [{name: r, dataCenters: [a, b]}, {name: q, dataCenters: [c]}]}`)
	if err := s.Use(Measured{MissRatio: 0.2, WANBytesPerGet: 40, WANBytesPerPut: 900}); err != nil {
		t.Fatal(err)
	}
	near(t, "bytes of a get", s.Rings(s.Today, 0).Bytes(), 40, 1e-9)
	near(t, "bytes of a put", s.Rings(s.Today, 1).Bytes(), 900, 1e-9)
	if near(t, "misses", s.MissRatio(), 0.2, 1e-12); s.Rings(s.FullReplication(), 1).Bytes() <= 900 {
		t.Error("more copies of a put must take more bytes")
	}
}

func TestInvalidMeasuredFiguresAreRefused(t *testing.T) {
	dir := t.TempDir()
	for text, want := range map[string]string{
		`{"missRatio": 0.1}`: "give missRatio, wanBytesPerGet and wanBytesPerPut",
		`{"missRatio": 10, "wanBytesPerGet": 1, "wanBytesPerPut": 1}`:             "it is a share",
		`{"missRatio": 0.1, "wanBytesPerGet": -1, "wanBytesPerPut": 1}`:           "must not be negative",
		`{"missRatio": 0.1, "wanBytesPerGet": 1, "wanBytesPerPut": 1, "more": 1}`: "more",
		`no`: "measured figures",
	} {
		file := filepath.Join(dir, "measured.json")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := LoadMeasured(file); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s gives %v, want something with %q", text, err, want)
		}
	}
	alone := parse(t, `{dataCenters: [{name: a}], rings: [{name: r, dataCenters: [a]}]}`)
	if err := alone.Use(Measured{MissRatio: 0.1, WANBytesPerPut: 5}); err == nil ||
		!strings.Contains(err.Error(), "nothing is sent between data centers") {
		t.Errorf("bytes between data centers, with only one: %v", err)
	}
	if err := parse(t, `{dataCenters: [{name: a}]}`).Use(Measured{}); err == nil ||
		!strings.Contains(err.Error(), "add these rings to the input") {
		t.Errorf("measured without rings: %v", err)
	}
}
