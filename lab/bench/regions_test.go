package bench_test

import (
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/causalstore/causalstore/lab/bench"
	"github.com/causalstore/causalstore/lab/envoy"
)

func TestRegionsAreMeasuredInEveryForm(t *testing.T) {
	binary := program(t)
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Skip("redis-server is not installed: apt-get install redis-server")
	}
	const keys = 100
	o := bench.RegionsOptions{Setup: setup(t, binary),
		Envoy: os.Getenv(envoy.ProgramVariable),
		Forms: bench.RegionForms, Delays: []time.Duration{5 * time.Millisecond}, Window: 1 << 20, Rounds: 1,
		Length:      100 * time.Millisecond,
		Connections: 4, Keys: keys, ValueBytes: 1024, Probes: 20, BacklogBytes: 500_000, Cuts: 1,
		ShortestCut: 300 * time.Millisecond, LongestCut: 300 * time.Millisecond}
	res, err := o.Measure(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	forms := len(bench.RegionForms)
	if os.Getenv(envoy.ProgramVariable) == "" {
		forms--
		says(t, res, "CAUSALSTORE_ENVOY")
	}
	if len(res.Delays) != 1 || len(res.Delays[0].Forms) != forms || res.Delays[0].Ceiling.Min <= 0 {
		t.Fatalf("%+v", res)
	}
	for _, f := range res.Delays[0].Forms {
		for command, l := range map[string]*bench.RegionLoad{"GET": f.Get, "SET": f.Set} {
			kinds := 5
			if f.Form == "edges" {
				kinds++
			}
			if l.Throughput.Min <= 0 || l.P50Us <= 0 || l.P99Us < l.P50Us || l.Wrong > 0 || len(l.Costs) != kinds {
				t.Errorf("%s, %s: %+v", f.Form, command, l)
			}
		}
		if f.Propagations != 20 || f.SentPerWrite < 1024 || f.BackPerWrite <= 0 {
			t.Errorf("%s: %d writes were followed; %v bytes of each were sent, and %v came back", f.Form,
				f.Propagations, f.SentPerWrite, f.BackPerWrite)
		}
		if f.Backlog.Min <= 0 || f.BacklogShare.Min <= 0 || len(f.HealsMs) != 1 || f.HealsMs[0] <= 0 {
			t.Errorf("%s: backlog %+v, heals %v", f.Form, f.Backlog, f.HealsMs)
		}
	}
	says(t, res, "PROPAGATION P50", "plain", "tls", "ONE CONNECTION")
	carries(t, res)
}
