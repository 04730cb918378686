package bench

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/sidecar/causal/session"
)

// NearCopiesOptions describe how a key is read at many sidecars of one data center while it is written at one.
type NearCopiesOptions struct {
	Setup
	// Holders are numbers of sidecars that read the key, each measured in a deployment of its own.
	Holders []int
	// NearBytes bounds the near copies of each sidecar, in bytes.
	NearBytes int
	// Writes are rates at which the key is written, and Reads is that at which each holder reads it, per second.
	Writes []float64
	Reads  float64
	// Length is how long each rate is measured.
	Length time.Duration
}

// FullNearCopies returns the options of a full run.
func FullNearCopies() *NearCopiesOptions {
	return &NearCopiesOptions{Holders: []int{1, 10, 100}, NearBytes: contract.DefaultNearBytes,
		Writes: []float64{0.2, 1, 10}, Reads: 20, Length: 10 * time.Second}
}

func (o *NearCopiesOptions) experiment() *Experiment {
	return &Experiment{
		Name:  "near-copies",
		Short: "Measure writes of a key of which many sidecars keep near copies",
		Long: `Runs one data center with scope DataCenter and mutual TLS, each part in its own process. Clients of
many sidecars read one key, each at a steady rate, while a client of another sidecar writes it. It does so without near
copies, and with them. The command fails if a read returns an older value than the one that had been acknowledged when
the read started. Requires Linux.`,
		Example: `  causalstore bench near-copies --holders 1,100 --writes 10`,
		quick:   "measure for 2 s each, with 1 and 4 sidecars and 5 writes a second",
		quickly: map[string]string{"seconds": "2", "holders": "1,4", "writes": "5"},
		setup:   &o.Setup, declare: o.declare, measure: measuring(o.Measure),
	}
}

func (o *NearCopiesOptions) declare(f *flags) {
	f.IntSliceVar(&o.Holders, "holders", o.Holders, "numbers of sidecars whose clients read the key")
	f.Float64SliceVar(&o.Writes, "writes", o.Writes, "writes of the key per second")
	f.Float64Var(&o.Reads, "reads", o.Reads, "reads of the key per second at each of these sidecars")
	f.in(time.Second, &o.Length, "seconds", "length of each measurement in seconds")
	f.nearCopies(&o.NearBytes, o.NearBytes, "bytes of near copies of each sidecar")
	f.StringVar(&o.Binary, "binary", "", "program to measure; default: this one")
	f.positive("seconds", "reads", "writes", "near-copies")
	f.between(1, 200, "holders")
}

// NearCopies is what writes cost of a key of which sidecars keep near copies.
type NearCopies struct {
	Origin
	Seconds float64          `json:"seconds"`
	Reads   float64          `json:"readsPerSecond"`
	Cells   []NearCopiesCell `json:"cells"`
}

// NearCopiesCell is one measurement.
type NearCopiesCell struct {
	Holders   int     `json:"holders"`
	NearBytes int     `json:"nearBytes"`
	Writes    float64 `json:"writesPerSecond"`
	// Sets and Gets are the times of the commands, in milliseconds.
	Sets Times `json:"sets"`
	Gets Times `json:"gets"`
	// FromNear is the share of the reads that a near copy answered, 0 to 1.
	FromNear float64 `json:"fromNear"`
	// Old is the number of reads that returned an older value than the one acknowledged when they started.
	Old int64 `json:"old"`
}

// Measure runs all deployments, one after the other.
func (o *NearCopiesOptions) Measure(ctx context.Context) (*NearCopies, error) {
	m := &NearCopies{Origin: o.origin(), Seconds: o.Length.Seconds(), Reads: o.Reads}
	for _, holders := range o.Holders {
		for _, bytes := range []int{0, o.NearBytes} {
			o.progress("%d sidecars read, near copies of %d bytes", holders, bytes)
			err := o.withDataDir(func(dir string) error { return m.deploy(ctx, o, dir, holders, bytes) })
			if err != nil {
				return m, err
			}
		}
	}
	return m, nil
}

// deploy measures one deployment at all rates.
func (m *NearCopies) deploy(ctx context.Context, o *NearCopiesOptions, dir string, holders, nearBytes int) error {
	spec := processSpec{topology: oneDataCenter(), scope: contract.ScopeDataCenter, tls: true, nearBytes: nearBytes}
	p, err := startProcesses(ctx, o.Binary, dir, spec)
	if err != nil {
		return err
	}
	return errors.Join(m.measure(ctx, o, p, holders), p.stop())
}

// hotKey is the key that is read and written.
const hotKey = "hot"

func (m *NearCopies) measure(ctx context.Context, o *NearCopiesOptions, p *processes, holders int) error {
	for range holders {
		if err := p.add(ctx, "sidecar", sidecarWithClient, hereDC, 0); err != nil {
			return err
		}
	}
	if err := p.awaitReady(ctx); err != nil {
		return err
	}
	writer, err := dial(p.sidecar(hereDC))
	if err != nil {
		return err
	}
	defer writer.Close()
	var readers []*conn
	for _, member := range p.members {
		if member.kind != sidecarWithClient {
			continue
		}
		c, err := dial(member.redis)
		if err != nil {
			return err
		}
		defer c.Close()
		readers = append(readers, c)
	}
	var written atomic.Int64 // the greatest value that was acknowledged
	for _, rate := range o.Writes {
		cell := NearCopiesCell{Holders: holders, NearBytes: p.nearBytes, Writes: rate}
		if err := cell.measure(ctx, o, p, writer, readers, &written); err != nil {
			return err
		}
		m.Cells = append(m.Cells, cell)
	}
	return nil
}

func (c *NearCopiesCell) measure(ctx context.Context, o *NearCopiesOptions, p *processes, writer *conn, readers []*conn,
	written *atomic.Int64) error {
	set := func() error {
		next := written.Load() + 1
		if r, err := writer.ask("SET", hotKey, strconv.FormatInt(next, 10)); err != nil || !isOK(r) {
			return errors.Join(fmt.Errorf("SET was answered %q", r), err)
		}
		written.Store(next)
		return nil
	}
	get := func(reader *conn) error {
		least := written.Load()
		r, err := reader.ask("GET", hotKey)
		if err != nil || !r.isValue() {
			return errors.Join(fmt.Errorf("GET was answered %q", r), err)
		}
		if v, err := strconv.ParseInt(r.value, 10, 64); err != nil || v < least {
			atomic.AddInt64(&c.Old, 1)
		}
		return nil
	}
	if err := set(); err != nil {
		return err
	}
	// The key becomes hot before anything is measured.
	warm := min(o.Length/2, 2*time.Second)
	if _, err := everyone(ctx, readers, warm, o.Reads, get); err != nil {
		return err
	}
	before, err := p.readFrom(ctx)
	if err != nil {
		return err
	}
	sets := newLatency()
	var writing sync.WaitGroup
	var writeErr error
	writing.Go(func() { writeErr = steadily(ctx, o.Length, c.Writes, sets, set) })
	gets, err := everyone(ctx, readers, o.Length, o.Reads, get)
	writing.Wait()
	if err = errors.Join(err, writeErr); err != nil {
		return err
	}
	after, err := p.readFrom(ctx)
	if err != nil {
		return err
	}
	all := 0.0
	for source := range after {
		all += after[source] - before[source]
	}
	if near := session.SourceNear.String(); all > 0 {
		c.FromNear = (after[near] - before[near]) / all
	}
	c.Sets, c.Gets = latencies(sets), latencies(gets)
	return nil
}

// everyone lets each reader do something at a steady rate, and returns how long it took.
func everyone(ctx context.Context, readers []*conn, length time.Duration, rate float64,
	do func(*conn) error) (*hdrhistogram.Histogram, error) {
	times, errs := make([]*hdrhistogram.Histogram, len(readers)), make([]error, len(readers))
	var reading sync.WaitGroup
	for i, r := range readers {
		times[i] = newLatency()
		reading.Go(func() {
			// Not all at the same moment.
			errs[i] = sleep(ctx, time.Duration(float64(i)/rate/float64(len(readers))*float64(time.Second)))
			if errs[i] == nil {
				errs[i] = steadily(ctx, length, rate, times[i], func() error { return do(r) })
			}
		})
	}
	reading.Wait()
	all := newLatency()
	for _, h := range times {
		all.Merge(h)
	}
	return all, errors.Join(errs...)
}

// steadily does something rate times a second, and records how long it took. What is late is not made up for.
func steadily(ctx context.Context, length time.Duration, rate float64, times *hdrhistogram.Histogram,
	do func() error) error {
	tick := time.NewTicker(time.Duration(float64(time.Second) / rate))
	defer tick.Stop()
	for end := time.Now().Add(length); time.Now().Before(end); {
		begun := time.Now()
		if err := do(); err != nil {
			return err
		}
		if err := times.RecordValue(int64(time.Since(begun))); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
	return nil
}

// Verdict fails if a read was old.
func (m *NearCopies) Verdict() error {
	for _, c := range m.Cells {
		if c.Old > 0 {
			return fmt.Errorf("%d of %d reads returned an older value than the one that had been acknowledged before "+
				"they started (%d sidecars, %g writes per second)", c.Old, c.Gets.Count, c.Holders, c.Writes)
		}
	}
	return nil
}

func quantiles(t Times) string { return fmt.Sprintf("%.2f, %.1f, %.0f", t.P50Ms, t.P99Ms, t.P999Ms) }

// Report has the figures.
func (m *NearCopies) Report() *Report {
	t := &table{title: "Writes of a key that many sidecars read", head: []string{"sidecars", "near copies", "writes/s",
		"SET ms: p50, p99, p99.9", "GET ms: p50, p99, p99.9", "GETs", "from near copies", "old reads"}}
	for _, c := range m.Cells {
		near := "none"
		if c.NearBytes > 0 {
			near = fmt.Sprintf("%d KiB", c.NearBytes>>10)
		}
		t.add(strconv.Itoa(c.Holders), near, fmt.Sprint(c.Writes), quantiles(c.Sets), quantiles(c.Gets),
			strconv.FormatUint(c.Gets.Count, 10), fmt.Sprintf("%.0f %%", 100*c.FromNear), strconv.FormatInt(c.Old, 10))
	}
	return m.report("near-copies", "A key that is kept near and written, scope DataCenter, mutual TLS",
		fmt.Sprintf("each sidecar reads it %g times a second; %.0f s each", m.Reads, m.Seconds), tablesIn(t)...)
}
