package bench_test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/causalstore/causalstore/lab/bench"
	lab "github.com/causalstore/causalstore/lab/command"
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/command"
)

// runAsProgram makes the test binary be causalstore, so that deployments are started from what is tested.
const runAsProgram = "CAUSALSTORE_TEST_RUN_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(runAsProgram) != "" {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		code := command.Execute(ctx, lab.NewCommands()...)
		stop()
		os.Exit(code)
	}
	os.Exit(m.Run())
}

// program returns the binary to start deployments from.
func program(t *testing.T) string {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("these benchmarks need Linux (epoll and /proc): run the tests in a container")
	}
	t.Setenv(runAsProgram, "1")
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// setup is a program and a folder for its data.
func setup(t *testing.T, binary string) bench.Setup {
	return bench.Setup{Binary: binary, Dir: t.TempDir()}
}

// smallTopology is a file with three data centers in two rings.
func smallTopology(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "topology.yaml")
	err := os.WriteFile(file, []byte(`epoch: 1
dataCenters: [{name: a}, {name: b}, {name: c}]
rings:
- {name: one, dataCenters: [a, b]}
- {name: two, dataCenters: [c]}
roundTripMs: {a: {b: 4, c: 6}, b: {c: 8}}
`), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

func TestOverheadMeasuresEveryCaseOnBothSides(t *testing.T) {
	binary := program(t)
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Skip("redis-server is not installed: apt-get install redis-server")
	}
	o := bench.OverheadOptions{Setup: setup(t, binary), Rounds: 2, Length: 100 * time.Millisecond,
		Profile: time.Second, Connections: 4, Pipelines: []int{1, 16}, Keys: 100, ValueBytes: 50}
	res, err := o.Measure(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(res.Cases) != 4 {
		t.Fatalf("%d cases; GET and SET at two depths were asked for", len(res.Cases))
	}
	for _, c := range res.Cases {
		for _, s := range c.Ways {
			if s.Throughput.Min <= 0 || s.P50Us <= 0 || s.P99Us < s.P50Us || s.Wrong != 0 {
				t.Errorf("%s at pipeline %d, %s: %+v", c.Command, c.Pipeline, s.Name, s)
			}
		}
		through := c.Ways[1]
		plane := through.Costs[slices.IndexFunc(through.Costs, func(p bench.ProcessCost) bool {
			return p.Process == "data plane"
		})]
		if len(through.Costs) != 2 || through.Ratio.Median <= 0 || plane.Allocations <= 0 || len(plane.Layers) == 0 {
			t.Errorf("%s at pipeline %d: ratio %v, costs %+v", c.Command, c.Pipeline, through.Ratio, through.Costs)
		}
		if hits := through.ReadFrom["cache"]; c.Command == "GET" && hits < 0.99 {
			t.Errorf("only %v of the GETs at pipeline %d were hits", hits, c.Pipeline)
		}
		if c.Command == "SET" && through.DrainMs.Max <= 0 {
			t.Errorf("SETs at pipeline %d: drained after %+v", c.Pipeline, through.DrainMs)
		}
	}
	says(t, res, ">= 0.90", "SET, pipeline 16", "Where the CPU time", "DRAINED AFTER MS")
	carries(t, res)
}

func TestNearCopiesAnswerReadsOfAKeyThatIsWrittenAndNoneIsOld(t *testing.T) {
	o := bench.NearCopiesOptions{Setup: setup(t, program(t)), Holders: []int{2}, NearBytes: 1 << 20, Writes: []float64{1},
		Reads: 20, Length: 2 * time.Second}
	res, err := o.Measure(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(res.Cells) != 2 || res.Cells[0].FromNear > 0 || res.Cells[1].FromNear == 0 {
		t.Errorf("without near copies, and with: %+v", res.Cells)
	}
	if err := res.Verdict(); err != nil {
		t.Error(err)
	}
	if res.Cells[1].Old = 1; res.Verdict() == nil {
		t.Error("an old read passes")
	}
	says(t, res, "1024 KiB", "FROM NEAR COPIES")
	carries(t, res)
}

func TestMemoryCountsCachedObjects(t *testing.T) {
	const objects = 2000
	o := bench.MemoryOptions{Setup: setup(t, program(t)), Objects: objects, ValueBytes: 20,
		Load: 500 * time.Millisecond, Connections: 4}
	res, err := o.Measure(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if res.Cached != objects {
		t.Errorf("%v objects are cached of the %d that were read", res.Cached, objects)
	}
	if res.BytesPerObject < 8 {
		t.Errorf("%v bytes an object: a hash alone has 8", res.BytesPerObject)
	}
	for _, part := range []string{"coordinator", "middleman", "cache", "sidecar"} {
		if res.Idle[part] == 0 || res.Filled[part] == 0 || res.Loaded[part] == 0 {
			t.Errorf("memory of the %s: idle %d, filled %d, loaded %d", part, res.Idle[part], res.Filled[part],
				res.Loaded[part])
		}
	}
	if res.ReadCPU["sidecar"] == 0 || len(res.ReadCPU) != 4 || len(res.WriteCPU) != 4 {
		t.Errorf("CPU time of the parts: us/read %v, us/write %v", res.ReadCPU, res.WriteCPU)
	}
	says(t, res, "per cached object", "sidecar", "CPU US/WRITE")
	carries(t, res)
}

// says checks that the text of a result holds the given pieces.
func says(t *testing.T, res bench.Result, pieces ...string) {
	t.Helper()
	var b strings.Builder
	res.Report().Text(&b)
	for _, p := range pieces {
		if !strings.Contains(b.String(), p) {
			t.Errorf("the text lacks %q:\n%s", p, b.String())
		}
	}
}

// carries checks that a result can be written as JSON, which has no NaN.
func carries(t *testing.T, result any) {
	t.Helper()
	if _, err := json.Marshal(result); err != nil {
		t.Errorf("as JSON: %v", err)
	}
}

func TestIdleMeasuresEveryKindOfPart(t *testing.T) {
	o := bench.IdleOptions{Setup: setup(t, program(t)), Length: 100 * time.Millisecond, Sidecars: 1, Level: causal.Latest}
	res, err := o.Measure(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(res.Small) != 5 || len(res.Crowded) != 5 {
		t.Fatalf("%+v", res)
	}
	for _, p := range append(res.Small, res.Crowded...) {
		if p.AnonymousMiB <= 0 || p.ResidentMiB < p.AnonymousMiB {
			t.Errorf("%+v: every part has memory of its own", p)
		}
	}
}

func TestLimitsAttacksPartsAndServesOthersAfterwards(t *testing.T) {
	binary := program(t)
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Skip("redis-server is not installed: apt-get install redis-server")
	}
	o := bench.LimitsOptions{Setup: setup(t, binary), Length: 300 * time.Millisecond, Connections: 4, Idle: 20,
		Attacks: []string{"half-sent"}}
	res, err := o.Measure(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(res.Attacks) != 1 || res.Attacks[0].Problem != "" || res.IdleMiB <= 0 || res.IdleConnections != 20 {
		t.Fatalf("%+v", res)
	}
	for _, part := range []string{"coordinator", "middleman", "cache", "sidecar"} {
		if res.Attacks[0].PeakMiB[part] <= 0 {
			t.Errorf("memory of the %s: %v MiB", part, res.Attacks[0].PeakMiB[part])
		}
	}
	if err := res.Verdict(); err != nil {
		t.Error(err)
	}
	res.LimitMiB = map[string]int64{"sidecar": 1}
	if res.Verdict() == nil {
		t.Error("a sidecar that takes more than 1 MiB is within that limit")
	}
	says(t, res, "half-sent", "idle sidecar", "SIDECAR (OF 1)")
	carries(t, res)
}
