package bench

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// The names of systems that are compared.
const (
	wayDirect    = "Redis"
	wayLocal     = "one process"
	wayProcesses = "processes"
	wayMutualTLS = "mutual TLS"
	wayNear      = "near copies"
)

// way is a system to compare with Redis itself.
type way struct {
	name  string
	start func(ctx context.Context, binary, dir string) (*processes, error)
}

// throughParts is the parts of one data center, each a process, with Redis as their storage.
func throughParts(name string, spec processSpec) way {
	spec.topology, spec.redis = oneDataCenter(), true
	return way{name, func(ctx context.Context, binary, dir string) (*processes, error) {
		return startProcesses(ctx, binary, dir, spec)
	}}
}

// secured are the parts with mutual TLS and, if near is not 0, these with so many bytes of near copies.
func secured(spec processSpec, near int) []way {
	spec.tls = true
	ways := []way{throughParts(wayMutualTLS, spec)}
	if near > 0 {
		spec.nearBytes = near
		ways = append(ways, throughParts(wayNear, spec))
	}
	return ways
}

// contender is a system that takes turns with others.
type contender struct {
	name string
	*processes
	driver *driver // nil if the load comes from elsewhere
}

// contest is systems that take turns under the same load: a stock Redis, and what is compared with it.
type contest []*contender

// startContest starts Redis itself and the ways to compare with it. Those that run are also returned if one fails.
func startContest(ctx context.Context, s *Setup, dir string, ways []way) (c contest, err error) {
	stock := way{wayDirect, startRedis}
	for _, w := range append([]way{stock}, ways...) {
		p, err := w.start(ctx, s.Binary, filepath.Join(dir, fmt.Sprint(len(c))))
		if err != nil {
			return c, fmt.Errorf("start %s: %w", w.name, err)
		}
		c = append(c, &contender{name: w.name, processes: p})
	}
	return c, nil
}

// stop adds what fails to err.
func (c contest) stop(err error) error {
	for _, who := range c {
		if who.driver != nil {
			who.driver.close()
		}
		err = errors.Join(err, who.processes.stop())
	}
	return err
}

// sides returns an empty result for each contender.
func (c contest) sides() (sides []*Side) {
	for _, who := range c {
		sides = append(sides, newSide(who.name))
	}
	return sides
}

// addr is where clients connect to.
func (c *contender) addr() string { return c.sidecar(hereDC) }

// connect opens the connections of the load, and writes the keys that are read.
func (c *contender) connect(ctx context.Context, connections int, preload records) (err error) {
	if c.driver, err = dialDriver([]string{c.addr()}, connections, 1); err != nil {
		return err
	}
	return c.preload(ctx, c.driver, preload)
}

// preload writes all keys, and waits until the writes are complete.
func (p *processes) preload(ctx context.Context, d *driver, r records) error {
	if err := failOnWrongReplies(d.burst(ctx, burst{workload: workload{records: r, pipeline: 16}})); err != nil {
		return fmt.Errorf("preload keys: %w", err)
	}
	_, err := p.drain(ctx)
	return err
}

// Side is what was measured of one of the compared systems in one case.
type Side struct {
	Name       string `json:"way,omitempty"`
	Throughput spread `json:"throughput"` // operations per second
	// Ratio is the throughput of a round divided by that of the first system in the same round, and OfSecond divided by
	// that of the second. P50Ratio is that of the medians of the first system.
	Ratio    spread  `json:"ratio,omitzero"`
	OfSecond spread  `json:"ofSecond,omitzero"`
	P50Ratio float64 `json:"p50Ratio,omitzero"`
	P50Us    float64 `json:"p50Us"`
	P99Us    float64 `json:"p99Us"`
	// CPUUs is the CPU time of the servers per operation, over all threads, in microseconds. GeneratorUs is that of the
	// load generator, and Others how many processors all other processes of the machine used meanwhile.
	CPUUs       float64 `json:"cpuUs"`
	GeneratorUs float64 `json:"generatorCpuUs"`
	Others      float64 `json:"othersProcessors"`
	// Wrong counts replies other than a value or OK.
	Wrong int64 `json:"wrong"`
	// Costs are those of the servers, by kind of process.
	Costs []ProcessCost `json:"costs"`
	// Backlog is how many accepted writes were incomplete at the end of a round, and DrainMs how long they took to
	// complete.
	Backlog spread `json:"backlog"`
	DrainMs spread `json:"drainMs"`
	// ReadFrom is the share of the keys read that each session.Source has answered, by its name.
	ReadFrom map[string]float64 `json:"readFrom,omitempty"`

	rounds  []float64
	latency *hdrhistogram.Histogram
	ops     int64
	used    usage
	others  bystanders
}

// ProcessCost is what the processes of one kind use together.
type ProcessCost struct {
	Process string `json:"process"`
	// CPUUs is the CPU time per operation in microseconds.
	CPUUs float64 `json:"cpuUs"`
	// Allocations and AllocatedBytes are per operation, and Collections those of garbage; zero for programs that are
	// not Go.
	Allocations    float64 `json:"allocations"`
	AllocatedBytes float64 `json:"allocatedBytes"`
	Collections    int64   `json:"collections"`
	// Layers and Functions are where the CPU time goes, if the process was profiled.
	Layers    []share `json:"layers,omitempty"`
	Functions []share `json:"functions,omitempty"`
}

func newSide(name string) *Side { return &Side{Name: name, latency: newLatency(), used: newUsage()} }

// measure runs one round of load on a system while the others wait.
func (s *Side) measure(ctx context.Context, p *processes, others contest, load func() (burstResult, error)) error {
	pids := p.pids()
	for _, who := range others {
		if who.processes != p {
			pids = append(pids, who.pids()...)
		}
	}
	var l burstResult
	if err := s.used.measure(ctx, p, func() error {
		before, err := loadOf(pids)
		if err != nil {
			return err
		}
		if l, err = load(); err != nil {
			return err
		}
		after, err := loadOf(pids)
		s.others.add(before, after)
		return err
	}); err != nil {
		return err
	}
	s.rounds = append(s.rounds, l.Throughput())
	s.latency.Merge(l.Latency)
	s.ops += l.Ops
	s.Wrong += l.Wrong
	return nil
}

// conclude computes the figures from the rounds.
func (s *Side) conclude() {
	s.Throughput = spreadOf(s.rounds)
	s.P50Us, s.P99Us = float64(s.latency.ValueAtQuantile(50))/1e3, float64(s.latency.ValueAtQuantile(99))/1e3
	s.Costs = s.used.costs(s.ops)
	for _, c := range s.Costs {
		s.CPUUs += c.CPUUs
	}
	s.GeneratorUs, s.Others = perOp(float64(s.used.generator.Microseconds()), s.ops), s.others.processors()
	s.Backlog, s.DrainMs, s.ReadFrom = spreadOf(s.used.backlogs), spreadOf(s.used.drains), sharesOf(s.used.readFrom)
}

// concludeAll computes the figures of all sides of a case.
func concludeAll(sides []*Side) {
	for _, s := range sides {
		s.conclude()
		s.compare(sides)
	}
}

func (s *Side) compare(sides []*Side) {
	s.Ratio, s.P50Ratio = s.over(sides[0]), s.P50Us/sides[0].P50Us
	if len(sides) > 2 {
		s.OfSecond = s.over(sides[1])
	}
}

// over returns the throughput of each round divided by that of another side in the same round.
func (s *Side) over(other *Side) spread {
	var ratios []float64
	for i, theirs := range other.rounds {
		ratios = append(ratios, s.rounds[i]/theirs)
	}
	return spreadOf(ratios)
}

// cost returns the cost of a kind of process, if there was one.
func (s *Side) cost(kind string) (c ProcessCost, measured bool) {
	i := slices.IndexFunc(s.Costs, func(c ProcessCost) bool { return c.Process == kind })
	if i < 0 {
		return c, false
	}
	return s.Costs[i], true
}

func perOp(v float64, ops int64) float64 { return v / float64(max(ops, 1)) }

// shortWarmUp is the length of a warm-up without measurement before a round.
func shortWarmUp(round time.Duration) time.Duration { return max(round/10, 20*time.Millisecond) }
