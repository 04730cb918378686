package local_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/causalstore/causalstore/lab/local"
	"github.com/causalstore/causalstore/sidecar/node"
)

// retries returns how many requests of the sidecar of a data center were not answered in time, and sent elsewhere.
func retries(d *local.Deployment, dc string) uint64 {
	for _, s := range d.State().DataCenters {
		if s.Name == dc {
			return s.Sidecar.Retries
		}
	}
	return 0
}

// source returns where a connection's last read was answered.
func source(t *testing.T, c *redis.Conn) string {
	t.Helper()
	last, err := c.Do(t.Context(), "CAUSAL", "LAST").StringSlice()
	if err != nil || len(last) != 3 {
		t.Fatalf("CAUSAL LAST: %v, %v", last, err)
	}
	return last[1]
}

func awaitSource(t *testing.T, c *redis.Conn, key, want string) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		if err := c.Get(t.Context(), key).Err(); err != nil {
			t.Fatal(err)
		}
		got := source(t, c)
		if got == want {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s is read from %s; want %s", key, got, want)
		}
	}
}

func TestADeadCacheDoesNotMakeEveryReadOfItsDataCenterWait(t *testing.T) {
	d := start(t, local.Options{Scope: node.ScopeConnection, Cache: true})
	const dc, reads = "ap-southeast-1", 60
	c := oneSession(t, endpoint(t, d, dc))
	ctx := t.Context()
	for i := range reads {
		if err := c.Set(ctx, fmt.Sprint("k", i), i, 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := c.Do(ctx, "CAUSAL", "WAIT", "all", 60_000).Int(); err != nil || n != 1 {
		t.Fatalf("CAUSAL WAIT: %d, %v", n, err)
	}
	awaitSource(t, c, "k0", "cache")
	if err := d.Inject(ctx, local.Fault{Kind: "crash", DC: dc, Part: "cache"}); err != nil {
		t.Fatal(err)
	}
	before := retries(d, dc)
	for i := range reads {
		if got, err := c.Get(ctx, fmt.Sprint("k", i)).Result(); err != nil || got != fmt.Sprint(i) {
			t.Fatalf("k%d with the cache dead: %q, %v", i, got, err)
		}
	}
	if n := retries(d, dc) - before; n > reads/10 { // a machine that is busy may be late elsewhere
		t.Errorf("with the cache dead, %d of %d reads waited for a time-out", n, reads)
	}
	if err := d.Inject(ctx, local.Fault{Kind: "heal"}); err != nil {
		t.Fatal(err)
	}
	awaitSource(t, c, "k0", "cache")
}

// oneSession returns a connection, which is a session under ScopeConnection. It is closed with the test.
func oneSession(tb testing.TB, addr string) *redis.Conn {
	c := redis.NewClient(&redis.Options{Addr: addr, ReadTimeout: 5 * time.Minute})
	tb.Cleanup(func() { c.Close() })
	return c.Conn()
}

// endpoint returns the address of a data center for clients.
func endpoint(tb testing.TB, d *local.Deployment, dc string) string {
	tb.Helper()
	for _, e := range d.Endpoints() {
		if e.Name == dc {
			return e.RESP
		}
	}
	tb.Fatalf("no data center %s", dc)
	return ""
}
