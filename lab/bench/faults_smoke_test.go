package bench_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/causalstore/causalstore/lab/bench"
	"github.com/causalstore/causalstore/lab/local"
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/cache"
	"github.com/causalstore/causalstore/sidecar/causal/coordinator"
	"github.com/causalstore/causalstore/sidecar/causal/middleman"
	"github.com/causalstore/causalstore/sidecar/causal/session"
	"github.com/causalstore/causalstore/sidecar/node"
)

// tinyFaults breaks a small deployment for a short while.
func tinyFaults(t *testing.T) *bench.FaultOptions {
	o := bench.FullFaults()
	o.Setup, o.Topology, o.DC = setup(t, ""), smallTopology(t), "a"
	o.Lead, o.Before, o.During, o.After = 300*time.Millisecond, time.Second, time.Second, time.Second
	o.Rate, o.Connections, o.ReadRatio, o.Keys = 300, 3, 0.7, 30
	o.Tune.Coordinator = func(c *coordinator.Config) { c.ExclusionDelay = 0 }
	return o
}

func TestFaultsMeasuresEachPhaseForClientsHereAndElsewhere(t *testing.T) {
	o := tinyFaults(t)
	o.Cases = []string{"cache-dead", "cut-between-rings", "shard-lost", "dc-lost"}
	res, err := o.Measure(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(res.Cases) != len(o.Cases) {
		t.Fatalf("%d cases, want %d", len(res.Cases), len(o.Cases))
	}
	for _, c := range res.Cases {
		if len(c.Phases) != 6 || c.Violations != 0 || !strings.Contains(c.History, "causal+") {
			t.Errorf("%s: %d phases, history %s", c.Name, len(c.Phases), c.History)
		}
		if wasLost := c.Name == "shard-lost"; wasLost != (c.Heal.LookedUpKeys > 0) {
			t.Errorf("%s: %d keys were looked up in the other ring", c.Name, c.Heal.LookedUpKeys)
		}
		for _, p := range c.Phases {
			for what, ops := range map[string]bench.FaultOps{"reads": p.Reads, "writes": p.Writes} {
				failed := 0
				for _, n := range ops.Errors {
					failed += n
				}
				if ops.OK+ops.Failed == 0 || failed != ops.Failed || ops.P99Ms < ops.P50Ms || ops.MaxMs < ops.P99Ms ||
					ops.GapSeconds > p.Seconds {
					t.Errorf("%s, %s, clients %s: %s %+v", c.Name, p.Phase, p.Clients, what, ops)
				}
			}
		}
		if !c.Heal.Recovered || c.Heal.Normal < c.Heal.Complete || c.Heal.Unbound < c.Heal.Complete ||
			c.Heal.Normal < c.Heal.Refilled {
			t.Errorf("%s: heal %+v", c.Name, c.Heal)
		}
	}
	says(t, res, "During the fault", "cut from c (other ring)", "LOST DATA BACK", "elsewhere")
	carries(t, res)
	dir := t.TempDir()
	if err := res.Report().Write(dir); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(dir, "faults.md"))
	if err != nil || !strings.Contains(string(page), "| the cache dead | here | ") {
		t.Errorf("%v; the page is\n%s", err, page)
	}
}

func TestFaultsMeasuresTheLossOfTheDiskOfAHome(t *testing.T) {
	o := tinyFaults(t)
	o.Cases, o.Scope, o.Level = []string{"disk-lost"}, node.ScopeDataCenter, causal.Snapshot
	res, err := o.Measure(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if heal := res.Cases[0].Heal; !heal.Recovered || heal.Complete < 10 { // a log that is given up begins 10 s ahead
		t.Errorf("the log was not given up: %+v", heal)
	}
	says(t, res, "a disk of the coordinator lost")
}

func TestFaultsMeasuresTheLossOfAMemberOfAHome(t *testing.T) {
	o := tinyFaults(t)
	o.Cases, o.Scope, o.Level, o.Members = []string{"member-dead", "disk-lost", "zone-dead"}, node.ScopeDataCenter,
		causal.Snapshot, 2
	res, err := o.Measure(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(res.Cases) != len(o.Cases) {
		t.Fatalf("%+v", res.Cases)
	}
	for _, c := range res.Cases {
		if !strings.Contains(c.History, "causal+") || !c.Heal.Recovered {
			t.Errorf("%+v", c)
		}
	}
	for _, p := range res.Cases[0].Phases {
		if p.Phase == "before" && p.Local == 0 {
			t.Errorf("no read was answered in its data center, clients %s", p.Clients)
		}
	}
	says(t, res, "a member of the coordinator dead", "a zone dead", "members 2")
}

func TestFaultsFailsOnAHistoryThatIsNotCausal(t *testing.T) {
	broken := causal.MutationsOf(causal.SkipDeps, causal.ForgetBind, causal.CacheInFlight, causal.RegisterLate,
		causal.AckBeforeInvalidation)
	o := tinyFaults(t)
	o.Cases, o.Rate, o.During = []string{"congestion"}, 1000, 2*time.Second
	o.Tune = local.Tune{
		Coordinator: func(c *coordinator.Config) { c.Broken = broken },
		Sidecar:     func(c *session.Config) { c.Broken = broken },
		Middleman:   func(c *middleman.Config) { c.Broken = broken },
		Cache:       func(c *cache.Config) { c.Broken = broken },
	}
	const attempts = 6
	for range attempts {
		res, err := o.Measure(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err = res.Verdict(); err == nil {
			continue
		}
		if res.Cases[0].Violations == 0 {
			t.Fatalf("%+v, %v", res, err)
		}
		kept, globErr := filepath.Glob(filepath.Join(o.Dir, "causalstore-history-congestion-*.jsonl"))
		if globErr != nil || len(kept) != 1 || !strings.Contains(err.Error(), kept[0]) {
			t.Errorf("%v are kept; the error is %.300s", kept, err)
		}
		return
	}
	t.Errorf("%d times, dependencies, restrictions and invalidations were ignored, and the command did not fail",
		attempts)
}

func TestFaultsRefusesWhatTheTopologyLacks(t *testing.T) {
	o := tinyFaults(t)
	o.DC = "x"
	_, err := o.Measure(t.Context())
	if err == nil || !strings.Contains(err.Error(), `--data-center: unknown data center "x"`) {
		t.Errorf("an unknown data center: %v", err)
	}
}
