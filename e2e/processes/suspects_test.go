package processes_test

import (
	"fmt"
	"syscall"
	"testing"

	goredis "github.com/redis/go-redis/v9"
)

// A process that is stopped accepts messages, and does not answer.
func TestReadsGoRoundACacheThatHangs(t *testing.T) {
	d := deploy(t, nil)
	c := d.client("c")
	const reads = 60
	for i := range reads {
		must(t, c.Set(t.Context(), fmt.Sprint("k", i), i, 0).Err())
	}
	must(t, c.Do(t.Context(), "CAUSAL", "WAIT", "all", 10_000).Err())
	awaitSource(t, c, "k0", "cache")

	cache := d.procs["c-cache"].cmd.Process
	must(t, cache.Signal(syscall.SIGSTOP))
	t.Cleanup(func() { _ = cache.Signal(syscall.SIGCONT) }) // it may have ended
	before := d.retries(t, "c")
	for i := range reads {
		if got, err := c.Get(t.Context(), fmt.Sprint("k", i)).Result(); err != nil || got != fmt.Sprint(i) {
			t.Fatalf("k%d while the cache hangs: %q, %v", i, got, err)
		}
	}
	n := d.retries(t, "c") - before
	t.Logf("%v of %d reads waited for a time-out", n, reads)
	if n < 1 || n > reads/10 { // a machine that is busy may be late elsewhere
		t.Errorf("while the cache hangs, %v of %d reads waited for a time-out", n, reads)
	}
	must(t, cache.Signal(syscall.SIGCONT))
	awaitSource(t, c, "k0", "cache")
}

// retries returns how many requests of a sidecar were not answered in time, and sent elsewhere.
func (d *deployment) retries(t *testing.T, dc string) float64 {
	t.Helper()
	v, ok := d.procs[dc+"-sidecar"].metric("causalstore_sidecar_retries_total{")
	if !ok {
		t.Fatal("the sidecar does not report its retries")
	}
	return v
}

// awaitSource waits until reads of a key are answered from a source.
func awaitSource(t *testing.T, c *goredis.Client, key, want string) {
	t.Helper()
	eventually(t, key+" from "+want, func() error {
		if err := c.Get(t.Context(), key).Err(); err != nil {
			return err
		}
		last, err := c.Do(t.Context(), "CAUSAL", "LAST").StringSlice()
		if err == nil && (len(last) != 3 || last[1] != want) {
			err = fmt.Errorf("last read: %v", last)
		}
		return err
	})
}
