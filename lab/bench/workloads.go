package bench

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/causalstore/causalstore/lab/load"
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/session"
)

// WorkloadsOptions describe which workloads to compare, and for how long.
type WorkloadsOptions struct {
	// Binary is the causalstore program.
	Binary string
	// Dir is where all servers keep their data: it decides which disk is measured.
	Dir string
	// Workloads are names of load.NewWorkload, or files.
	Workloads []string
	// Each of Rounds runs every workload once on each system, for Length each.
	Rounds      int
	Length      time.Duration
	Connections int
	Pipeline    int
	// Level is that of all sessions; causal.DefaultLevel: the default of sidecars.
	Level causal.Level
	// NearBytes bounds the near copies of the sidecar of the third system, in bytes. If it is 0, there is no third
	// system.
	NearBytes int
	// Progress receives a line per step; nil receives none.
	Progress io.Writer
}

// Workloads compares workloads on a stock Redis and on the same Redis behind the parts of one data center.
type Workloads struct {
	Machine     string          `json:"machine"`
	Connections int             `json:"connections"`
	Pipeline    int             `json:"pipeline"`
	Rounds      int             `json:"rounds"`
	Seconds     float64         `json:"secondsPerRound"`
	Cases       []*WorkloadCase `json:"cases"`
}

// WorkloadCase is one workload.
type WorkloadCase struct {
	Workload string `json:"workload"`
	// Keys is how many were written before the first round.
	Keys int            `json:"keys"`
	Ways []*WorkloadWay `json:"ways"`

	config load.Config
}

// WorkloadWay is one of the compared systems under one workload.
type WorkloadWay struct {
	Name string `json:"way"`
	Side
	// Ratio is the throughput of a round divided by that of Redis in the same round, and P50Ratio that of the medians
	// of all.
	Ratio    spread  `json:"ratio"`
	P50Ratio float64 `json:"p50Ratio"`
	// GeneratorUs is the CPU time of the clients per operation, in microseconds. They are goroutines with go-redis, so
	// it is much of the whole.
	GeneratorUs float64 `json:"generatorCpuUs"`
	// Found is the share of the keys read that existed.
	Found float64 `json:"found"`
	// ReadFrom is the share of the keys read that each session.Source has answered, by its name; none for Redis itself.
	ReadFrom map[string]float64 `json:"readFrom,omitempty"`

	generator     time.Duration
	reads, misses int64
	readFrom      map[string]float64 // counts
}

// MeasureWorkloads runs each workload in a closed loop against a stock Redis, and against the same Redis behind the
// parts of one data center, each of them a process, with mutual TLS between them, without and with near copies.
func MeasureWorkloads(ctx context.Context, o WorkloadsOptions) (res *Workloads, err error) {
	res = &Workloads{Machine: machine(), Connections: o.Connections, Pipeline: o.Pipeline, Rounds: o.Rounds,
		Seconds: o.Length.Seconds()}
	for _, name := range o.Workloads {
		w, err := load.NewWorkload(name)
		if err != nil {
			return nil, err
		}
		res.Cases = append(res.Cases, &WorkloadCase{Workload: name,
			config: load.Config{Workload: w, Sessions: o.Connections, Pipeline: o.Pipeline,
				Duration: o.Length, KeyPrefix: w.Name + ":", LoadKeys: noKeys}})
	}
	dir, err := makeDataDir(o.Dir)
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	targets, err := startTargets(ctx, o.Binary, dir, o.ways())
	defer func() { err = stopTargets(targets, err) }()
	if err != nil {
		return nil, err
	}
	for _, c := range res.Cases {
		if err := c.compare(ctx, o, targets); err != nil {
			return nil, err
		}
	}
	return res, nil
}

// noKeys is a load.Config.LoadKeys that preloads nothing.
const noKeys = -1

// ways returns the systems to compare with Redis itself.
func (o WorkloadsOptions) ways() []way {
	spec := processSpec{topology: oneDataCenter(), redis: true, tls: true, level: o.Level}
	all := []way{{wayMutualTLS, spec}}
	if o.NearBytes > 0 {
		spec.nearBytes = o.NearBytes
		all = append(all, way{wayNear, spec})
	}
	return all
}

// compare writes the keys of a workload to all systems, and then runs it on them in turns.
func (c *WorkloadCase) compare(ctx context.Context, o WorkloadsOptions, targets []*processTarget) error {
	for _, t := range targets {
		reportProgress(o.Progress, "%s: preload the keys of %s", c.Workload, t.name)
		keys, err := c.preload(ctx, t)
		if err != nil {
			return fmt.Errorf("%s, %s: %w", c.Workload, t.name, err)
		}
		c.Keys = keys
		c.Ways = append(c.Ways, &WorkloadWay{Name: t.name, Side: Side{latency: newLatency()},
			readFrom: map[string]float64{}})
	}
	for round := range o.Rounds {
		reportProgress(o.Progress, "%s: round %d of %d", c.Workload, round+1, o.Rounds)
		for i, t := range targets {
			if err := c.Ways[i].measure(ctx, c.config, t); err != nil {
				return fmt.Errorf("%s, %s: %w", c.Workload, t.name, err)
			}
		}
	}
	c.conclude()
	return nil
}

// preload writes the keys, and lets the workload run briefly, so that the first round starts with connections, caches
// and leases like the others.
func (c *WorkloadCase) preload(ctx context.Context, t *processTarget) (keys int, err error) {
	warm := c.config
	warm.LoadKeys = 0 // all
	warm.Duration = max(c.config.Duration/4, 20*time.Millisecond)
	res, err := t.load(ctx, warm)
	if err != nil {
		return 0, err
	}
	return res.Preload.Keys, t.drain(ctx)
}

// load runs a load against the system.
func (t *processTarget) load(ctx context.Context, config load.Config) (*load.Result, error) {
	config.Endpoints = []load.Endpoint{{Name: "here", Addr: t.addr()}}
	res, err := load.Run(ctx, config)
	if err == nil {
		err = ctx.Err()
	}
	if failed := res.Failed + res.Unknown; err == nil && failed > res.Ops/100 {
		err = fmt.Errorf("%d of %d operations failed: %v", failed, failed+res.Ops, res.Errors)
	}
	return &res, err
}

// measure runs one round on one system. What writes cost after their acknowledgement counts too.
func (w *WorkloadWay) measure(ctx context.Context, config load.Config, t *processTarget) error {
	readBefore, err := t.readFrom(ctx)
	if err != nil {
		return err
	}
	before, err := t.cpu()
	if err != nil {
		return err
	}
	own := ownCPU()
	res, err := t.load(ctx, config)
	if err != nil {
		return err
	}
	w.generator += ownCPU() - own
	if err := t.drain(ctx); err != nil {
		return err
	}
	after, err := t.cpu()
	if err != nil {
		return err
	}
	sum := time.Duration(0)
	for kind, used := range after {
		sum += used - before[kind]
	}
	readAfter, err := t.readFrom(ctx)
	if err != nil {
		return err
	}
	for source, n := range readAfter {
		w.readFrom[source] += n - readBefore[source]
	}
	w.reads, w.misses = w.reads+res.Reads, w.misses+res.Misses
	l := burstResult{Ops: res.Ops, Wrong: res.Failed + res.Unknown, Elapsed: res.Elapsed, Latency: newLatency()}
	for _, h := range res.Latency { // in microseconds, by verb
		for _, bar := range h.Distribution() {
			if err := l.Latency.RecordValues(inRange(l.Latency, time.Duration(bar.To)*time.Microsecond),
				bar.Count); err != nil {
				return err
			}
		}
	}
	w.add(l, sum)
	return nil
}

// readFrom returns how many keys were read from each source so far; none of Redis itself.
func (t *processTarget) readFrom(ctx context.Context) (map[string]float64, error) {
	counts := map[string]float64{}
	if t.plane == nil {
		return counts, nil
	}
	for _, source := range readSources {
		n, err := t.plane.partMetric(ctx, "sidecar", "causalstore_sidecar_reads_total",
			fmt.Sprintf("source=%q", source))
		if err != nil {
			return nil, err
		}
		counts[source.String()] = n
	}
	return counts, nil
}

// readSources are the sources that a deployment of one data center has.
var readSources = []session.Source{session.SourceOwn, session.SourceNear, session.SourceCache, session.SourceLocal}

// conclude computes the figures from the rounds.
func (c *WorkloadCase) conclude() {
	direct := c.Ways[0]
	for _, w := range c.Ways {
		w.conclude()
		w.Ratio, w.P50Ratio = w.over(&direct.Side), w.P50Us/direct.P50Us
		w.GeneratorUs = perOp(float64(w.generator.Microseconds()), w.ops)
		if w.reads > 0 {
			w.Found = 1 - float64(w.misses)/float64(w.reads)
		}
		w.ReadFrom = sharesOf(w.readFrom)
	}
}

// sharesOf divides counts by their sum; nil if that is 0.
func sharesOf(counts map[string]float64) map[string]float64 {
	sum := 0.0
	for _, n := range counts {
		sum += n
	}
	if sum == 0 {
		return nil
	}
	shares := map[string]float64{}
	for name, n := range counts {
		shares[name] = n / sum
	}
	return shares
}

func (w *WorkloadWay) readFromText() string {
	var all []string
	for _, source := range readSources {
		if share, measured := w.ReadFrom[source.String()]; measured {
			all = append(all, fmt.Sprintf("%s %s", source, percent(share)))
		}
	}
	return strings.Join(all, ", ")
}

// Text prints the figures.
func (r *Workloads) Text(out io.Writer) {
	t := table{
		title: "Workloads on a stock Redis (appendfsync always), and on the same behind coordinator, middleman, " +
			"cache and sidecar, each a process",
		note: fmt.Sprintf(
			"%s; %d connections, pipeline %d; %d rounds of %.1f s each way in turn; median (least..greatest)",
			r.Machine, r.Connections, r.Pipeline,
			r.Rounds, r.Seconds),
		head: []string{"workload", "keys", "way", "ops/s", "ratio", "p50 us", "p99 us", "p50 ratio", "CPU us/op",
			"clients us/op", "found", "failed",
			"keys read from"}}
	for _, c := range r.Cases {
		name, keys := c.Workload, fmt.Sprint(c.Keys)
		for _, w := range c.Ways {
			t.add(name, keys, w.Name, w.Throughput.text("%.0f"), w.Ratio.text("%.2f"), fmt.Sprintf("%.0f", w.P50Us),
				fmt.Sprintf("%.0f", w.P99Us),
				fmt.Sprintf("%.2f", w.P50Ratio), fmt.Sprintf("%.1f", w.CPUUs), fmt.Sprintf("%.1f", w.GeneratorUs),
				percent(w.Found), fmt.Sprint(w.Wrong), w.readFromText())
			name, keys = "", ""
		}
	}
	t.text(out)
}
