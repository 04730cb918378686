package bench_test

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
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

func TestOverheadMeasuresEveryCaseOnBothSides(t *testing.T) {
	binary := program(t)
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Skip("redis-server is not installed: apt-get install redis-server")
	}
	res, err := bench.MeasureOverhead(t.Context(),
		bench.OverheadOptions{Binary: binary, Dir: t.TempDir(), Rounds: 2, Length: 100 * time.Millisecond,
			Profile: time.Second, Connections: 4, Pipelines: []int{1, 16}, Keys: 100, ValueBytes: 50})
	if err != nil {
		t.Fatal(err)
	}
	if len(res.Cases) != 4 {
		t.Fatalf("%d cases; GET and SET at two depths were asked for", len(res.Cases))
	}
	for _, c := range res.Cases {
		for name, s := range map[string]bench.Side{"direct": c.Direct, "through": c.Through} {
			if s.Throughput.Min <= 0 || s.P50Us <= 0 || s.P99Us < s.P50Us || s.Wrong != 0 {
				t.Errorf("%s at pipeline %d, %s: %+v", c.Command, c.Pipeline, name, s)
			}
		}
		if c.Ratio.Median <= 0 || c.Allocations <= 0 || len(c.Layers) == 0 {
			t.Errorf("%s at pipeline %d: ratio %v, %v allocations, layers %v", c.Command, c.Pipeline, c.Ratio,
				c.Allocations, c.Layers)
		}
		if c.Command == "GET" && c.Hits < 0.99 {
			t.Errorf("only %v of the GETs at pipeline %d were hits", c.Hits, c.Pipeline)
		}
	}
	says(t, res.Text, ">= 0.90", "SET, pipeline 16", "Where the CPU time")
	carries(t, res)
}

func TestMemoryCountsCachedObjects(t *testing.T) {
	const objects = 2000
	res, err := bench.MeasureMemory(t.Context(), bench.MemoryOptions{Binary: program(t), Dir: t.TempDir(),
		Objects: objects, ValueBytes: 20,
		Load: 500 * time.Millisecond, Connections: 4})
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
	says(t, res.Text, "per cached object", "sidecar", "CPU us/write")
	carries(t, res)
}

// says checks that the text of a result holds the given pieces.
func says(t *testing.T, text func(io.Writer), pieces ...string) {
	t.Helper()
	var b strings.Builder
	text(&b)
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
	res, err := bench.MeasureIdle(t.Context(), bench.IdleOptions{Binary: program(t), Dir: t.TempDir(),
		Length: 100 * time.Millisecond, Sidecars: 1, Level: causal.Latest})
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
	o := bench.LimitsOptions{Binary: binary, Dir: t.TempDir(), Length: 300 * time.Millisecond, Connections: 4, Idle: 20,
		Attacks: []string{"half-sent"}}
	res, err := bench.MeasureLimits(t.Context(), o)
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
	if err := res.Exceeded(); err != nil {
		t.Error(err)
	}
	res.LimitMiB = map[string]int64{"sidecar": 1}
	if res.Exceeded() == nil {
		t.Error("a sidecar that takes more than 1 MiB is within that limit")
	}
	says(t, res.Text, "half-sent", "idle sidecar", "sidecar (of 1)")
	carries(t, res)
	o.Attacks = []string{"charm"}
	if _, err := bench.MeasureLimits(t.Context(), o); err == nil || !strings.Contains(err.Error(), "half-sent") {
		t.Errorf("an unknown attack: %v", err)
	}
}
