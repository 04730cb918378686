package bench_test

import (
	"os/exec"
	"testing"
	"time"

	"github.com/causalstore/causalstore/lab/bench"
)

func TestRedisBenchmarkComparesRedisAndTheParts(t *testing.T) {
	binary := program(t)
	for _, needed := range []string{"redis-server", "redis-benchmark"} {
		if _, err := exec.LookPath(needed); err != nil {
			t.Skip(needed + " is not installed: apt-get install redis-server redis-tools")
		}
	}
	o := bench.StockClientOptions{Setup: setup(t, binary), Commands: []string{"get", "set"}, Connections: []int{1, 5},
		Pipelines: []int{8}, Rounds: 1, Length: 50 * time.Millisecond, Keys: 100, ValueBytes: 100, NearBytes: 32 << 20}
	res, err := o.Measure(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(res.Cases) != 4 {
		t.Fatalf("%d cases", len(res.Cases))
	}
	for _, c := range res.Cases {
		if len(c.Ways) != 3 {
			t.Fatalf("%+v has %d ways", c, len(c.Ways))
		}
		for i, w := range c.Ways {
			if w.Throughput.Min <= 0 || w.Ratio.Min <= 0 || w.P99Ms.Min < w.P50Ms.Min || i == 0 && w.Ratio.Median != 1 {
				t.Errorf("%s -c %d, %s: %+v", c.Command, c.Connections, w.Name, w)
			}
		}
	}
	says(t, res, "redis-benchmark", "mutual TLS", "near copies", "P99 MS")
	carries(t, res)
}
