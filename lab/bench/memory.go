package bench

import (
	"context"
	"fmt"
	"time"
)

// MemoryOptions describe what to store and how to load it.
type MemoryOptions struct {
	Setup
	// Objects is how many are written, and then read through the cache.
	Objects    int
	ValueBytes int
	// Load is how long memory is measured under load, with Connections clients.
	Load        time.Duration
	Connections int
}

// FullMemory returns the options of a full run.
func FullMemory() *MemoryOptions {
	return &MemoryOptions{Objects: 1000000, ValueBytes: 20, Load: 10 * time.Second, Connections: 50}
}

func (o *MemoryOptions) experiment() *Experiment {
	return &Experiment{
		Name:  "memory",
		Short: "Measure the memory of each part, and the middleman's state per cached object",
		Long: `Runs each part of one data center in its own process, writes objects, reads each
of them through the cache, and measures the memory of the parts. Requires Linux.`,
		quick:   "measure a tenth of the objects, in less than a minute",
		quickly: map[string]string{"objects": "100000", "seconds": "3"},
		setup:   &o.Setup, declare: o.declare, measure: measuring(o.Measure),
	}
}

func (o *MemoryOptions) declare(f *flags) {
	f.in(time.Second, &o.Load, "seconds", "length of the load in seconds")
	f.count(&o.Objects, "objects", "number of objects")
	f.count(&o.ValueBytes, "value-bytes",
		"size of values in bytes; the cache holds 256 MiB, and an entry takes 160 bytes plus key and value")
	f.count(&o.Connections, "connections", "number of client connections")
	f.positive("seconds")
}

// Memory is what the parts of one data center keep in memory.
type Memory struct {
	Origin
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

// Measure fills a data center whose parts are separate processes.
func (o *MemoryOptions) Measure(ctx context.Context) (*Memory, error) {
	m := &Memory{Origin: o.origin(), Objects: o.Objects, ValueBytes: o.ValueBytes, Goal: goal{Most: 16}}
	return m, o.withDataDir(func(dir string) error {
		p, err := startProcesses(ctx, o.Binary, dir, processSpec{topology: oneDataCenter()})
		if err != nil {
			return err
		}
		defer p.stop() // the data is discarded
		if m.Idle, err = p.resident(); err != nil {
			return err
		}
		d, err := dialDriver([]string{p.sidecar(hereDC)}, o.Connections, 1)
		if err != nil {
			return err
		}
		defer d.close()
		if err := m.fill(ctx, o, p, d); err != nil {
			return err
		}
		o.progress("reading and writing for %s", o.Load)
		return m.underLoad(ctx, o, p, d)
	})
}

// fill writes every object and reads it through the cache.
func (m *Memory) fill(ctx context.Context, o *MemoryOptions, p *processes, d *driver) error {
	all := prefixed("k:", o.Objects, o.ValueBytes)
	for at := 0; at < o.Objects; at += fillChunk {
		if at%(10*fillChunk) == 0 {
			o.progress("writing objects: %d of %d", at, o.Objects)
		}
		chunk := workload{records: all.part(at, min(at+fillChunk, o.Objects)), pipeline: 64}
		if err := failOnWrongReplies(d.burst(ctx, burst{workload: chunk})); err != nil {
			return fmt.Errorf("write objects: %w", err)
		}
		if _, err := p.drain(ctx); err != nil {
			return err
		}
	}
	o.progress("reading them through the cache")
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
		if err := sleep(ctx, 200*time.Millisecond); err != nil {
			return err
		}
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
func (m *Memory) underLoad(ctx context.Context, o *MemoryOptions, p *processes, d *driver) error {
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
	used  usage
}

func newMeter(w workload, d time.Duration) *meter {
	return &meter{burst: burst{workload: w, duration: d}, used: newUsage()}
}

// run makes one burst, waits until its writes are complete, and keeps the largest sizes of the parts.
func (m *meter) run(ctx context.Context, p *processes, d *driver, largest map[string]int64) error {
	return m.used.measure(ctx, p, func() error {
		l, err := d.burst(ctx, m.burst)
		if err != nil {
			return err
		}
		m.ops, m.took = m.ops+l.Ops, m.took+l.Elapsed
		sizes, err := p.resident()
		for name, n := range sizes {
			largest[name] = max(largest[name], n)
		}
		return err
	})
}

func (m *meter) microsPerOp() map[string]float64 {
	each := map[string]float64{}
	for _, c := range m.used.costs(m.ops) {
		each[c.Process] = c.CPUUs
	}
	return each
}

// Report has the figures, with the goal beside them.
func (m *Memory) Report() *Report {
	t := &table{title: "Resident memory in MiB, and CPU time",
		head: []string{"part", "idle", "filled", "under load", "CPU us/read", "CPU us/write"}}
	for _, name := range partNames {
		mib := func(sizes map[string]int64) string { return fmt.Sprintf("%.1f", float64(sizes[name])/(1<<20)) }
		t.add(name, mib(m.Idle), mib(m.Filled), mib(m.Loaded), fmt.Sprintf("%.1f", m.ReadCPU[name]),
			fmt.Sprintf("%.1f", m.WriteCPU[name]))
	}
	lines := []string{
		fmt.Sprintf("middleman's state per cached object: %.1f bytes (%.1f MiB in total); goal %s bytes: %s",
			m.BytesPerObject, m.CachedAtBytes/(1<<20), m.Goal, m.Goal.verdict(m.BytesPerObject)),
		fmt.Sprintf("load: %.0f operations per second; nine tenths of the time reads, one tenth writes", m.LoadOps)}
	return m.report("memory", "Memory of one data center, each part in its own process, embedded storage",
		fmt.Sprintf("%d objects of %d bytes written, %.0f cached", m.Objects, m.ValueBytes, m.Cached),
		chapter{title: t.title, tables: []*table{t}, lines: lines})
}
