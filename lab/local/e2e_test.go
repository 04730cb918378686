package local_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/causalstore/causalstore/history"
	"github.com/causalstore/causalstore/lab/load"
	"github.com/causalstore/causalstore/lab/local"
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/cache"
	"github.com/causalstore/causalstore/sidecar/causal/coordinator"
	"github.com/causalstore/causalstore/sidecar/causal/middleman"
	"github.com/causalstore/causalstore/sidecar/causal/session"
	"github.com/causalstore/causalstore/sidecar/node"
	"github.com/causalstore/causalstore/topology"
)

// secondsEnv is how long each deployment is loaded.
const secondsEnv = "CAUSALSTORE_E2E_SECONDS"

func e2eLength(t *testing.T) time.Duration {
	t.Helper()
	seconds := 6.0
	if s := os.Getenv(secondsEnv); s != "" {
		var err error
		if seconds, err = strconv.ParseFloat(s, 64); err != nil || seconds <= 0 {
			t.Fatalf("%s=%q: give a number of seconds", secondsEnv, s)
		}
	}
	return time.Duration(seconds * float64(time.Second))
}

// startExact is start with some sidecars in each data center, whose clients see one Redis.
func startExact(t testing.TB, sidecars int) *local.Deployment {
	t.Helper()
	return start(t, local.Options{Scope: node.ScopeDataCenter, Level: causal.Snapshot, Cache: true, Sidecars: sidecars})
}

// start starts a deployment of eight data centers on free ports, and stops it with the test.
func start(t testing.TB, o local.Options) *local.Deployment {
	t.Helper()
	o.Host, o.WAN, o.DataDir = "127.0.0.1", true, t.TempDir()
	if o.Topology == nil {
		o.Topology = topology.Default()
	}
	if o.Engine == "" {
		o.Engine = "embedded"
	}
	d, err := local.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return d
}

func TestE2EHistoriesOverRealSocketsAreCausalUnderFaults(t *testing.T) {
	length := e2eLength(t)
	for _, scope := range []node.Scope{node.ScopePod, node.ScopeConnection} {
		for _, level := range causal.SessionLevels() {
			for _, cache := range []bool{true, false} {
				name := fmt.Sprintf("scope=%s/reads=%s/cache=%t", scope, level, cache)
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					loadWithFaults(t, length, local.Options{Scope: scope, Level: level, Cache: cache})
				})
			}
		}
	}
}

func TestE2EHistoriesOnStockRedisAreCausalUnderFaults(t *testing.T) {
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Skip("redis-server is not installed; apt-get install redis-server")
	}
	length := e2eLength(t)
	for _, scope := range []node.Scope{node.ScopePod, node.ScopeConnection} {
		t.Run("scope="+string(scope), func(t *testing.T) {
			t.Parallel()
			loadWithFaults(t, length, local.Options{Scope: scope, Cache: true, Engine: "redis"})
		})
	}
}

func TestE2EBrokenRuleIsDetected(t *testing.T) {
	t.Parallel()
	broken := causal.MutationsOf(causal.SkipDeps, causal.ForgetBind, causal.CacheInFlight, causal.RegisterLate,
		causal.AckBeforeInvalidation)
	const attempts = 6
	for range attempts {
		_, _, report := underLoad(t, 4*time.Second,
			local.Options{Scope: node.ScopeConnection, Cache: true, Tune: local.Tune{
				Coordinator: func(c *coordinator.Config) { c.Broken = broken },
				Sidecar:     func(c *session.Config) { c.Broken = broken },
				Middleman:   func(c *middleman.Config) { c.Broken = broken },
				Cache:       func(c *cache.Config) { c.Broken = broken },
			}})
		if !report.OK() {
			return
		}
	}
	t.Errorf("%d times, dependencies, restrictions and invalidations were ignored, and the histories were causal",
		attempts)
}

// loadWithFaults loads a deployment and checks what its clients saw.
func loadWithFaults(t *testing.T, length time.Duration, o local.Options) {
	res, h, report := underLoad(t, length, o)
	if !report.OK() {
		keep(t, h, report)
	}
	if res.Ops < 100 {
		t.Errorf("%d operations succeeded: too few to say anything", res.Ops)
	}
	if !res.Final.Settled() {
		t.Errorf("after all faults had ended, data centers disagree on %d of %d keys and are behind on %d",
			res.Final.Disagree, res.Final.Keys, res.Final.Behind)
	}
}

// underLoad loads a deployment over its Redis ports, injects random faults meanwhile, heals it, reads everything
// everywhere and checks the history.
func underLoad(t *testing.T, length time.Duration, o local.Options) (load.Result, history.History, history.Report) {
	t.Helper()
	return underLoadWith(t, length, o, harm)
}

// underLoadWith does so with the faults of harm, which ends after a while.
func underLoadWith(t *testing.T, length time.Duration, o local.Options,
	harm func(*local.Deployment, *rand.Rand, time.Duration) <-chan harmed) (load.Result, history.History,
	history.Report) {
	t.Helper()
	d := start(t, o)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	naming, connections := load.ByConnection, 1
	if o.Scope == node.ScopePod {
		naming, connections = load.ByEndpoint, 2
	}
	var endpoints []load.Endpoint
	for _, e := range d.Endpoints() {
		endpoints = append(endpoints, load.Endpoint{Name: e.Name, Addr: e.RESP})
	}
	faults := harm(d, rand.New(rand.NewPCG(seed, 0)), length*9/10)
	var recorded bytes.Buffer
	res, err := load.Run(t.Context(), load.Config{
		Endpoints: endpoints, Sessions: 24, ConnectionsPerSession: connections, SessionNaming: naming,
		Timeout:  12 * time.Second,
		Duration: length, Rate: 1500, Keys: 60, Theta: 0.9, ReadRatio: 0.6, MGetRatio: 0.15, DeleteRatio: 0.03,
		MGetKeys: 3, Seed: seed,
		Record: &recorded, CaptureVersions: true, FinalReads: true, FinalTimeout: 30 * time.Second,
	})
	harmed := <-faults
	if err := errors.Join(err, harmed.err); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d faults: %v\n%s", len(harmed.faults), harmed.faults, res.String())
	h, err := history.ReadAll(bytes.NewReader(recorded.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	return res, h, history.Check(h, history.Options{AddsUp: true})
}

// harmed counts the faults that were injected into a deployment.
type harmed struct {
	faults []string
	err    error
}

// harm injects faults repeatedly for a while, heals the deployment, and then reports what it did.
func harm(d *local.Deployment, r *rand.Rand, length time.Duration) <-chan harmed {
	done := make(chan harmed, 1)
	go func() {
		var h harmed
		ctx := context.Background()
		end := time.NewTimer(length)
		defer end.Stop()
		for ended := false; !ended; {
			calm := time.Duration(200+r.IntN(1000)) * time.Millisecond
			hurt := time.Duration(200+r.IntN(1300)) * time.Millisecond
			ended = passes(end.C, calm)
			for range 1 + r.IntN(2) {
				f := draw(r, d.Endpoints())
				h.faults = append(h.faults, describe(f))
				h.err = errors.Join(h.err, d.Inject(ctx, f))
			}
			ended = ended || passes(end.C, hurt)
			h.err = errors.Join(h.err, d.Inject(ctx, local.Fault{Kind: "heal"}))
		}
		done <- h
	}()
	return done
}

// passes waits, and reports whether the end came first.
func passes(end <-chan time.Time, d time.Duration) (ended bool) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return false
	case <-end:
		return true
	}
}

// draw chooses a random fault.
func draw(r *rand.Rand, dcs []local.Endpoint) local.Fault {
	dc := dcs[r.IntN(len(dcs))].Name
	switch r.IntN(8) {
	case 0, 1:
		return local.Fault{Kind: "cut", From: dc, To: "*"}
	case 2:
		other := dcs[r.IntN(len(dcs))].Name
		if other == dc {
			other = "*"
		}
		return local.Fault{Kind: "cut", From: dc, To: other}
	case 3:
		return local.Fault{Kind: "congest", DC: dc, AddMs: 50 + r.IntN(600)}
	case 4:
		return local.Fault{Kind: "crash", DC: dc, Part: "coordinator"}
	case 5:
		return local.Fault{Kind: "crash", DC: dc, Part: "middleman"}
	case 6:
		return local.Fault{Kind: "crash", DC: dc, Part: "cache"}
	default:
		return local.Fault{Kind: "crash", DC: dc, Part: "all"}
	}
}

func describe(f local.Fault) string {
	switch f.Kind {
	case "cut":
		return fmt.Sprintf("cut %s|%s", f.From, f.To)
	case "congest":
		return fmt.Sprintf("congest %s +%d ms", f.DC, f.AddMs)
	default:
		return fmt.Sprintf("%s %s of %s", f.Kind, f.Part, f.DC)
	}
}

// keep fails the test with the violations, and saves the history and the shortest part of it that shows them.
func keep(t *testing.T, h history.History, report history.Report) {
	t.Helper()
	dir, err := os.MkdirTemp("", "causalstore-history-")
	if err != nil {
		t.Fatal(err)
	}
	short := history.Shorten(h, report.Violations[0])
	for name, ops := range map[string]history.History{"whole.jsonl": h, "short.jsonl": short} {
		var b bytes.Buffer
		w := history.NewWriter(&b)
		for i := range ops {
			if err := w.Write(&ops[i]); err != nil {
				t.Fatal(err)
			}
		}
		if err := errors.Join(w.Flush(), os.WriteFile(filepath.Join(dir, name), b.Bytes(), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	t.Errorf("the history, kept in %s:\n%s\nin short:", dir, report)
	for i := range short {
		t.Log(short[i].String())
	}
}
