package bench

import (
	"context"
	"math"
	"sync/atomic"
	"time"
)

// closedLoop is clients that each wait for a reply, think, and send the next request. Each has a connection of its own
// to one of the data centers. The think time keeps clients whose data is near from using up the machine that all data
// centers share: it stands for the limit that each data center would have by itself.
type closedLoop struct {
	addrs   []string
	clients int // spread over addrs
	think   time.Duration
	// rates, if given, bound the operations per second that the clients of each address start together.
	rates   []float64
	records records
	reads   float64 // share of GETs
	popular popularity
	seed    uint64
	// Measuring starts when lead is over and ready has returned, and takes length. Over is called at its end, while the
	// clients still work.
	lead, length time.Duration
	ready, over  func() error
	// window, if given, divides the length for a time series.
	window time.Duration
}

// never is a time that does not come.
const never = math.MaxInt64

// loopRun is a closed loop at work.
type loopRun struct {
	*closedLoop
	begun      time.Time
	start, end atomic.Int64 // of the measurement, in nanoseconds since begun
	results    []*siteResult
}

// run lets the clients work. An error reply is counted; a connection that breaks fails the run.
func (l *closedLoop) run(ctx context.Context) (*loopResult, error) {
	d, err := dialDriver(l.addrs, l.clients, l.seed)
	if err != nil {
		return nil, err
	}
	defer d.close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r := &loopRun{closedLoop: l, begun: time.Now()}
	r.start.Store(never)
	r.end.Store(never)
	for range l.addrs {
		r.results = append(r.results, newSiteResult(l))
	}
	broken := make(chan error, 1)
	go func() {
		err := d.run(ctx, r.drive())
		if err != nil {
			cancel() // nothing is left to measure
		}
		broken <- err
	}()
	err = r.measure(ctx)
	if err != nil {
		cancel()
	}
	if failed := <-broken; failed != nil {
		err = failed // measuring was canceled for it
	}
	if err != nil {
		return nil, err
	}
	return &loopResult{sites: r.results, elapsed: time.Duration(r.end.Load() - r.start.Load())}, nil
}

// drive describes what the clients do.
func (r *loopRun) drive() *drive {
	return &drive{
		workload: workload{records: r.records, reads: r.reads, popular: r.popular, pipeline: 1, pacing: r.pacing()},
		begun:    r.begun,
		stop:     func(at time.Duration) bool { return int64(at) >= r.end.Load() },
		record: func(c *client, at, took time.Duration) {
			if since := int64(at) - r.start.Load(); since >= 0 && int64(at) < r.end.Load() {
				r.results[c.site].add(c.isGet, c.wrong > 0, c.example, time.Duration(since), took)
			}
		},
	}
}

func (l *closedLoop) pacing() pacing {
	p := pacing{think: l.think, rates: l.rates}
	for site := range l.addrs {
		p.clients = append(p.clients, (l.clients-site+len(l.addrs)-1)/len(l.addrs))
	}
	return p
}

// measure opens and closes the time window that counts.
func (r *loopRun) measure(ctx context.Context) error {
	call := func(f func() error) error {
		if f == nil {
			return nil
		}
		return f()
	}
	if err := sleep(ctx, r.lead); err != nil {
		return err
	}
	if err := call(r.ready); err != nil {
		return err
	}
	start := int64(time.Since(r.begun))
	r.start.Store(start)
	if err := sleep(ctx, r.length); err != nil {
		return err
	}
	err := call(r.over)
	r.end.Store(int64(time.Since(r.begun)))
	return err
}

// sleep waits, and returns the error of ctx if ctx ends first.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
