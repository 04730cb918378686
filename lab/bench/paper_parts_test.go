package bench

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/causalstore/causalstore/lab/load"
	"github.com/causalstore/causalstore/lab/local"
	"github.com/causalstore/causalstore/lab/ports"
	"github.com/causalstore/causalstore/topology"
)

func TestSaturationIsFoundAfterTwoStepsWithLittleGain(t *testing.T) {
	for name, c := range map[string]struct {
		throughput []float64 // of 10, 20, 40 ... clients
		clients    int
		bounded    bool
	}{
		"levels off":           {[]float64{100, 190, 200, 205}, 20, false},
		"falls":                {[]float64{100, 90, 80}, 10, false},
		"one bad step":         {[]float64{100, 50, 190, 195, 200}, 40, false},
		"never":                {[]float64{100, 200, 400, 800, 1600}, 160, true},
		"at the end of trying": {[]float64{100, 200, 400, 800, 810}, 80, false},
	} {
		s := &Saturation{}
		found := false
		for i, v := range c.throughput {
			if found {
				t.Errorf("%s: found before step %d", name, i)
			}
			found = s.take(SaturationStep{Clients: 10 << i, Throughput: v}, 0.1, 160)
		}
		if !found || s.Clients != c.clients || s.Bounded != c.bounded {
			t.Errorf("%s: found %t, %d clients, bounded %t", name, found, s.Clients, s.Bounded)
		}
	}
}

func TestResizedTopologiesKeepRingsAndDistances(t *testing.T) {
	base := topology.Default()
	index := func(topo *topology.Topology, name string) topology.DC {
		dc, ok := topo.ByName(name)
		if !ok {
			t.Fatalf("%s is missing", name)
		}
		return dc
	}
	for name, c := range map[string]struct {
		file       *topology.File
		dcs, rings int
	}{
		"four":    {shrinkTopology(base, 4), 4, 3},
		"one":     {shrinkTopology(base, 1), 3, 3}, // every ring needs a data center
		"sixteen": {doubleTopology(base), 16, 3},
		"ideal":   {idealTopology(base), 8, 8},
	} {
		topo, err := c.file.Topology()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if len(topo.DCs) != c.dcs || len(topo.Rings) != c.rings {
			t.Errorf("%s: %d data centers in %d rings", name, len(topo.DCs), len(topo.Rings))
		}
		a, b := index(topo, "us-east-1"), index(topo, "sa-east-1")
		if got := topo.RTT[a][b]; got != 163.4 {
			t.Errorf("%s: %v ms from us-east-1 to sa-east-1", name, got)
		}
	}
	double, err := doubleTopology(base).Topology()
	if err != nil {
		t.Fatal(err)
	}
	a, b, far := index(double, "eu-west-1"), index(double, "eu-west-1-b"), index(double, "sa-east-1-b")
	if double.RTT[a][b] != regionMs || double.RTT[a][far] != 239.8 || double.RTT[b][far] != 239.8 ||
		double.RingOf(a) != double.RingOf(b) {
		t.Errorf("eu-west-1 and its second: %v ms apart, %v and %v from Brazil", double.RTT[a][b], double.RTT[a][far],
			double.RTT[b][far])
	}
}

func TestRatiosAreComputedRoundByRound(t *testing.T) {
	a, b := summaryOf([]float64{200, 20}), summaryOf([]float64{100, 10}) // the machine got ten times slower
	if r := a.over(b); r.Mean != 2 || r.Deviation != 0 || r.Rounds != 2 {
		t.Errorf("%+v", r)
	}
	if s := summaryOf([]float64{2, 4, 4, 4, 5, 5, 7, 9}); s.Mean != 5 || math.Abs(s.Deviation-2.138) > 0.001 ||
		s.Min != 2 || s.Max != 9 {
		t.Errorf("%+v", s)
	}
	if s := summaryOf([]float64{3}); s.Deviation != 0 || s.text("%.0f") != "3" {
		t.Errorf("%+v", s)
	}
	if g := geometricMean([]float64{1, 100}); math.Abs(g-10) > 1e-9 {
		t.Errorf("geometric mean of 1 and 100: %v", g)
	}
	if g := geometricMean([]float64{0, 1}); g != 0 {
		t.Errorf("geometric mean with 0: %v", g)
	}
}

func TestDurationsSubtractAndAdd(t *testing.T) {
	before := local.Durations{Count: 3, SumMs: 12,
		Buckets: []local.Bucket{{UpToMs: 1, Count: 2}, {UpToMs: 10, Count: 1}}}
	came := local.Durations{Count: 4, SumMs: 130,
		Buckets: []local.Bucket{{UpToMs: 10, Count: 3}, {UpToMs: 100, Count: 1}}}
	now := durationsPlus(before, came)
	if diff := cmp.Diff(came, durationsSince(now, before)); diff != "" {
		t.Errorf("the sum less the first is not the second (-want +got):\n%s", diff)
	}
	want := Times{Count: 7, MeanMs: 142.0 / 7, P50Ms: 10, P90Ms: 100, P99Ms: 100}
	if diff := cmp.Diff(want, timesOf(now)); diff != "" {
		t.Errorf("quantiles (-want +got):\n%s", diff)
	}
}

func TestCongestionComparesDuringWithBefore(t *testing.T) {
	site := func(ops ...int64) *siteResult {
		s := &siteResult{}
		for _, n := range ops {
			s.series = append(s.series, windowResult{ops: n, gets: n,
				getTime: time.Duration(n) * 10 * time.Millisecond})
		}
		return s
	}
	c := &Congestion{From: 2, To: 4}
	c.conclude(&loopResult{sites: []*siteResult{site(100, 100, 20, 40, 90), site(10, 10, 10, 10, 10)}}, time.Second,
		[]string{"a", "b"})
	if diff := cmp.Diff(map[string]float64{"a": 0.3, "b": 1}, c.KeptPerDC); diff != "" {
		t.Errorf("kept by data center (-want +got):\n%s", diff)
	}
	if want := (30.0 + 50) / 2 / 110; math.Abs(c.Kept.Mean-want) > 1e-9 || len(c.Series) != 5 || c.GetDuringMs != 10 {
		t.Errorf("kept %v, want %v; %d windows; reads took %v ms", c.Kept.Mean, want, len(c.Series), c.GetDuringMs)
	}
}

func TestClosedLoopFailsWithoutServers(t *testing.T) {
	addr := ports.ForTest(t)
	l := &closedLoop{addrs: []string{addr}, clients: 2, records: newRecords(3, 5),
		popular: popularity{load.NewZipf(3, 0.99)}, length: time.Minute}
	if _, err := l.run(context.Background()); err == nil {
		t.Error("the run succeeded, but nothing listens at the address")
	}
}
