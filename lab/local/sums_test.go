package local_test

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/causalstore/causalstore/lab/local"
)

// sumsEach is how often each data center increments each number.
func sumsEach(t *testing.T) int {
	t.Helper()
	text := os.Getenv("CAUSALSTORE_SUMS")
	if text == "" {
		return 40
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("CAUSALSTORE_SUMS is %q: give the number of increments in each data center", text)
	}
	return n
}

// Clients in three data centers increment a field of a hash, a string and the score of a member, while data centers are
// cut off from each other now and then. Afterwards everybody reads the sums.
func TestIncrementsInThreeDataCentersAddUp(t *testing.T) {
	each := sumsEach(t)
	d := startExact(t, 1)
	ctx, dcs := t.Context(), []string{"us-east-1", "eu-west-1", "ap-southeast-2"}
	conns := make([]*redis.Conn, len(dcs))
	done := make(chan struct{})
	var all sync.WaitGroup
	for i, dc := range dcs {
		conns[i] = oneSession(t, endpoint(t, d, dc))
		awaitCollections(t, conns[i])
		all.Go(func() {
			for n := range each {
				increment(t, conns[i], "HINCRBY", "hash", "hits", 1)
				increment(t, conns[i], "INCR", "string")
				if n%2 == 0 {
					increment(t, conns[i], "ZINCRBY", "zset", "0.5", "member")
				}
			}
		})
	}
	go func() { all.Wait(); close(done) }()
	for isDone := false; !isDone; {
		if err := d.Inject(ctx, local.Fault{Kind: "cut", From: dcs[0], To: dcs[2]}); err != nil {
			t.Fatal(err)
		}
		select {
		case <-done:
			isDone = true
		case <-time.After(300 * time.Millisecond):
		}
		if err := d.Inject(ctx, local.Fault{Kind: "heal"}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(100 * time.Millisecond)
	}
	want := [3]string{strconv.Itoa(3 * each), strconv.Itoa(3 * each), strconv.FormatFloat(1.5*float64((each+1)/2), 'f', -1, 64)}
	for i, c := range conns {
		var got [3]string
		for range 600 {
			got[0], _ = c.HGet(ctx, "hash", "hits").Result()
			got[1], _ = c.Get(ctx, "string").Result()
			got[2] = fmt.Sprint(c.ZScore(ctx, "zset", "member").Val())
			if got == want {
				break
			}
			time.Sleep(100 * time.Millisecond)
		}
		if got != want {
			t.Errorf("%s reads %v, want %v", dcs[i], got, want)
		}
	}
}

// awaitCollections waits until all parts of a store are known to read collections.
func awaitCollections(t *testing.T, c *redis.Conn) {
	t.Helper()
	for range 600 {
		if c.HSet(t.Context(), "first", "f", 1).Err() == nil {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatal("no hash can be written")
}

// increment executes a command until it is executed: others may write the key.
func increment(t *testing.T, c *redis.Conn, args ...any) {
	t.Helper()
	for until := time.Now().Add(time.Minute); ; {
		err := c.Do(t.Context(), args...).Err()
		if err == nil {
			return
		}
		if isNothingWritten := strings.HasPrefix(err.Error(), "UNAVAILABLE") ||
			strings.HasPrefix(err.Error(), "CONFLICT"); !isNothingWritten || time.Now().After(until) {
			t.Errorf("%v: %v", args, err)
			return
		}
	}
}
