package load

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/history"
)

// drainBound is how long the sessions may take to bring their writes everywhere before the final reads.
const drainBound = 20 * time.Second

// run is what the connections of one Run share.
type run struct {
	config  Config
	started time.Time
	meter   *meter
	keys    *keyspace
	targets []*target
	workers []*worker
	writer  *history.Writer // nil: nothing is recorded
	left    atomic.Int64    // operations not yet claimed

	mu sync.Mutex
	// newest is, for every key that was written, the greatest version acknowledged; zero if none is known.
	newest map[int]causal.Version
}

// Run drives the endpoints until a bound of the config is reached or ctx ends, and then makes the final reads. Operations
// under way when the time is up are finished. Errors of operations are counted in the result; the error is for what keeps
// the run itself from working. The result is valid beside an error.
func Run(ctx context.Context, config Config) (Result, error) {
	config, err := config.withDefaults(time.Now())
	if err != nil {
		return Result{}, err
	}
	r := newRun(config)
	defer func() {
		for _, w := range r.workers {
			w.conn.close()
		}
	}()
	err = r.work(ctx)
	if err == nil && config.FinalReads {
		err = r.finalReads(ctx)
	}
	if r.writer != nil {
		if flushErr := r.writer.Flush(); flushErr != nil && err == nil {
			err = fmt.Errorf("record history: %w", flushErr)
		}
	}
	return r.meter.result, err
}

func newRun(config Config) *run {
	r := &run{config: config, started: time.Now(), meter: newMeter(), newest: make(map[int]causal.Version)}
	if config.Record != nil {
		r.writer = history.NewWriter(config.Record)
	}
	for _, e := range config.Endpoints {
		r.targets = append(r.targets, &target{Endpoint: e})
	}
	r.left.Store(config.Ops)
	connections := config.Sessions * config.ConnectionsPerSession
	r.keys = newKeyspace(&r.config, connections)
	for number := range connections {
		s, c := number/config.ConnectionsPerSession, number%config.ConnectionsPerSession
		name := fmt.Sprintf("s%d", s)
		if config.ConnectionsPerSession > 1 {
			name = fmt.Sprintf("s%d/c%d", s, c)
		}
		t := r.targets[s%len(r.targets)]
		w := &worker{run: r, conn: dial(t, &r.config), choose: newChooser(&r.config, r.keys, number, name),
			due: newSchedule(config.Rate, number, connections, r.since)}
		if config.SessionNaming == ByEndpoint {
			w.session = t.Name
		}
		r.workers = append(r.workers, w)
	}
	return r
}

// work lets all connections work until the run is over.
func (r *run) work(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if r.config.Duration > 0 {
		timer := time.AfterFunc(r.config.Duration, cancel)
		defer timer.Stop()
	}
	var wg sync.WaitGroup
	errs := make([]error, len(r.workers))
	for i, w := range r.workers {
		wg.Go(func() {
			if errs[i] = w.work(ctx); errs[i] != nil {
				cancel() // the others stop too
			}
		})
	}
	wg.Wait()
	m := &r.meter.result
	m.Elapsed = r.since()
	m.Throughput = float64(m.Ops) / max(m.Elapsed.Seconds(), 1e-9)
	return errors.Join(errs...)
}

// since is the time since the start of the run, on the monotonic clock.
func (r *run) since() time.Duration { return time.Since(r.started) }

func (r *run) now() int64 { return int64(r.since()) }

// claim takes up to n operations of those that are left to do.
func (r *run) claim(n int) int {
	if r.config.Ops == 0 {
		return n
	}
	after := r.left.Add(int64(-n))
	return max(0, n+int(min(after, 0)))
}

func (r *run) reconnected() {
	r.meter.mu.Lock()
	r.meter.result.Reconnects++
	r.meter.mu.Unlock()
}

// written notes what the final reads have to look for.
func (r *run) written(op *history.Op, keys []int) {
	if !r.config.FinalReads || op.Kind != history.Put && op.Kind != history.Delete || !op.OK && !op.Unknown {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	newest := r.newest[keys[0]]
	if op.OK && newest.Less(op.Version) {
		newest = op.Version
	}
	r.newest[keys[0]] = newest
}

func (r *run) record(op *history.Op) error {
	if r.writer == nil {
		return nil
	}
	if err := r.writer.Write(op); err != nil {
		return fmt.Errorf("record history: %w", err)
	}
	return nil
}
