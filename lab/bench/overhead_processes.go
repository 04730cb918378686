package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// The ways of a comparison with processes, in the order in which they take turns.
const (
	wayDirect    = "Redis"
	wayProcesses = "processes"
	wayMutualTLS = "mutual TLS"
	wayNear      = "near copies"
)

// OverheadProcesses is the cost of the data plane over the storage itself, with each part in its own process, as in
// production.
type OverheadProcesses struct {
	Machine     string         `json:"machine"`
	Connections int            `json:"connections"`
	Keys        int            `json:"keys"`
	ValueBytes  int            `json:"valueBytes"`
	Rounds      int            `json:"rounds"`
	Seconds     float64        `json:"secondsPerRound"`
	Cases       []*ProcessCase `json:"cases"`
}

// ProcessCase is one command at one pipeline depth.
type ProcessCase struct {
	Command  string `json:"command"`
	Pipeline int    `json:"pipeline"`
	Ways     []*Way `json:"ways"`

	load burst
}

// Way is one of the compared systems in one case.
type Way struct {
	Name string `json:"way"`
	Side
	// Ratio is the throughput of a round divided by that of Redis in the same round, and P50Ratio that of the medians
	// of all.
	Ratio    spread  `json:"ratio"`
	P50Ratio float64 `json:"p50Ratio"`
	// OfFirst is the throughput of a round divided by that of the first deployment of parts in the same round.
	OfFirst spread `json:"ofFirst"`
	// Costs are those of the servers, by kind of process.
	Costs []ProcessCost `json:"costs"`
	// GeneratorMs is the CPU time of the load generator, in milliseconds per 1000 operations.
	GeneratorMs float64 `json:"generatorCPUMs"`

	cpu       map[string]time.Duration
	allocated map[string]allocations
	generator time.Duration
}

// ProcessCost is what the processes of one kind use together.
type ProcessCost struct {
	Process string `json:"process"`
	// CPUMs is the CPU time in milliseconds per 1000 operations.
	CPUMs float64 `json:"cpuMs"`
	// Allocations and AllocatedBytes are per operation; zero for programs that are not Go.
	Allocations    float64 `json:"allocations"`
	AllocatedBytes float64 `json:"allocatedBytes"`
	// Layers is where the CPU time goes, if the process was profiled.
	Layers []share `json:"layers,omitempty"`
}

// way is a system to compare: Redis itself if it is zero, or the parts with it as their storage.
type way struct {
	name string
	spec processSpec
}

// ways returns the systems to compare, in the order in which they take turns. Redis itself is the first.
func (o OverheadOptions) ways() []way {
	all := []way{{name: wayDirect}}
	if o.NearBytes > 0 {
		return append(all, way{wayMutualTLS, processSpec{topology: oneDataCenter(), redis: true, tls: true}},
			way{wayNear, processSpec{topology: oneDataCenter(), redis: true, tls: true, nearBytes: o.NearBytes}})
	}
	if len(o.Members) == 0 {
		return append(all, way{wayProcesses, processSpec{topology: oneDataCenter(), redis: true}},
			way{wayMutualTLS, processSpec{topology: oneDataCenter(), redis: true, tls: true}})
	}
	for _, n := range o.Members {
		name := fmt.Sprintf("%d members", n)
		if n == 1 {
			name = "1 member"
		}
		all = append(all, way{name, processSpec{topology: oneDataCenter(), redis: true, tls: true, groupMembers: n,
			etcd: o.Etcd}})
	}
	return all
}

// processTarget is a running system to compare.
type processTarget struct {
	name   string
	plane  *processes  // nil for Redis itself
	redis  *stockRedis // nil for the others
	driver *driver
}

// MeasureOverheadProcesses compares a stock Redis with the same Redis behind the parts of one data center, each of them
// a process: without and with mutual TLS between them, or with it and with OverheadOptions.Members members for each
// coordinator, or without and with near copies.
func MeasureOverheadProcesses(ctx context.Context, o OverheadOptions) (res *OverheadProcesses, err error) {
	dir, err := makeDataDir(o.Dir)
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	targets, err := startTargets(ctx, o.Binary, dir, o.ways()[1:])
	defer func() { err = stopTargets(targets, err) }()
	if err != nil {
		return nil, err
	}
	for _, t := range targets {
		if err := t.connect(ctx, o); err != nil {
			return nil, err
		}
	}
	res = &OverheadProcesses{Machine: machine(), Connections: o.Connections, Keys: o.Keys, ValueBytes: o.ValueBytes,
		Rounds:  o.Rounds,
		Seconds: o.Length.Seconds(), Cases: o.processCases()}
	for round := range o.Rounds {
		for _, c := range res.Cases {
			reportProgress(o.Progress, "round %d of %d: %s, pipeline %d", round+1, o.Rounds, c.Command, c.Pipeline)
			for i, t := range targets {
				if err := c.measure(ctx, c.Ways[i], t); err != nil {
					return nil, fmt.Errorf("%s at pipeline %d, %s: %w", c.Command, c.Pipeline, t.name, err)
				}
			}
		}
	}
	last := len(targets) - 1
	for _, c := range res.Cases {
		c.conclude()
		if o.Profile == 0 {
			continue
		}
		reportProgress(o.Progress, "profile: %s, pipeline %d", c.Command, c.Pipeline)
		if err := c.profile(ctx, targets[last], c.Ways[last], o.Profile, o.Profiles); err != nil {
			return nil, fmt.Errorf("profile %s at pipeline %d: %w", c.Command, c.Pipeline, err)
		}
	}
	return res, nil
}

// startTargets starts Redis itself and the ways to compare with it, in that order. Those that run are also returned if
// one fails.
func startTargets(ctx context.Context, binary, dir string, ways []way) (targets []*processTarget, err error) {
	redis, err := startRedis(ctx, filepath.Join(dir, "redis"))
	if err != nil {
		return nil, err
	}
	targets = append(targets, &processTarget{name: wayDirect, redis: redis})
	for _, w := range ways {
		p, err := startProcesses(ctx, binary, filepath.Join(dir, fmt.Sprint(len(targets))), w.spec)
		if err != nil {
			return targets, err
		}
		targets = append(targets, &processTarget{name: w.name, plane: p})
	}
	return targets, nil
}

// stopTargets adds what fails to err.
func stopTargets(targets []*processTarget, err error) error {
	for _, t := range targets {
		err = errors.Join(err, t.stop())
	}
	return err
}

// connect opens the connections of the load, and writes the keys that are read.
func (t *processTarget) connect(ctx context.Context, o OverheadOptions) (err error) {
	if t.driver, err = dialDriver([]string{t.addr()}, o.Connections, 1); err != nil {
		return err
	}
	preload := workload{records: prefixed("get:", o.Keys, o.ValueBytes), pipeline: 16}
	if err := failOnWrongReplies(t.driver.burst(ctx, burst{workload: preload})); err != nil {
		return fmt.Errorf("preload keys: %w", err)
	}
	return t.drain(ctx)
}

func (t *processTarget) stop() error {
	if t.driver != nil {
		t.driver.close()
	}
	if t.plane != nil {
		return t.plane.stop()
	}
	return t.redis.kill()
}

// addr is where clients connect to.
func (t *processTarget) addr() string {
	if t.plane != nil {
		return t.plane.sidecar("here")
	}
	return t.redis.addr
}

func (t *processTarget) drain(ctx context.Context) error {
	if t.plane == nil {
		return nil
	}
	return t.plane.drain(ctx)
}

// cpu returns the CPU time of the servers, by kind of process.
func (t *processTarget) cpu() (map[string]time.Duration, error) {
	if t.plane != nil {
		return t.plane.cpu()
	}
	took, err := cpuTime(t.redis.pid())
	return map[string]time.Duration{kindStorage: took}, err
}

func (t *processTarget) allocations(ctx context.Context) (map[string]allocations, error) {
	if t.plane == nil {
		return nil, nil
	}
	return t.plane.allocations(ctx)
}

// processCases returns the cases to measure. GETs use keys that nobody writes, so that all of them can be cache hits.
func (o OverheadOptions) processCases() (cases []*ProcessCase) {
	for _, command := range []string{"GET", "SET"} {
		if !o.measures(command) {
			continue
		}
		for _, pipeline := range o.Pipelines {
			c := &ProcessCase{Command: command, Pipeline: pipeline,
				load: burst{workload: workload{pipeline: pipeline}, duration: o.Length}}
			c.load.records = prefixed("set:", o.Keys, o.ValueBytes)
			if command == "GET" {
				c.load.records, c.load.reads = prefixed("get:", o.Keys, o.ValueBytes), 1
			}
			for _, w := range o.ways() {
				c.Ways = append(c.Ways, &Way{Name: w.name, Side: Side{latency: newLatency()},
					cpu: map[string]time.Duration{}, allocated: map[string]allocations{}})
			}
			cases = append(cases, c)
		}
	}
	return cases
}

// measure runs one round of a case on one system. What writes cost after their acknowledgement counts too.
func (c *ProcessCase) measure(ctx context.Context, w *Way, t *processTarget) error {
	warm := c.load
	warm.duration = max(c.load.duration/10, 20*time.Millisecond)
	if _, err := t.driver.burst(ctx, warm); err != nil {
		return err
	}
	if c.load.reads == 1 { // every key, so that all rounds start with full caches and valid leases
		warm.duration, warm.pipeline = 0, 16
		if err := failOnWrongReplies(t.driver.burst(ctx, warm)); err != nil {
			return err
		}
	}
	if err := t.drain(ctx); err != nil {
		return err
	}
	allocated, err := t.allocations(ctx)
	if err != nil {
		return err
	}
	cpu, err := t.cpu()
	if err != nil {
		return err
	}
	own := ownCPU()
	l, err := t.driver.burst(ctx, c.load)
	if err = failOnWrongReplies(l, err); err != nil {
		return err
	}
	w.generator += ownCPU() - own
	if err := t.drain(ctx); err != nil {
		return err
	}
	cpuAfter, err := t.cpu()
	if err != nil {
		return err
	}
	allocatedAfter, err := t.allocations(ctx)
	if err != nil {
		return err
	}
	sum := time.Duration(0)
	for kind, after := range cpuAfter {
		w.cpu[kind] += after - cpu[kind]
		sum += after - cpu[kind]
	}
	for kind, after := range allocatedAfter {
		w.allocated[kind] = w.allocated[kind].plus(after.since(allocated[kind]))
	}
	w.add(l, sum)
	return nil
}

// conclude computes the figures from the rounds.
func (c *ProcessCase) conclude() {
	direct := c.Ways[0]
	for _, w := range c.Ways {
		w.conclude()
	}
	for _, w := range c.Ways {
		w.Ratio, w.OfFirst, w.P50Ratio = w.over(&direct.Side), w.over(&c.Ways[1].Side), w.P50Us/direct.P50Us
		w.GeneratorMs = perOp(float64(w.generator.Microseconds()), w.ops)
		for _, kind := range append([]string{kindStorage}, partNames...) {
			cpu, ran := w.cpu[kind]
			if !ran {
				continue
			}
			a := w.allocated[kind]
			w.Costs = append(w.Costs, ProcessCost{Process: kind, CPUMs: perOp(float64(cpu.Microseconds()), w.ops),
				Allocations: perOp(float64(a.Objects), w.ops), AllocatedBytes: perOp(float64(a.Bytes), w.ops)})
		}
	}
}
