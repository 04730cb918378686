package demo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
)

// reading is what a GET returned.
type reading struct {
	value   string
	missing bool
	took    time.Duration
	// source and status are from CAUSAL LAST: own, cache, local or remote; stable or in-flight.
	source, status string
}

func (r reading) String() string {
	if r.missing {
		return "(nil)"
	}
	return fmt.Sprintf("%q", r.value)
}

// set writes and measures the latency.
func (t *tour) set(ctx context.Context, dc, key, value string) (time.Duration, error) {
	start := time.Now()
	if err := t.clients[dc].Set(ctx, key, value, 0).Err(); err != nil {
		return 0, fmt.Errorf("SET %s in %s: %w", key, dc, err)
	}
	return time.Since(start), nil
}

// get reads, measures the latency, and asks where the answer came from.
func (t *tour) get(ctx context.Context, dc, key string) (reading, error) {
	conn := t.clients[dc].Conn()
	defer conn.Close()
	// CAUSAL LAST is about this connection's last command. Connect before the measurement.
	if err := conn.Ping(ctx).Err(); err != nil {
		return reading{}, fmt.Errorf("PING %s: %w", dc, err)
	}
	start := time.Now()
	value, err := conn.Get(ctx, key).Result()
	r := reading{value: value, took: time.Since(start), missing: errors.Is(err, redis.Nil)}
	if err != nil && !r.missing {
		return r, fmt.Errorf("GET %s in %s: %w", key, dc, err)
	}
	last, err := conn.Do(ctx, "CAUSAL", "LAST").StringSlice()
	if err != nil || len(last) != 3 {
		return r, fmt.Errorf("CAUSAL LAST in %s: %q, %w", dc, last, err)
	}
	r.source, r.status = last[1], last[2]
	return r, nil
}

// waitFor waits until the last write of a data center's session is in a ring, or in "all" rings and out of every cache.
func (t *tour) waitFor(ctx context.Context, dc, ring string) error {
	n, err := t.clients[dc].Do(ctx, "CAUSAL", "WAIT", ring, patience.Milliseconds()).Int()
	switch {
	case err != nil:
		return fmt.Errorf("CAUSAL WAIT %s in %s: %w", ring, dc, err)
	case n != 1:
		return fmt.Errorf("after %s the write of %s is not confirmed in %s", patience, dc, ring)
	}
	return nil
}

// status is the part of CAUSAL STATUS that the tour needs.
type status struct {
	bound bool
	rings []string
}

func (s status) equal(o status) bool { return s.bound == o.bound && slices.Equal(s.rings, o.rings) }

func (t *tour) status(ctx context.Context, dc string) (status, error) {
	reply, err := t.clients[dc].Do(ctx, "CAUSAL", "STATUS").Result()
	if err != nil {
		return status{}, fmt.Errorf("CAUSAL STATUS in %s: %w", dc, err)
	}
	fields, ok := reply.(map[any]any)
	if !ok {
		return status{}, fmt.Errorf("CAUSAL STATUS in %s: the reply is a %T, not a map", dc, reply)
	}
	s := status{bound: fields["bound"] == "yes"}
	rings, _ := fields["rings"].([]any)
	for _, r := range rings {
		s.rings = append(s.rings, fmt.Sprint(r))
	}
	return s, nil
}

// until repeats f until it reports true, within the tour's patience.
func until(ctx context.Context, what string, f func() (bool, error)) error {
	for deadline := time.Now().Add(patience); ; {
		done, err := f()
		switch {
		case err != nil || done:
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		case time.Now().After(deadline):
			return fmt.Errorf("timed out after %s waiting until %s", patience, what)
		}
		pause(ctx, time.Millisecond)
	}
}

// servedBy returns the data centers whose shards have answered reads since before.
func (t *tour) servedBy(before map[string]uint64) []string {
	var names []string
	for name, n := range t.readsServed() {
		if n > before[name] {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// readsServed counts the reads that each data center's shards have answered, including those for caches.
func (t *tour) readsServed() map[string]uint64 {
	served := map[string]uint64{}
	for _, dc := range t.d.State().DataCenters {
		for _, m := range dc.Middlemen {
			served[dc.Name] += m.Stats.Gets + m.Stats.Fills
		}
	}
	return served
}
