package local_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/causalstore/causalstore/lab/local"
	"github.com/causalstore/causalstore/sidecar/node"
)

func TestAWipedShardIsReadInOtherRingsAndRefilled(t *testing.T) {
	d := start(t, local.Options{Scope: node.ScopeConnection, Cache: true})
	writer := oneSession(t, d.Endpoints()[0].RESP)
	const keys = 40
	for i := range keys {
		if err := writer.Set(t.Context(), fmt.Sprint("k", i), i, 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := writer.Do(t.Context(), "CAUSAL", "WAIT", "all", 60_000).Int(); err != nil || n != 1 {
		t.Fatalf("CAUSAL WAIT: %d, %v", n, err)
	}
	dc := d.Endpoints()[1].Name
	if err := d.Inject(t.Context(), local.Fault{Kind: "wipe", DC: dc, Part: "middleman"}); err == nil ||
		!strings.Contains(err.Error(), "crash it before") {
		t.Errorf("a part that is up is wiped: %v", err)
	}
	for _, kind := range []string{"crash", "wipe", "restart"} {
		if err := d.Inject(t.Context(), local.Fault{Kind: kind, DC: dc, Part: "middleman"}); err != nil {
			t.Fatal(err)
		}
	}
	checkAll := func() {
		for _, e := range d.Endpoints() {
			c := oneSession(t, e.RESP)
			for i := range keys {
				if got, err := c.Get(t.Context(), fmt.Sprint("k", i)).Result(); err != nil || got != fmt.Sprint(i) {
					t.Fatalf("k%d in %s: %q, %v", i, e.Name, got, err)
				}
			}
			if n, err := c.DBSize(t.Context()).Result(); err != nil || n != keys {
				t.Errorf("DBSIZE in %s: %d, %v; want %d", e.Name, n, err, keys)
			}
		}
	}
	checkAll() // while it asks and copies
	refilled := func() bool {
		for _, s := range d.State().DataCenters {
			if s.Name == dc {
				return s.Middlemen[0].Up && !s.Middlemen[0].DataLost
			}
		}
		return false
	}
	for deadline := time.Now().Add(time.Minute); !refilled(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the wiped shard does not get its data back: %+v", d.State().DataCenters)
		}
	}
	checkAll()
}

func TestAPausedCacheHangsAndGoesOn(t *testing.T) {
	d := start(t, local.Options{Scope: node.ScopeConnection, Cache: true})
	dc := d.Endpoints()[0]
	c := oneSession(t, dc.RESP)
	if err := c.Set(t.Context(), "k", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
	if n, err := c.Do(t.Context(), "CAUSAL", "WAIT", "all", 60_000).Int(); err != nil || n != 1 {
		t.Fatalf("CAUSAL WAIT: %d, %v", n, err)
	}
	awaitSource(t, c, "k", "cache")
	if err := d.Inject(t.Context(), local.Fault{Kind: "pause", DC: dc.Name, Part: "cache"}); err != nil {
		t.Fatal(err)
	}
	if got, err := c.Get(t.Context(), "k").Result(); err != nil || got != "v" {
		t.Fatalf("with the cache paused: %q, %v", got, err)
	}
	if from := source(t, c); from == "cache" {
		t.Error("a paused cache has answered")
	}
	if err := d.Inject(t.Context(), local.Fault{Kind: "resume", DC: dc.Name, Part: "cache"}); err != nil {
		t.Fatal(err)
	}
	awaitSource(t, c, "k", "cache")
}
