package load

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"

	"github.com/causalstore/causalstore/history"
)

// readLast reads the last values of the keys with updates once, in each data center that used them, and records them.
// All writes should be complete by now.
func (r *run) readLast(ctx context.Context) error {
	var wg sync.WaitGroup
	errs := make(chan error, len(r.targets)*finalConnections)
	done := map[string]bool{}
	for _, t := range r.targets {
		if done[t.DataCenter] {
			continue
		}
		done[t.DataCenter] = true
		keys := slices.Sorted(maps.Keys(r.shared.updated[t.DataCenter]))
		for n := range finalConnections {
			wg.Go(func() { errs <- r.readLastOf(ctx, t, n, keys) })
		}
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		if err != nil {
			return err
		}
	}
	for _, c := range r.shared.counters {
		r.meter.result.Inside.Added += c.acknowledged
		r.meter.result.Inside.AddedUnknown += c.unknown
	}
	return nil
}

// readLastOf reads the part n of some keys.
func (r *run) readLastOf(ctx context.Context, t *target, n int, keys []string) error {
	name := fmt.Sprintf("last/%s/%d", t.DataCenter, n)
	w := &worker{run: r, conn: dial(t, &r.config), name: name, session: name}
	defer func() { w.conn.close() }()
	for i := n; i < len(keys); i += finalConnections {
		w.requests = w.requests[:0]
		w.ready(1, 0)
		q := &w.requests[0]
		q.verb, q.op.Kind, q.op.Key = Get, history.Get, keys[i]
		good := w.batch(ctx)
		if err := r.takeLast(w, q); err != nil {
			return err
		}
		if !good {
			w.conn.renew()
		}
	}
	return nil
}

// takeLast takes the last value of a key.
func (r *run) takeLast(w *worker, q *request) error {
	r.meter.mu.Lock()
	defer r.meter.mu.Unlock()
	inside := r.meter.result.Inside
	if err := w.outcome(q); err != nil {
		inside.Unread++
		return nil
	}
	if r.shared.counters[q.op.Key] != nil && !q.op.Missing {
		n, err := strconv.ParseInt(q.op.Value, 10, 64)
		if err != nil {
			return fmt.Errorf("the counter %s has the value %q, which nobody wrote", q.op.Key, q.op.Value)
		}
		inside.Counted += n
	}
	return r.record(&q.op)
}
