package bench

import (
	"context"
	"fmt"
	"io"
	"os"
	"text/tabwriter"
	"time"
)

// MemoryOptions describe what to store and how to load it.
type MemoryOptions struct {
	Binary string
	Dir    string
	// Objects is how many are written, and then read through the cache.
	Objects    int
	ValueBytes int
	// Load is how long memory is measured under load, with Connections clients.
	Load        time.Duration
	Connections int
	Progress    io.Writer
}

// Memory is what the parts of one data center keep in memory.
type Memory struct {
	Machine    string  `json:"machine"`
	Objects    int     `json:"objects"`
	ValueBytes int     `json:"valueBytes"`
	Cached     float64 `json:"cachedObjects"`
	// CachedAtBytes is the size of the middleman's table of which data centers hold copies of which keys.
	CachedAtBytes  float64 `json:"cachedAtBytes"`
	BytesPerObject float64 `json:"bytesPerObject"`
	Goal           goal    `json:"goal"`
	// Idle is the resident memory of each part after its start, in bytes. Filled is the same with all objects written
	// and cached, and Loaded the maximum while objects were read and written.
	Idle   map[string]int64 `json:"idleBytes"`
	Filled map[string]int64 `json:"filledBytes"`
	Loaded map[string]int64 `json:"loadedBytes"`
	// LoadOps is the throughput of that load in operations per second.
	LoadOps float64 `json:"loadOpsPerSecond"`
	// ReadCPU and WriteCPU are the CPU time of each part for one operation of that load, in microseconds. That of a
	// write includes its way into the storage.
	ReadCPU  map[string]float64 `json:"readCPUMicros"`
	WriteCPU map[string]float64 `json:"writeCPUMicros"`
}

// fillChunk is how many writes are in flight at a time while objects are written.
const fillChunk = 20000

// MeasureMemory fills a data center whose parts are separate processes.
func MeasureMemory(ctx context.Context, o MemoryOptions) (*Memory, error) {
	dir, err := makeDataDir(o.Dir)
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	p, err := startProcesses(ctx, o.Binary, dir, processSpec{topology: oneDataCenter()})
	if err != nil {
		return nil, err
	}
	defer p.stop() // the data is discarded
	m := &Memory{Machine: machine(), Objects: o.Objects, ValueBytes: o.ValueBytes, Goal: goal{Most: 16}}
	if m.Idle, err = p.resident(); err != nil {
		return nil, err
	}
	d, err := dialDriver([]string{p.sidecar("here")}, o.Connections, 1)
	if err != nil {
		return nil, err
	}
	defer d.close()
	if err := m.fill(ctx, o, p, d); err != nil {
		return nil, err
	}
	reportProgress(o.Progress, "reading and writing for %s", o.Load)
	return m, m.underLoad(ctx, o, p, d)
}

// failOnWrongReplies turns wrong replies into an error.
func failOnWrongReplies(l burstResult, err error) error {
	if err == nil && l.Wrong > 0 {
		return fmt.Errorf("%d of %d replies are wrong, such as %q", l.Wrong, l.Ops, l.Example)
	}
	return err
}

func reportProgress(w io.Writer, format string, args ...any) {
	if w != nil {
		fmt.Fprintf(w, format+"\n", args...)
	}
}

// fill writes every object and reads it through the cache.
func (m *Memory) fill(ctx context.Context, o MemoryOptions, p *processes, d *driver) error {
	all := prefixed("k:", o.Objects, o.ValueBytes)
	for at := 0; at < o.Objects; at += fillChunk {
		if at%(10*fillChunk) == 0 {
			reportProgress(o.Progress, "writing objects: %d of %d", at, o.Objects)
		}
		chunk := workload{records: all.part(at, min(at+fillChunk, o.Objects)), pipeline: 64}
		if err := failOnWrongReplies(d.burst(ctx, burst{workload: chunk})); err != nil {
			return fmt.Errorf("write objects: %w", err)
		}
		if err := p.drain(ctx); err != nil {
			return err
		}
	}
	reportProgress(o.Progress, "reading them through the cache")
	// A read that the cache does not answer in time goes elsewhere, and leaves no copy there: on a busy machine some
	// do, and a cache that has just started answers none for a second.
	for range 20 {
		if err := failOnWrongReplies(
			d.burst(ctx, burst{workload: workload{records: all, reads: 1, pipeline: 64}})); err != nil {
			return fmt.Errorf("read objects: %w", err)
		}
		var err error
		if m.Cached, err = p.partMetric(ctx, "cache", "causalstore_cache_entries"); err != nil {
			return err
		}
		if int(m.Cached) >= o.Objects {
			break
		}
		time.Sleep(200 * time.Millisecond)
	}
	var err error
	if m.Filled, err = p.resident(); err != nil {
		return err
	}
	if m.CachedAtBytes, err = p.partMetric(ctx, "middleman", "causalstore_middleman_cached_at_bytes"); err != nil {
		return err
	}
	m.BytesPerObject = m.CachedAtBytes / max(m.Cached, 1)
	return nil
}

// underLoad reads for nine tenths of the time and writes for one tenth, and records the maximum sizes.
func (m *Memory) underLoad(ctx context.Context, o MemoryOptions, p *processes, d *driver) error {
	m.Loaded = map[string]int64{}
	all := prefixed("k:", o.Objects, o.ValueBytes)
	gets := workload{records: all, reads: 1, pipeline: 1}
	sets := workload{records: all.part(0, min(o.Objects, 10000)), pipeline: 1}
	reads, writes := newMeter(gets, o.Load*9/50), newMeter(sets, o.Load/50)
	for reads.took+writes.took < o.Load {
		for _, kind := range []*meter{reads, writes} {
			if err := kind.run(ctx, p, d, m.Loaded); err != nil {
				return err
			}
		}
	}
	m.LoadOps = float64(reads.ops+writes.ops) / (reads.took + writes.took).Seconds()
	m.ReadCPU, m.WriteCPU = reads.microsPerOp(), writes.microsPerOp()
	return nil
}

// meter sums what operations of one kind take.
type meter struct {
	burst burst
	ops   int64
	took  time.Duration
	cpu   map[string]time.Duration // by part
}

func newMeter(w workload, d time.Duration) *meter {
	return &meter{burst: burst{workload: w, duration: d}, cpu: map[string]time.Duration{}}
}

// run makes one burst, waits until its writes are complete, and keeps the largest sizes of the parts.
func (m *meter) run(ctx context.Context, p *processes, d *driver, largest map[string]int64) error {
	before, err := p.cpu()
	if err != nil {
		return err
	}
	l, err := d.burst(ctx, m.burst)
	if err != nil {
		return err
	}
	sizes, err := p.resident()
	if err != nil {
		return err
	}
	for name, n := range sizes {
		largest[name] = max(largest[name], n)
	}
	if err := p.drain(ctx); err != nil {
		return err
	}
	after, err := p.cpu()
	if err != nil {
		return err
	}
	for name := range after {
		m.cpu[name] += after[name] - before[name]
	}
	m.ops, m.took = m.ops+l.Ops, m.took+l.Elapsed
	return nil
}

func (m *meter) microsPerOp() map[string]float64 {
	each := map[string]float64{}
	for name, t := range m.cpu {
		each[name] = float64(t.Microseconds()) / float64(max(m.ops, 1))
	}
	return each
}

// Text prints the figures, with the goal beside them.
func (m *Memory) Text(out io.Writer) {
	fmt.Fprintf(out,
		"\nMemory of one data center, each part in its own process, embedded storage\n%s; %d objects of %d bytes "+
			"written, %.0f cached\n\n",
		m.Machine, m.Objects, m.ValueBytes, m.Cached)
	fmt.Fprintf(out, "middleman's state per cached object: %.1f bytes (%.1f MiB in total); goal %s bytes: %s\n\n",
		m.BytesPerObject, m.CachedAtBytes/(1<<20), m.Goal, m.Goal.verdict(m.BytesPerObject))
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "RESIDENT MiB\tIDLE\tFILLED\tUNDER LOAD\tCPU us/read\tCPU us/write\t")
	for _, name := range partNames {
		mib := func(sizes map[string]int64) float64 { return float64(sizes[name]) / (1 << 20) }
		fmt.Fprintf(w, "%s\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\t\n", name, mib(m.Idle), mib(m.Filled), mib(m.Loaded),
			m.ReadCPU[name], m.WriteCPU[name])
	}
	_ = w.Flush() // to a terminal
	fmt.Fprintf(out, "load: %.0f operations per second; nine tenths of the time reads, one tenth writes\n", m.LoadOps)
}
