package local_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/causalstore/causalstore/lab/local"
	"github.com/causalstore/causalstore/sidecar/causal/coordinator"
	"github.com/causalstore/causalstore/sidecar/node"
)

// A data center dies. Writes to its slots are incomplete until it is excluded, and complete from then on. When it comes
// back with its disks, it gets what was written meanwhile from other rings.
func TestADeadDataCenterIsExcludedAndComesBack(t *testing.T) {
	d := start(t, local.Options{Scope: node.ScopeConnection, Cache: true,
		Tune: local.Tune{Coordinator: func(c *coordinator.Config) { c.ExclusionDelay = 0 }}})
	const dead, keys = "us-west-1", 8
	writer := oneSession(t, d.Endpoints()[0].RESP)
	write := func(value string) {
		t.Helper()
		for i := range keys {
			if err := writer.Set(t.Context(), fmt.Sprint("k", i), fmt.Sprint(value, i), 0).Err(); err != nil {
				t.Fatal(err)
			}
		}
	}
	inject := func(f local.Fault) {
		t.Helper()
		if err := d.Inject(t.Context(), f); err != nil {
			t.Fatal(err)
		}
	}
	incomplete := func() (n int) {
		for _, o := range d.State().Origins {
			n += o.Incomplete
		}
		return n
	}
	await := func(what string, isSo func() bool) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); !isSo(); time.Sleep(20 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%s: not within a minute: %+v", what, d.State().Origins)
			}
		}
	}
	began := time.Now()
	done := func(what string) { t.Logf("%s after %s", what, time.Since(began).Round(time.Millisecond)) }
	write("before")
	await("the first writes are complete", func() bool { return incomplete() == 0 })
	done("the first writes are complete")
	inject(local.Fault{Kind: "crash", DC: dead, Part: "all"})
	write("while")
	if n, err := writer.Do(t.Context(), "CAUSAL", "WAIT", "all", 1500).Int(); err != nil || n != 0 {
		t.Fatalf("without the dead data center, CAUSAL WAIT: %d, %v", n, err)
	}
	inject(local.Fault{Kind: "exclude", DC: dead})
	if n, err := writer.Do(t.Context(), "CAUSAL", "WAIT", "all", 60_000).Int(); err != nil || n != 1 {
		t.Fatalf("with the dead data center excluded, CAUSAL WAIT: %d, %v", n, err)
	}
	await("all writes are complete", func() bool { return incomplete() == 0 })
	done("writes without the data center are complete")
	checkAll := func(names ...string) {
		t.Helper()
		for _, e := range d.Endpoints() {
			if !slices.Contains(names, e.Name) {
				continue
			}
			c := oneSession(t, e.RESP)
			for i := range keys {
				if got, err := c.Get(t.Context(), fmt.Sprint("k", i)).Result(); err != nil ||
					got != fmt.Sprint("while", i) {
					t.Fatalf("k%d in %s: %q, %v", i, e.Name, got, err)
				}
			}
		}
	}
	checkAll("us-east-1", "sa-east-1")
	done("all were read")
	inject(local.Fault{Kind: "restart", DC: dead, Part: "all"})
	checkAll("us-east-1")
	await("the data center is back", func() bool {
		for _, o := range d.State().Origins {
			if len(o.Without) > 0 {
				return false
			}
		}
		for _, s := range d.State().DataCenters {
			if s.Name == dead && (!s.Middlemen[0].Up || s.Middlemen[0].DataLost) {
				return false
			}
		}
		return true
	})
	done("it is back")
	checkAll(dead)
}
