package load

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"
)

// Preloading sends at least loadPipeline operations at once. It gives up after loadTries consecutive batches of a
// connection in which no write succeeded.
const (
	loadPipeline = 16
	loadTries    = 100
	loadPause    = 100 * time.Millisecond
)

// preload writes the keys of a workload, each on one connection, and waits until the writes are complete at endpoints
// that can tell. It returns nil if there is nothing to write.
func (r *run) preload(ctx context.Context) (*Preload, error) {
	keys := r.config.LoadKeys
	if keys == 0 {
		keys = r.config.Keys
	}
	if r.config.Workload == nil || keys < 0 {
		return nil, nil
	}
	var written atomic.Int64
	began := r.clock.since()
	err := r.together(func(w *worker) error { return w.preload(ctx, keys, &written) })
	p := &Preload{Keys: int(written.Load())}
	if err == nil {
		p.Unsettled = r.awaitComplete(ctx)
	}
	p.Elapsed = r.clock.since() - began
	return p, err
}

// awaitComplete waits for the writes of all sessions. It returns how many sessions did not confirm that their writes
// are complete although their endpoint knows how to wait.
func (r *run) awaitComplete(ctx context.Context) int {
	var unsettled atomic.Int64
	_ = r.together(func(w *worker) error { // none returns an error
		if w.conn.knowsCausal(ctx) && !w.conn.drain(ctx, drainBound) {
			unsettled.Add(1)
		}
		return nil
	})
	return int(unsettled.Load())
}

// preload writes this connection's part of the keys below n.
func (w *worker) preload(ctx context.Context, n int, written *atomic.Int64) error {
	g := w.source.(*generator)
	next, step := slices.Index(w.run.workers, w), len(w.run.workers)
	var again []int // not acknowledged yet
	for tries := 0; next < n || len(again) > 0; tries++ {
		if tries == loadTries {
			return fmt.Errorf("preload keys: %s accepts no writes: %s", w.conn.target.Name, w.run.meter.errorsSeen())
		}
		w.requests = w.requests[:0]
		for size := max(loadPipeline, w.run.config.Pipeline); len(w.requests) < size && (len(again) > 0 || next < n); {
			key := next
			if last := len(again) - 1; last >= 0 {
				key, again = again[last], again[:last]
			} else {
				next += step
			}
			w.ready(1, 0)
			g.write(&w.requests[len(w.requests)-1], key)
		}
		good := w.batch(ctx)
		if err := w.settle(); err != nil {
			return err
		}
		before := len(again)
		for i := range w.requests {
			if r := &w.requests[i]; !r.op.OK {
				again = append(again, r.keys[0])
			}
		}
		refused := len(again) - before
		written.Add(int64(len(w.requests) - refused))
		if refused < len(w.requests) {
			tries = -1
		}
		if !good {
			w.reconnect(ctx)
		}
		if ctx.Err() != nil || refused > 0 && !w.run.clock.pause(ctx, loadPause) {
			return fmt.Errorf("preload keys: interrupted: %w", ctx.Err())
		}
	}
	return nil
}

// errorsSeen lists the errors counted so far.
func (m *meter) errorsSeen() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return fmt.Sprint(slices.Sorted(maps.Keys(m.result.Errors)))
}
