package bench

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Side is one of the two compared systems in one case.
type Side struct {
	Throughput spread  `json:"throughput"` // operations per second
	P50Us      float64 `json:"p50Us"`
	P99Us      float64 `json:"p99Us"`
	// CPUUs is the CPU time of the servers per operation, over all threads, in microseconds.
	CPUUs float64 `json:"cpuUs"`
	// Wrong counts replies other than a value or OK.
	Wrong int64 `json:"wrong"`

	rounds  []float64
	latency *hdrhistogram.Histogram
	cpu     time.Duration
	ops     int64
}

// Case is one command at one pipeline depth.
type Case struct {
	Command  string `json:"command"`
	Pipeline int    `json:"pipeline"`
	Direct   Side   `json:"direct"`
	Through  Side   `json:"through"`
	// Ratio is the throughput of a round through the data plane divided by that of the direct round before it.
	Ratio     spread  `json:"ratio"`
	RatioGoal goal    `json:"ratioGoal"`
	P50Ratio  float64 `json:"p50Ratio"`
	P50Goal   goal    `json:"p50Goal"`
	// StorageCPUUs is the storage's part of Through.CPUUs.
	StorageCPUUs float64 `json:"storageCpuUs"`
	GeneratorUs  float64 `json:"generatorCpuUs"`
	// Others is how many processors all other processes of the machine used during the measurement.
	Others float64 `json:"othersProcessors"`
	// Allocations are those of the data plane, per operation.
	Allocations    float64 `json:"allocationsPerOp"`
	AllocatedBytes float64 `json:"allocatedBytesPerOp"`
	Collections    int64   `json:"collections"`
	// Hits is the share of GETs that the cache answered.
	Hits float64 `json:"cacheHits"`
	// Backlog is how many accepted writes were incomplete at the end of a round, and DrainMs how long they took to
	// complete.
	Backlog spread  `json:"backlog"`
	DrainMs spread  `json:"drainMs"`
	Layers  []share `json:"layers,omitempty"`
	Leaves  []share `json:"functions,omitempty"`
	Error   string  `json:"error,omitempty"`

	backlogs, drains []float64
	load             burst
	warm             bool
	generator        time.Duration
	storage          time.Duration
	others, watched  time.Duration
	allocated        allocations
	gets, hits       uint64
}

// Overhead is the cost of the data plane over the storage itself.
type Overhead struct {
	Machine     string  `json:"machine"`
	Connections int     `json:"connections"`
	Keys        int     `json:"keys"`
	ValueBytes  int     `json:"valueBytes"`
	Rounds      int     `json:"rounds"`
	Seconds     float64 `json:"secondsPerRound"`
	Cases       []*Case `json:"cases"`
}

func (s *Side) add(l burstResult, cpu time.Duration) {
	s.rounds = append(s.rounds, l.Throughput())
	s.latency.Merge(l.Latency)
	s.cpu += cpu
	s.ops += l.Ops
	s.Wrong += l.Wrong
}

func (s *Side) conclude() {
	s.Throughput = spreadOf(s.rounds)
	s.P50Us, s.P99Us = float64(s.latency.ValueAtQuantile(50))/1e3, float64(s.latency.ValueAtQuantile(99))/1e3
	s.CPUUs = perOp(float64(s.cpu.Microseconds()), s.ops)
}

// over returns the throughput of each round divided by that of another side in the same round.
func (s *Side) over(other *Side) spread {
	var ratios []float64
	for i, theirs := range other.rounds {
		ratios = append(ratios, s.rounds[i]/theirs)
	}
	return spreadOf(ratios)
}

func perOp(v float64, ops int64) float64 { return v / float64(max(ops, 1)) }

// conclude computes the figures from the rounds.
func (c *Case) conclude() {
	c.Direct.conclude()
	c.Through.conclude()
	c.Ratio, c.P50Ratio = c.Through.over(&c.Direct), c.Through.P50Us/c.Direct.P50Us
	ops := c.Through.ops
	c.StorageCPUUs, c.GeneratorUs = perOp(float64(c.storage.Microseconds()), ops),
		perOp(float64(c.generator.Microseconds()), ops)
	c.Allocations, c.AllocatedBytes = perOp(float64(c.allocated.Objects), ops), perOp(float64(c.allocated.Bytes), ops)
	c.Others = c.others.Seconds() / max(c.watched.Seconds(), 1e-9)
	c.Hits = float64(c.hits) / float64(max(c.gets, 1))
	c.Backlog, c.DrainMs = spreadOf(c.backlogs), spreadOf(c.drains)
}
