package demo

import (
	"context"
	"fmt"
	"time"
)

// cache shows a remote read, the next read from the cache, and a write that invalidates the cached copy.
func (t *tour) cache(ctx context.Context) error {
	const reader, writer = "eu-west-1", "us-west-1"
	key, err := t.key("news", "us-west-2")
	if err != nil {
		return err
	}
	if _, err := t.set(ctx, writer, key, "dull"); err != nil {
		return err
	}
	if err := t.settled(ctx, writer); err != nil {
		return err
	}
	var r [3]reading
	for i := range r {
		if i == 2 {
			if _, err = t.set(ctx, writer, key, "great"); err != nil {
				return err
			}
			if err = t.waitFor(ctx, writer, "all"); err != nil {
				return err
			}
		}
		if r[i], err = t.get(ctx, reader, key); err != nil {
			return err
		}
	}
	show := func(r reading) {
		t.row(ctx, "%-10s GET %s -> %-8s %9s  %s", reader, key, r, took(r.took), r.source)
	}
	t.say(ctx, "The copy of %s nearest to %s is in us-west-2, %s away.", key, reader, took(t.rtt(reader, "us-west-2")))
	show(r[0])
	show(r[1])
	t.row(ctx, "%-10s SET %s great", writer, key)
	show(r[2])
	t.verify(ctx, r[0].source == "remote" && r[1].source == "cache" && r[1].value == r[0].value &&
		r[1].took < r[0].took,
		fmt.Sprintf("The second read came from the cache of %s, in %s instead of %s.", reader, took(r[1].took),
			took(r[0].took)),
		fmt.Sprintf("The reads came from %s and %s, in %s and %s.", r[0].source, r[1].source, took(r[0].took),
			took(r[1].took)))
	t.verify(ctx, r[2].value == "great",
		fmt.Sprintf("Once the new value was in all rings, no cache had the old one: %s read %s.", reader, r[2]),
		fmt.Sprintf("Once the new value was in all rings and the old one out of all caches, %s read %s.", reader, r[2]))
	return nil
}

// settled waits until the writes of a data center are complete, and every data center knows that all writes so far are.
func (t *tour) settled(ctx context.Context, dc string) error {
	if err := t.waitFor(ctx, dc, "all"); err != nil {
		return err
	}
	complete := time.Now().UnixMilli()
	return until(ctx, "every data center knows that the write is complete", func() (bool, error) {
		st := t.d.State()
		now := time.Now().UnixMilli()
		for _, dc := range st.DataCenters {
			if now-dc.MinSVLagMs <= complete {
				return false, nil
			}
		}
		return true, nil
	})
}
