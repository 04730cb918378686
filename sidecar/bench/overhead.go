package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// OverheadOptions say how long and how hard to measure.
type OverheadOptions struct {
	// Binary is the causalstore program.
	Binary string
	// Dir is where both servers keep their data: on the disk that is to be measured.
	Dir string
	// Each of Rounds measures every case once directly and once through the data plane, for Length each.
	Rounds int
	Length time.Duration
	// Profile is how long each case is profiled after that; 0 leaves profiles out.
	Profile     time.Duration
	Connections int
	Pipelines   []int
	Keys        int
	ValueBytes  int
	// Cases, if not empty, are the only commands measured: GET, SET.
	Cases []string
	// Profiles, if not empty, is a folder that the CPU profiles are kept in.
	Profiles string
	// Progress is told what is being done; it may be nil.
	Progress io.Writer
}

// Side is one of the two compared systems in one case.
type Side struct {
	Throughput spread  `json:"throughput"` // operations a second
	P50Us      float64 `json:"p50Us"`
	P99Us      float64 `json:"p99Us"`
	// CPUUs is what the servers used for an operation, all threads together, in microseconds.
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
	// Ratio is the throughput of a round through the data plane by that of the direct one just before.
	Ratio     spread  `json:"ratio"`
	RatioGoal goal    `json:"ratioGoal"`
	P50Ratio  float64 `json:"p50Ratio"`
	P50Goal   goal    `json:"p50Goal"`
	// StorageCPUUs is the part of Through.CPUUs that the storage used.
	StorageCPUUs float64 `json:"storageCpuUs"`
	GeneratorUs  float64 `json:"generatorCpuUs"`
	// Others is how many processors everything else on the machine took while this was measured.
	Others float64 `json:"othersProcessors"`
	// Allocations are the data plane's, per operation.
	Allocations    float64 `json:"allocationsPerOp"`
	AllocatedBytes float64 `json:"allocatedBytesPerOp"`
	Collections    int64   `json:"collections"`
	// Hits is the share of GETs that the cache answered.
	Hits float64 `json:"cacheHits"`
	// Backlog is how many accepted writes were not complete at the end of a round, and DrainMs how long that took.
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

// Overhead is what the data plane costs over the storage itself.
type Overhead struct {
	Machine     string  `json:"machine"`
	Connections int     `json:"connections"`
	Keys        int     `json:"keys"`
	ValueBytes  int     `json:"valueBytes"`
	Rounds      int     `json:"rounds"`
	Seconds     float64 `json:"secondsPerRound"`
	Cases       []*Case `json:"cases"`
}

// The ways through which requests go.
const (
	direct = iota
	through
)

// overheadRun is what the rounds share.
type overheadRun struct {
	o       OverheadOptions
	redis   *stockRedis
	plane   *deployment
	storage []int // processes under the data plane
	sides   [2]*generator
}

// MeasureOverhead compares a stock Redis with the same Redis behind sidecar, cache, coordinator and middleman of one data
// centre. Both sync every write to the same disk before they acknowledge it.
func MeasureOverhead(ctx context.Context, o OverheadOptions) (*Overhead, error) {
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return nil, err
	}
	if dir, err = os.MkdirTemp(dir, "causalstore-bench-"); err != nil {
		return nil, fmt.Errorf("make a folder for the data: %w", err)
	}
	defer os.RemoveAll(dir)
	r := &overheadRun{o: o}
	defer r.close()
	if err := r.start(ctx, dir); err != nil {
		return nil, err
	}
	res := &Overhead{Machine: machine(), Connections: o.Connections, Keys: o.Keys, ValueBytes: o.ValueBytes, Rounds: o.Rounds,
		Seconds: o.Length.Seconds(), Cases: r.cases()}
	for round := range o.Rounds {
		for _, c := range res.Cases {
			say(o.Progress, "round %d of %d: %s, pipeline %d", round+1, o.Rounds, c.Command, c.Pipeline)
			if err := r.compare(ctx, c); err != nil {
				return nil, fmt.Errorf("%s at pipeline %d: %w", c.Command, c.Pipeline, err)
			}
		}
	}
	for _, c := range res.Cases {
		if o.Profile > 0 {
			say(o.Progress, "profile: %s, pipeline %d", c.Command, c.Pipeline)
			if err := r.profile(ctx, c); err != nil {
				return nil, fmt.Errorf("profile %s at pipeline %d: %w", c.Command, c.Pipeline, err)
			}
		}
		c.conclude()
	}
	return res, nil
}

func machine() string {
	return fmt.Sprintf("%d CPUs (%s), %s/%s, %s", runtime.NumCPU(), cpuModel(), runtime.GOOS, runtime.GOARCH, runtime.Version())
}

func (r *overheadRun) start(ctx context.Context, dir string) (err error) {
	if r.redis, err = startRedis(ctx, filepath.Join(dir, "direct")); err != nil {
		return err
	}
	if r.plane, err = startOneDC(ctx, r.o.Binary, filepath.Join(dir, "plane"), "--storage", "redis"); err != nil {
		return err
	}
	r.storage = childrenOf(r.plane.pid())
	for side, addr := range []string{r.redis.addr, r.plane.DataCenters[0].RESP} {
		if r.sides[side], err = dialGenerator(addr, r.o.Connections); err != nil {
			return err
		}
		if _, err := r.burst(ctx, side, burst{frames: setFrames("get:", r.o.Keys, r.o.ValueBytes), pipeline: 16}); err != nil {
			return fmt.Errorf("load keys: %w", err)
		}
	}
	_, _, err = r.plane.drain(ctx)
	return err
}

func (r *overheadRun) close() {
	for _, g := range r.sides {
		if g != nil {
			g.close()
		}
	}
	if r.plane != nil {
		_ = r.plane.stop() // the data is thrown away
	}
	if r.redis != nil {
		_ = r.redis.stop()
	}
}

// cases returns the cases to measure. GETs have keys of their own, which nobody writes, so that all of them can be hits.
func (r *overheadRun) cases() []*Case {
	var cases []*Case
	for _, command := range []string{"GET", "SET"} {
		if !r.o.measures(command) {
			continue
		}
		for _, pipeline := range r.o.Pipelines {
			c := &Case{Command: command, Pipeline: pipeline, load: burst{pipeline: pipeline, duration: r.o.Length}}
			if command == "GET" {
				c.load.frames, c.warm = getFrames("get:", r.o.Keys), true
				c.RatioGoal, c.P50Goal = goal{Least: 0.7}, goal{Most: 1.5}
				if pipeline == 1 {
					c.RatioGoal = goal{Least: 0.9}
				}
			} else {
				c.load.frames = setFrames("set:", r.o.Keys, r.o.ValueBytes)
				c.RatioGoal, c.P50Goal = goal{Least: 1}, goal{Most: 1.5}
			}
			for _, s := range []*Side{&c.Direct, &c.Through} {
				s.latency = newLatency()
			}
			cases = append(cases, c)
		}
	}
	return cases
}

func (o OverheadOptions) measures(command string) bool {
	for _, c := range o.Cases {
		if c == command {
			return true
		}
	}
	return len(o.Cases) == 0
}

// burst runs load against one side; replies that are none fail it.
func (r *overheadRun) burst(ctx context.Context, side int, b burst) (measured, error) {
	l, err := r.sides[side].run(ctx, b)
	if err == nil && l.Ops == 0 {
		err = errors.New("no operation was finished")
	}
	if err == nil && l.Wrong > l.Ops/10 {
		err = fmt.Errorf("%d of %d replies are wrong, such as %q", l.Wrong, l.Ops, l.Example)
	}
	return l, err
}

// compare measures a case once on each side.
func (r *overheadRun) compare(ctx context.Context, c *Case) error {
	if err := r.measureDirect(ctx, c); err != nil {
		return fmt.Errorf("directly: %w", err)
	}
	if err := r.measureThrough(ctx, c); err != nil {
		return fmt.Errorf("through the data plane: %w", err)
	}
	return nil
}

// warmUp runs the case for a moment, so that caches are filled and leases run, and rounds begin alike.
func (r *overheadRun) warmUp(ctx context.Context, side int, c *Case) error {
	b := c.load
	if c.warm {
		b.duration, b.pipeline = 0, 16
		if _, err := r.burst(ctx, side, b); err != nil {
			return err
		}
	}
	b = c.load
	b.duration = max(c.load.duration/10, 20*time.Millisecond)
	_, err := r.burst(ctx, side, b)
	return err
}

// watch runs the burst of a case on one side, and notes what everything else on the machine used meanwhile.
func (r *overheadRun) watch(ctx context.Context, side int, c *Case) (measured, error) {
	used := func() (busy, ours time.Duration, err error) {
		busy, err1 := busyTime()
		redis, err2 := cpuTime(r.redis.pid())
		plane, storage, err3 := r.planeCPU()
		return busy, redis + plane + storage + ownCPU(), errors.Join(err1, err2, err3)
	}
	busy, ours, err := used()
	if err != nil {
		return measured{}, err
	}
	l, err := r.burst(ctx, side, c.load)
	if err != nil {
		return l, err
	}
	busyAfter, oursAfter, err := used()
	c.others += max(0, busyAfter-busy-(oursAfter-ours))
	c.watched += l.Elapsed
	return l, err
}

func (r *overheadRun) measureDirect(ctx context.Context, c *Case) error {
	if err := r.warmUp(ctx, direct, c); err != nil {
		return err
	}
	before, err := cpuTime(r.redis.pid())
	if err != nil {
		return err
	}
	l, err := r.watch(ctx, direct, c)
	if err != nil {
		return err
	}
	after, err := cpuTime(r.redis.pid())
	c.Direct.add(l, after-before)
	return err
}

func (r *overheadRun) measureThrough(ctx context.Context, c *Case) error {
	if err := r.warmUp(ctx, through, c); err != nil {
		return err
	}
	stats, err := r.plane.state(ctx)
	if err != nil {
		return err
	}
	allocated, err := r.plane.allocations(ctx)
	if err != nil {
		return err
	}
	plane, storage, err := r.planeCPU()
	if err != nil {
		return err
	}
	own := ownCPU()
	l, err := r.watch(ctx, through, c)
	if err != nil {
		return err
	}
	c.generator += ownCPU() - own
	backlog, took, err := r.plane.drain(ctx)
	if err != nil {
		return err
	}
	// What writes cost after their acknowledgement is theirs too: CPU and allocations are read when all is drained.
	planeAfter, storageAfter, err := r.planeCPU()
	if err != nil {
		return err
	}
	allocatedAfter, err := r.plane.allocations(ctx)
	if err != nil {
		return err
	}
	c.Through.add(l, planeAfter-plane+storageAfter-storage)
	c.storage += storageAfter - storage
	a := allocatedAfter.since(allocated)
	c.allocated.Objects, c.allocated.Bytes = c.allocated.Objects+a.Objects, c.allocated.Bytes+a.Bytes
	c.Collections += a.Collections
	c.backlogs, c.drains = append(c.backlogs, float64(backlog)), append(c.drains, float64(took.Microseconds())/1e3)
	statsAfter, err := r.plane.state(ctx)
	if err != nil {
		return err
	}
	s, e := stats.DataCenters[0].Sidecar, statsAfter.DataCenters[0].Sidecar
	c.gets, c.hits = c.gets+e.Gets-s.Gets, c.hits+e.CacheHits-s.CacheHits
	return nil
}

// planeCPU returns the CPU time of the data plane and of the storage under it.
func (r *overheadRun) planeCPU() (plane, storage time.Duration, err error) {
	plane, err = cpuTime(r.plane.pid())
	for _, pid := range r.storage {
		cpu, e := cpuTime(pid)
		storage, err = storage+cpu, errors.Join(err, e)
	}
	return plane, storage, err
}

// profile takes a CPU profile of the data plane under the load of a case. It is not measured meanwhile.
func (r *overheadRun) profile(ctx context.Context, c *Case) error {
	if err := r.warmUp(ctx, through, c); err != nil {
		return err
	}
	b := c.load
	b.duration = r.o.Profile + 100*time.Millisecond
	failed := make(chan error, 1)
	go func() {
		_, err := r.burst(ctx, through, b)
		failed <- err
	}()
	raw, err := r.plane.profile(ctx, r.o.Profile)
	if err = errors.Join(err, <-failed); err != nil {
		return err
	}
	if r.o.Profiles != "" {
		name := filepath.Join(r.o.Profiles, fmt.Sprintf("%s-%d.pprof", c.Command, c.Pipeline))
		if err := os.WriteFile(name, raw, 0o644); err != nil {
			return fmt.Errorf("keep the profile: %w", err)
		}
	}
	stacks, err := parseProfile(raw)
	if err != nil {
		return err
	}
	c.Layers, c.Leaves, _ = shares(stacks, 12)
	_, _, err = r.plane.drain(ctx)
	return err
}

func (s *Side) add(l measured, cpu time.Duration) {
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

func perOp(v float64, ops int64) float64 { return v / float64(max(ops, 1)) }

// conclude turns what the rounds have measured into figures.
func (c *Case) conclude() {
	c.Direct.conclude()
	c.Through.conclude()
	var ratios []float64
	for i, d := range c.Direct.rounds {
		ratios = append(ratios, c.Through.rounds[i]/d)
	}
	c.Ratio, c.P50Ratio = spreadOf(ratios), c.Through.P50Us/c.Direct.P50Us
	ops := c.Through.ops
	c.StorageCPUUs, c.GeneratorUs = perOp(float64(c.storage.Microseconds()), ops), perOp(float64(c.generator.Microseconds()), ops)
	c.Allocations, c.AllocatedBytes = perOp(float64(c.allocated.Objects), ops), perOp(float64(c.allocated.Bytes), ops)
	c.Others = c.others.Seconds() / max(c.watched.Seconds(), 1e-9)
	c.Hits = float64(c.hits) / float64(max(c.gets, 1))
	c.Backlog, c.DrainMs = spreadOf(c.backlogs), spreadOf(c.drains)
}
