package local_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/causalstore/causalstore/lab/local"
	"github.com/causalstore/causalstore/sidecar/node"
)

func TestStateReportsHowWritesPropagated(t *testing.T) {
	d := start(t, local.Options{Scope: node.ScopePod, Cache: true})
	c := redis.NewClient(&redis.Options{Addr: d.Endpoints()[0].RESP, ReadTimeout: 30 * time.Second})
	defer c.Close()
	const puts = 20
	for i := range puts {
		if err := c.Set(t.Context(), fmt.Sprint("key", i), "value", 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := c.Do(t.Context(), "CAUSAL", "WAIT", "all", 20000).Int(); err != nil || n != 1 {
		t.Fatalf("CAUSAL WAIT: %d, %v", n, err)
	}
	home := d.Endpoints()[0].Ring
	// The newest write may be known to be complete before the acknowledgement of an earlier one has come from another
	// shard.
	st := d.State()
	for deadline := time.Now().Add(20 * time.Second); !all(st, home, puts) &&
		time.Now().Before(deadline); st = d.State() {
		time.Sleep(10 * time.Millisecond)
	}
	for _, p := range st.RingPairs {
		want := uint64(0)
		if p.From == home {
			want = puts
		}
		if p.Visible.Count != want || p.Acknowledged.Count != want {
			t.Errorf("%s to %s: %d visible, %d acknowledged; want %d", p.From, p.To, p.Visible.Count,
				p.Acknowledged.Count, want)
		}
	}
	for _, r := range st.InFlight {
		if r.Ring == home && r.Complete.Count != puts {
			t.Errorf("%d writes are complete of %d", r.Complete.Count, puts)
		}
	}
	w := st.WAN
	if w.Messages == 0 || w.PayloadBytes == 0 || w.Bytes <= w.PayloadBytes || len(w.Pairs) == 0 {
		t.Errorf("WAN: %d messages, %d bytes, %d of them payload, %d pairs", w.Messages, w.Bytes, w.PayloadBytes,
			len(w.Pairs))
	}
	sum := uint64(0)
	for _, p := range w.Pairs {
		sum += p.Bytes
	}
	if sum < w.Bytes { // pairs are looked at after kinds
		t.Errorf("%d bytes by pair, %d by kind", sum, w.Bytes)
	}
}

// all reports whether every write of a ring counts as complete.
func all(st local.State, ring string, puts uint64) bool {
	return !slices.ContainsFunc(st.InFlight, func(f local.RingTimes) bool {
		return f.Ring == ring && f.Complete.Count != puts
	})
}
