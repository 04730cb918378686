package demo

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// order shows that nobody sees a write without the earlier ones, though each travels separately.
func (t *tour) order(ctx context.Context) error {
	const writer, rounds = "eu-west-1", 10
	// In two rings the copy of the cause is further away from the writer than that of the effect.
	cause, err := t.key("photo", "us-west-2", "ap-southeast-2")
	if err != nil {
		return err
	}
	effect, err := t.key("album", "eu-west-1", "ap-southeast-1")
	if err != nil {
		return err
	}
	t.say(ctx,
		`%s> SET %s n, then SET %s n, %d times. All others wait for n in %s and then read %s. In two rings the copy of
		%s has the longer way.`, writer, cause, effect, rounds, effect, cause, cause)
	held := t.heldBack()
	w := watch{cause: cause, effect: effect}
	for n := 1; n <= rounds; n++ {
		start := time.Now()
		for _, key := range []string{cause, effect} {
			if _, err := t.set(ctx, writer, key, strconv.Itoa(n)); err != nil {
				return err
			}
		}
		err := t.each(writer, func(dc string) error { return w.round(ctx, t, dc, n, start) })
		if err != nil {
			return err
		}
	}
	held = t.heldBack() - held
	t.verify(ctx, w.without == 0,
		fmt.Sprintf("%s of the effect, after %s to %s: the cause was there each time.", count(w.sightings, "sighting"),
			took(w.first), took(w.last)),
		fmt.Sprintf("%d of %s of the effect were without the cause.", w.without, count(w.sightings, "sighting")))
	t.verify(ctx, held > 0,
		fmt.Sprintf("To ensure this, shards held an effect back %s until their ring had the cause.",
			count(int(held), "time")),
		"No shard ever held an effect back, although the cause travels farther.")
	return nil
}

// watch collects what the readers of order saw.
type watch struct {
	cause, effect string

	mu                 sync.Mutex
	sightings, without int
	first, last        time.Duration // from the write to a sighting: the shortest and the longest
}

// round waits until a data center sees the nth write of the effect, and then reads the cause.
func (w *watch) round(ctx context.Context, t *tour, dc string, n int, start time.Time) error {
	err := until(ctx, fmt.Sprintf("%s reads %d from %s", dc, n, w.effect), func() (bool, error) {
		got, err := t.number(ctx, dc, w.effect)
		return got >= n, err
	})
	if err != nil {
		return err
	}
	seen := time.Since(start)
	got, err := t.number(ctx, dc, w.cause)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sightings++
	if got < n {
		w.without++
	}
	if w.first == 0 || seen < w.first {
		w.first = seen
	}
	w.last = max(w.last, seen)
	return nil
}

// number reads a number; a missing one is 0.
func (t *tour) number(ctx context.Context, dc, key string) (int, error) {
	n, err := t.clients[dc].Get(ctx, key).Int()
	if err != nil && !errors.Is(err, redis.Nil) {
		return 0, fmt.Errorf("GET %s in %s: %w", key, dc, err)
	}
	return n, nil
}

// heldBack counts the writes that shards have held back for their dependencies.
func (t *tour) heldBack() uint64 {
	var n uint64
	for _, dc := range t.d.State().DataCenters {
		for _, m := range dc.Middlemen {
			n += m.Stats.DepWaits
		}
	}
	return n
}
