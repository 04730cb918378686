package load

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/causalstore/causalstore/history"
	"github.com/causalstore/causalstore/sidecar/causal"
)

// drainBound is how long sessions may take to complete their writes before the final reads.
const drainBound = 20 * time.Second

// run is the state that the connections of one Run share.
type run struct {
	config  Config
	clock   clock
	began   time.Duration // when the load began, after preloading, on the clock
	meter   *meter
	keys    *keyspace
	targets []*target
	workers []*worker
	shared  *sharedKeys     // nil: the promise is another one
	pairs   []*pairWorker   // of data centers, with shared
	writer  *history.Writer // nil: no recording
	left    atomic.Int64    // operations not yet claimed

	mu sync.Mutex
	// newest is the greatest acknowledged version of every written key; zero if none is known.
	newest map[int]causal.Version
	// there holds the keys whose newest acknowledged write is not a deletion, deletable those that a deletion of
	// unknown outcome may have removed.
	there, deletable map[int]bool
}

// Run drives the endpoints. It preloads the keys of a workload, then loads until a bound of the config is reached or
// ctx ends, then makes the final reads, which have a bound of their own. Operations in flight when the time is up are
// finished. Errors of operations are counted in the result; the returned error is for failures of the run itself. The
// result is valid beside an error.
func Run(ctx context.Context, config Config) (Result, error) {
	config, err := config.withDefaults(time.Now())
	if err != nil {
		return Result{}, err
	}
	return newRun(config, wall{started: time.Now()}).all(ctx)
}

// all executes the phases of a run.
func (r *run) all(ctx context.Context) (Result, error) {
	defer func() {
		for _, w := range r.allWorkers() {
			w.conn.close()
		}
	}()
	preload, err := r.preload(ctx)
	r.begin()
	r.meter.result.Preload = preload
	if err == nil {
		err = r.work(ctx)
	}
	if s := r.meter.series; s != nil {
		err = errors.Join(err, s.close())
	}
	if err == nil && r.config.FinalReads {
		err = r.finalReads(context.WithoutCancel(ctx)) // a load that ended early is checked as well
		if err == nil && r.shared != nil {
			err = r.readLast(context.WithoutCancel(ctx))
		}
	}
	if r.writer != nil {
		if flushErr := r.writer.Flush(); flushErr != nil && err == nil {
			err = fmt.Errorf("record history: %w", flushErr)
		}
	}
	return r.meter.result, err
}

func newRun(config Config, clock clock) *run {
	r := &run{config: config, clock: clock, meter: newMeter(), newest: make(map[int]causal.Version),
		there: make(map[int]bool), deletable: make(map[int]bool)}
	if config.Record != nil {
		r.writer = history.NewWriter(config.Record)
	}
	for _, e := range config.Endpoints {
		r.targets = append(r.targets, &target{Endpoint: e})
	}
	r.left.Store(config.Ops)
	connections := config.connections()
	r.keys = newKeyspace(&r.config, connections, clock)
	if config.Promise == DataCenter {
		r.shared, r.pairs = newSharedKeys(&r.config), r.newPairs()
	}
	newSource := r.sources()
	for number := range connections {
		s, c := number/config.ConnectionsPerSession, number%config.ConnectionsPerSession
		name := fmt.Sprintf("s%d", s)
		if config.ConnectionsPerSession > 1 {
			name = fmt.Sprintf("s%d/c%d", s, c)
		}
		t := r.targets[s%len(r.targets)]
		w := &worker{run: r, conn: dial(t, &r.config), name: name, source: newSource(number, name, t)}
		if config.SessionNaming == ByEndpoint {
			w.session = t.Name
		}
		r.workers = append(r.workers, w)
	}
	return r
}

// allWorkers returns all workers with connections, those of pairs included.
func (r *run) allWorkers() []*worker {
	all := slices.Clone(r.workers)
	for _, p := range r.pairs {
		all = append(all, p.at...)
	}
	return all
}

// sources returns a constructor for the source of a connection.
func (r *run) sources() func(number int, name string, t *target) source {
	c := &r.config
	if r.shared != nil {
		return func(number int, name string, t *target) source {
			return &sharedGenerator{keys: r.shared, names: r.keys, dc: t.DataCenter, name: name,
				r: rand.New(rand.NewPCG(c.Seed, uint64(number)))}
		}
	}
	if c.Workload == nil {
		return func(number int, name string, _ *target) source { return newMixGenerator(c, r.keys, number, name) }
	}
	_, most := c.Workload.Values.bounds()
	filler := newFiller(most, c.Seed)
	return func(number int, name string, _ *target) source { return newGenerator(c, r.keys, filler, number, name) }
}

// begin starts measuring.
func (r *run) begin() {
	r.began = r.clock.since()
	r.meter = newMeter()
	r.meter.result.config = r.config
	if r.shared != nil {
		r.meter.result.Inside = &Inside{}
	}
	r.meter.observe = r.config.Observe
	if r.config.Series != nil {
		r.meter.series = newSeries(r.config.Series, r.began)
	}
	for number, w := range r.workers {
		w.due = newSchedule(&r.config, r.clock, number, len(r.workers))
	}
}

// work runs all connections until the run is over.
func (r *run) work(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if r.config.Duration > 0 {
		timer := time.AfterFunc(r.config.Duration, cancel)
		defer timer.Stop()
	}
	stopOthers := func(err error) error {
		if err != nil {
			cancel()
		}
		return err
	}
	pairs := r.startPairs(func(p *pairWorker) error { return stopOthers(p.work(ctx)) })
	err := errors.Join(r.together(func(w *worker) error { return stopOthers(w.work(ctx)) }), pairs())
	m := &r.meter.result
	m.Elapsed = r.clock.since() - r.began
	m.Throughput = float64(m.Ops) / max(m.Elapsed.Seconds(), 1e-9)
	if ctx.Err() != nil { // the time was up before all operations were done
		end := r.clock.since()
		if r.config.Duration > 0 {
			end = min(end, r.began+r.config.Duration)
		}
		for _, w := range r.workers {
			m.Unsent += w.due.unsent(end)
		}
	}
	return err
}

// together calls do for all connections concurrently, and waits for all calls.
func (r *run) together(do func(*worker) error) error {
	var wg sync.WaitGroup
	errs := make([]error, len(r.workers))
	for i, w := range r.workers {
		wg.Go(func() { errs[i] = do(w) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (r *run) now() int64 { return int64(r.clock.since()) }

// claim takes up to n of the remaining operations.
func (r *run) claim(n int) int {
	if r.config.Ops == 0 {
		return n
	}
	for {
		left := r.left.Load()
		take := min(int64(n), left)
		if r.left.CompareAndSwap(left, left-take) {
			return int(take)
		}
	}
}

// unclaim returns operations that were not executed.
func (r *run) unclaim(n int) {
	if r.config.Ops != 0 {
		r.left.Add(int64(n))
	}
}

// written notes what the final reads must find. They read keys that have numbers.
func (r *run) written(op *history.Op, keys []int) {
	if !r.config.FinalReads || len(keys) == 0 || !op.OK && !op.Unknown ||
		op.Kind != history.Put && op.Kind != history.Delete {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	newest := r.newest[keys[0]]
	if op.OK && newest.Less(op.Version) {
		newest = op.Version
		r.there[keys[0]] = op.Kind == history.Put
	}
	if !op.OK && op.Kind == history.Delete {
		r.deletable[keys[0]] = true
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
