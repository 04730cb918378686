package bench

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/causalstore/causalstore/lab/load"
	"github.com/causalstore/causalstore/sidecar/causal"
)

// WorkloadsOptions describe which workloads to compare, and for how long.
type WorkloadsOptions struct {
	// Setup.Args are the workloads: names of load.NewWorkload, or files.
	Setup
	// Each of Rounds runs every workload once on each system, for Length each.
	Rounds      int
	Length      time.Duration
	Connections int
	Pipeline    int
	// Reads is the read mode of all sessions.
	Level causal.Level
	// NearBytes bounds the near copies of the sidecar of the third system, in bytes. If it is 0, there is no third
	// system.
	NearBytes int
}

// FullWorkloads returns the options of a full run.
func FullWorkloads() *WorkloadsOptions {
	return &WorkloadsOptions{Rounds: 3, Length: 2 * time.Second, Connections: 50, Pipeline: 1,
		Level: causal.Latest, NearBytes: 32 << 20}
}

func (o *WorkloadsOptions) experiment() *Experiment {
	return &Experiment{
		Name: "workloads", Args: "[WORKLOAD...]",
		Short: "Compare YCSB and Twitter's clusters on a stock Redis and on the same Redis behind the parts of " +
			"one data center",
		Long: `Runs workloads in a closed loop, in turn against a stock redis-server, and
against deployments of one data center that use another redis-server as their storage. Each part is
a process of its own, with mutual TLS between them; one deployment has near copies in its sidecar.
Writes are synced to disk before they are acknowledged, everywhere. The clients use go-redis and
share the processors with what they measure. Requires redis-server and Linux.

A workload is ycsb-a to ycsb-f, twitter-1 to twitter-54, or a file (see causalstore load). Without
arguments: YCSB's six, and the clusters 7, 12 and 14, which have four fifths reads, four fifths
writes, and a fifth deletions.`,
		Example: `  causalstore bench workloads
  causalstore bench workloads ycsb-a twitter-52 --pipeline 16 --reads Snapshot`,
		quick:   "measure one round of one second each",
		quickly: map[string]string{"seconds": "1", "rounds": "1"},
		setup:   &o.Setup, declare: o.declare, measure: measuring(o.Measure),
	}
}

func (o *WorkloadsOptions) declare(f *flags) {
	f.in(time.Second, &o.Length, "seconds", "length of each round of a workload on one system")
	f.count(&o.Rounds, "rounds", "rounds of each workload on each system")
	f.count(&o.Connections, "connections", "number of client connections")
	f.count(&o.Pipeline, "pipeline", "operations that a connection sends at once")
	f.reads(&o.Level)
	f.nearCopies(&o.NearBytes, o.NearBytes,
		"bytes of near copies of the sidecar of the third system; 0: no third system")
	f.positive("seconds")
}

// Workloads compares workloads on a stock Redis and on the same Redis behind the parts of one data center.
type Workloads struct {
	Origin
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

// WorkloadWay is one of the compared systems under one workload. The clients are goroutines with go-redis, so their CPU
// time is much of the whole.
type WorkloadWay struct {
	*Side
	// Found is the share of the keys read that existed.
	Found float64 `json:"found"`

	reads, misses int64
}

// standardWorkloads are measured if none is given.
var standardWorkloads = []string{"ycsb-a", "ycsb-b", "ycsb-c", "ycsb-d", "ycsb-e", "ycsb-f", "twitter-7", "twitter-12",
	"twitter-14"}

// Measure runs each workload in a closed loop against a stock Redis, and against the same Redis behind the parts of one
// data center, each of them a process, with mutual TLS between them, without and with near copies.
func (o *WorkloadsOptions) Measure(ctx context.Context) (*Workloads, error) {
	res := &Workloads{Origin: o.origin(), Connections: o.Connections, Pipeline: o.Pipeline, Rounds: o.Rounds,
		Seconds: o.Length.Seconds()}
	names := o.Args
	if len(names) == 0 {
		names = standardWorkloads
	}
	for _, name := range names {
		w, err := load.NewWorkload(name)
		if err != nil {
			return nil, err
		}
		res.Cases = append(res.Cases, &WorkloadCase{Workload: name,
			config: load.Config{Workload: w, Sessions: o.Connections, Pipeline: o.Pipeline,
				Duration: o.Length, KeyPrefix: w.Name + ":", LoadKeys: noKeys}})
	}
	return res, o.withDataDir(func(dir string) (err error) {
		all, err := startContest(ctx, &o.Setup, dir, secured(processSpec{level: o.Level}, o.NearBytes))
		defer func() { err = all.stop(err) }()
		for _, c := range res.Cases {
			if err == nil {
				err = c.compare(ctx, o, all)
			}
		}
		return err
	})
}

// noKeys is a load.Config.LoadKeys that preloads nothing.
const noKeys = -1

// compare writes the keys of a workload to all systems, and then runs it on them in turns.
func (c *WorkloadCase) compare(ctx context.Context, o *WorkloadsOptions, all contest) error {
	for _, who := range all {
		o.progress("%s: preload the keys of %s", c.Workload, who.name)
		if err := c.preload(ctx, who); err != nil {
			return fmt.Errorf("%s, %s: %w", c.Workload, who.name, err)
		}
		c.Ways = append(c.Ways, &WorkloadWay{Side: newSide(who.name)})
	}
	for round := range o.Rounds {
		o.progress("%s: round %d of %d", c.Workload, round+1, o.Rounds)
		for i, who := range all {
			if err := c.Ways[i].measure(ctx, c.config, who, all); err != nil {
				return fmt.Errorf("%s, %s: %w", c.Workload, who.name, err)
			}
		}
	}
	var sides []*Side
	for _, w := range c.Ways {
		if sides = append(sides, w.Side); w.reads > 0 {
			w.Found = 1 - float64(w.misses)/float64(w.reads)
		}
	}
	concludeAll(sides)
	return nil
}

// preload writes the keys, and lets the workload run briefly, so that the first round starts with connections, caches
// and leases like the others.
func (c *WorkloadCase) preload(ctx context.Context, who *contender) error {
	warm := c.config
	warm.LoadKeys = 0 // all
	warm.Duration = max(c.config.Duration/4, 20*time.Millisecond)
	res, err := who.load(ctx, warm)
	if err != nil {
		return err
	}
	c.Keys = res.Preload.Keys
	_, err = who.drain(ctx)
	return err
}

// load runs a load against the system.
func (c *contender) load(ctx context.Context, config load.Config) (*load.Result, error) {
	config.Endpoints = []load.Endpoint{{Name: hereDC, Addr: c.addr()}}
	res, err := load.Run(ctx, config)
	if err == nil {
		err = ctx.Err()
	}
	if failed := res.Failed + res.Unknown; err == nil && failed > res.Ops/100 {
		err = fmt.Errorf("%d of %d operations failed: %v", failed, failed+res.Ops, res.Errors)
	}
	return &res, err
}

// measure runs one round on one system.
func (w *WorkloadWay) measure(ctx context.Context, config load.Config, who *contender, all contest) error {
	return w.Side.measure(ctx, who.processes, all, func() (burstResult, error) {
		res, err := who.load(ctx, config)
		w.reads, w.misses = w.reads+res.Reads, w.misses+res.Misses
		l := burstResult{Ops: res.Ops, Wrong: res.Failed + res.Unknown, Elapsed: res.Elapsed, Latency: newLatency()}
		for _, h := range res.Latency { // in microseconds, by verb
			for _, bar := range h.Distribution() {
				_ = l.Latency.RecordValues(inRange(l.Latency, time.Duration(bar.To)*time.Microsecond), bar.Count)
			}
		}
		return l, err
	})
}

// readFromText prints where keys were read from; "-" of a system that has one source only.
func readFromText(shares map[string]float64) string {
	var all []string
	for _, source := range readSources {
		if share, measured := shares[source.String()]; measured {
			all = append(all, fmt.Sprintf("%s %s", source, percent(share)))
		}
	}
	if all == nil {
		return "-"
	}
	return strings.Join(all, ", ")
}

// Report has the figures.
func (r *Workloads) Report() *Report {
	t := &table{title: "Throughput, latency, CPU time, and where keys were read from",
		head: []string{"workload", "keys", "way", "ops/s", "ratio", "p50 us", "p99 us", "p50 ratio", "CPU us/op",
			"clients us/op", "found", "failed", "keys read from"}}
	for _, c := range r.Cases {
		for _, w := range c.Ways {
			t.add(c.Workload, fmt.Sprint(c.Keys), w.Name, w.Throughput.text("%.0f"), w.Ratio.text("%.2f"),
				fmt.Sprintf("%.0f", w.P50Us), fmt.Sprintf("%.0f", w.P99Us), fmt.Sprintf("%.2f", w.P50Ratio),
				fmt.Sprintf("%.1f", w.CPUUs), fmt.Sprintf("%.1f", w.GeneratorUs), percent(w.Found), fmt.Sprint(w.Wrong),
				readFromText(w.ReadFrom))
		}
	}
	t.mergeRepeated(2)
	return r.report("workloads", "Workloads on a stock Redis (appendfsync always), and on the same behind "+
		"coordinator, middleman, cache and sidecar, each a process",
		fmt.Sprintf("%d connections, pipeline %d; %s", r.Connections,
			r.Pipeline, inTurn(r.Rounds, r.Seconds)), tablesIn(t)...)
}
