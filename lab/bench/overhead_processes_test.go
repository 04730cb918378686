package bench_test

import (
	"os/exec"
	"testing"
	"time"

	"github.com/causalstore/causalstore/e2e/binaries"
	"github.com/causalstore/causalstore/lab/bench"
)

func TestOverheadOfProcessesIsMeasuredWithoutAndWithMutualTLS(t *testing.T) {
	binary := program(t)
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Skip("redis-server is not installed: apt-get install redis-server")
	}
	o := bench.OverheadOptions{Setup: setup(t, binary), Processes: true, Rounds: 2, Length: 100 * time.Millisecond,
		Connections: 4, Pipelines: []int{1, 16}, Keys: 100, ValueBytes: 1024}
	res, err := o.Measure(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(res.Cases) != 4 {
		t.Fatalf("%d cases; GET and SET at two depths were asked for", len(res.Cases))
	}
	for _, c := range res.Cases {
		if len(c.Ways) != 3 {
			t.Fatalf("%s at pipeline %d has %d ways", c.Command, c.Pipeline, len(c.Ways))
		}
		for i, w := range c.Ways {
			if w.Throughput.Min <= 0 || w.Ratio.Min <= 0 || w.P50Us <= 0 || w.P99Us < w.P50Us || w.Wrong != 0 {
				t.Errorf("%s at pipeline %d, %s: %+v", c.Command, c.Pipeline, w.Name, w)
			}
			kinds := map[string]bench.ProcessCost{}
			for _, p := range w.Costs {
				kinds[p.Process] = p
			}
			if want := []int{1, 5, 5}[i]; len(kinds) != want {
				t.Errorf("%s: costs of %d kinds of processes, want %d", w.Name, len(kinds), want)
			}
			if i > 0 && kinds["sidecar"].Allocations <= 0 {
				t.Errorf("%s: the sidecar allocates nothing", w.Name)
			}
		}
	}
	says(t, res, "mutual TLS", "SET, pipeline 16", "coordinator")
	carries(t, res)
}

func TestMembersOfTheCoordinatorAreCompared(t *testing.T) {
	binary := program(t)
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Skip("redis-server is not installed: apt-get install redis-server")
	}
	folder, err := binaries.Find(t.Context(), "etcd")
	if err != nil {
		t.Skip(err)
	}
	etcd, err := folder.Path("etcd")
	if err != nil {
		t.Fatal(err)
	}
	o := bench.OverheadOptions{Setup: setup(t, binary), Processes: true, Rounds: 1, Length: 100 * time.Millisecond,
		Connections: 4, Pipelines: []int{1}, Keys: 100, ValueBytes: 1024, Cases: []string{"set"},
		Members: []int{1, 2}, Etcd: etcd}
	res, err := o.Measure(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ways := res.Cases[0].Ways
	if len(ways) != 3 || ways[1].OfSecond.Median != 1 || ways[2].OfSecond.Median <= 0 || ways[2].Wrong != 0 {
		t.Errorf("%+v", ways)
	}
	says(t, res, "1 member", "2 members", "OF 1 MEMBER")
}
