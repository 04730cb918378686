package demo

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// write shows a write that is acknowledged locally and reaches ring after ring.
func (t *tour) write(ctx context.Context) error {
	const writer = "us-east-1"
	key, err := t.key("profile", "us-west-2", "ap-northeast-1")
	if err != nil {
		return err
	}
	start := time.Now()
	acked, err := t.set(ctx, writer, key, "Ada")
	if err != nil {
		return err
	}
	arrived := make([]time.Duration, len(t.topo.Rings))
	errs := make([]error, len(t.topo.Rings))
	var all sync.WaitGroup
	for i, r := range t.topo.Rings {
		all.Go(func() {
			errs[i] = t.waitFor(ctx, writer, r.Name)
			arrived[i] = time.Since(start)
		})
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	t.say(ctx, "%s> SET %s Ada: OK after %s. CAUSAL WAIT reports when each ring has it:", writer, key, took(acked))
	t.row(ctx, "%-17s %-16s %12s %18s", "ring", "copy in", "known after", "its round trip")
	for i, r := range t.topo.Rings {
		home := t.home(t.topo.RingOf(r.DCs[0]), key)
		t.row(ctx, "%-17s %-16s %12s %18s", r.Name, home, took(arrived[i]), took(t.rtt(writer, home)))
	}
	first := slices.Min(arrived)
	t.verify(ctx, acked < first,
		fmt.Sprintf("The client waited %s, because only %s has to log the write; the first ring had it after %s.",
			took(acked), writer, took(first)),
		fmt.Sprintf("The client waited %s, but the first ring had the write after %s.", took(acked), took(first)))
	return t.readEverywhere(ctx, key, "Ada")
}

// readEverywhere reads a key in all data centers concurrently and verifies the answers.
func (t *tour) readEverywhere(ctx context.Context, key, want string) error {
	var mu sync.Mutex
	var fastest, slowest time.Duration
	wrong := map[string]string{}
	err := t.each("", func(dc string) error {
		r, err := t.get(ctx, dc, key)
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		if fastest == 0 || r.took < fastest {
			fastest = r.took
		}
		slowest = max(slowest, r.took)
		if r.missing || r.value != want {
			wrong[dc] = r.String()
		}
		return nil
	})
	if err != nil {
		return err
	}
	t.verify(ctx, len(wrong) == 0,
		fmt.Sprintf("All %d data centers read %q, in %s to %s.", len(t.topo.DCs), want, took(fastest), took(slowest)),
		fmt.Sprintf("Not all data centers read %q of %s: %v.", want, key, wrong))
	return nil
}
