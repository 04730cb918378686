package bench_test

import (
	"os/exec"
	"testing"
	"time"

	"github.com/causalstore/causalstore/lab/bench"
)

func TestWorkloadsAreComparedOnRedisAndThroughTheParts(t *testing.T) {
	binary := program(t)
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Skip("redis-server is not installed: apt-get install redis-server")
	}
	o := bench.WorkloadsOptions{Setup: setup(t, binary), Rounds: 2, Length: 100 * time.Millisecond, Connections: 4,
		Pipeline: 2, NearBytes: 32 << 20}
	o.Args = []string{"ycsb-z"}
	if _, err := o.Measure(t.Context()); err == nil {
		t.Error("an unknown workload is accepted")
	}
	o.Args = []string{"testdata/few-keys.yaml"}
	res, err := o.Measure(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(res.Cases) != 1 || res.Cases[0].Keys != 100 {
		t.Fatalf("%+v", res.Cases)
	}
	for _, c := range res.Cases {
		if len(c.Ways) != 3 {
			t.Fatalf("%s has %d ways", c.Workload, len(c.Ways))
		}
		for _, w := range c.Ways {
			if w.Throughput.Min <= 0 || w.Ratio.Min <= 0 || w.P50Us <= 0 || w.P99Us < w.P50Us || w.GeneratorUs <= 0 ||
				w.Wrong != 0 || w.Found != 1 {
				t.Errorf("%s, %s: %+v", c.Workload, w.Name, w)
			}
			sum := 0.0
			for _, share := range w.ReadFrom {
				sum += share
			}
			if through := w.Name != c.Ways[0].Name; through != (sum > 0.999 && sum < 1.001) {
				t.Errorf("%s, %s: read from %v", c.Workload, w.Name, w.ReadFrom)
			}
		}
	}
	says(t, res, "few-keys", "mutual TLS", "near copies", "FOUND", "near ")
	carries(t, res)
}
