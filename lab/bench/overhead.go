package bench

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"time"
)

// OverheadOptions describe how long and how hard to measure.
type OverheadOptions struct {
	// Binary is the causalstore program.
	Binary string
	// Dir is where both servers keep their data: it decides which disk is measured.
	Dir string
	// Each of Rounds measures every case once directly and once through the data plane, for Length each.
	Rounds int
	Length time.Duration
	// Profile is how long each case is profiled after the rounds; 0 takes no profiles.
	Profile     time.Duration
	Connections int
	Pipelines   []int
	Keys        int
	ValueBytes  int
	// Cases, if not empty, are the only commands measured: GET, SET.
	Cases []string
	// Members, if not empty, are the numbers of members of each coordinator to compare, as processes with mutual TLS.
	// More than one need the program Etcd.
	Members []int
	Etcd    string
	// NearBytes, if not 0, compares processes with mutual TLS without near copies and with so many bytes of them in
	// each sidecar.
	NearBytes int
	// Profiles, if not empty, is the directory to keep the CPU profiles in.
	Profiles string
	// Progress receives a line per step; nil receives none.
	Progress io.Writer
}

// The two sides.
const (
	direct = iota
	through
)

// overheadRun is the state that the rounds share.
type overheadRun struct {
	o       OverheadOptions
	redis   *stockRedis
	plane   *deployment
	storage []int // pids below the data plane
	sides   [2]*driver
}

// MeasureOverhead compares a stock Redis with the same Redis behind the sidecar, cache, coordinator and middleman of
// one data center. Both sync every write to the same disk before they acknowledge it.
func MeasureOverhead(ctx context.Context, o OverheadOptions) (*Overhead, error) {
	dir, err := makeDataDir(o.Dir)
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	r := &overheadRun{o: o}
	defer r.close()
	if err := r.start(ctx, dir); err != nil {
		return nil, err
	}
	res := &Overhead{Machine: machine(), Connections: o.Connections, Keys: o.Keys, ValueBytes: o.ValueBytes,
		Rounds:  o.Rounds,
		Seconds: o.Length.Seconds(), Cases: r.cases()}
	for round := range o.Rounds {
		for _, c := range res.Cases {
			reportProgress(o.Progress, "round %d of %d: %s, pipeline %d", round+1, o.Rounds, c.Command, c.Pipeline)
			if err := r.compare(ctx, c); err != nil {
				return nil, fmt.Errorf("%s at pipeline %d: %w", c.Command, c.Pipeline, err)
			}
		}
	}
	for _, c := range res.Cases {
		if o.Profile > 0 {
			reportProgress(o.Progress, "profile: %s, pipeline %d", c.Command, c.Pipeline)
			if err := r.profile(ctx, c); err != nil {
				return nil, fmt.Errorf("profile %s at pipeline %d: %w", c.Command, c.Pipeline, err)
			}
		}
		c.conclude()
	}
	return res, nil
}

func machine() string {
	return fmt.Sprintf("%d CPUs (%s), %s/%s, %s", runtime.NumCPU(), cpuModel(), runtime.GOOS, runtime.GOARCH,
		runtime.Version())
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
		if r.sides[side], err = dialDriver([]string{addr}, r.o.Connections, 1); err != nil {
			return err
		}
		if _, err := r.burst(ctx, side,
			burst{workload: workload{records: prefixed("get:", r.o.Keys, r.o.ValueBytes), pipeline: 16}}); err != nil {
			return fmt.Errorf("preload keys: %w", err)
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
		_ = r.plane.stop() // the data is discarded
	}
	if r.redis != nil {
		_ = r.redis.stop()
	}
}

// cases returns the cases to measure. GETs use keys that nobody writes, so that all of them can be cache hits.
func (r *overheadRun) cases() []*Case {
	var cases []*Case
	for _, command := range []string{"GET", "SET"} {
		if !r.o.measures(command) {
			continue
		}
		for _, pipeline := range r.o.Pipelines {
			c := &Case{Command: command, Pipeline: pipeline,
				load: burst{workload: workload{pipeline: pipeline}, duration: r.o.Length}}
			if command == "GET" {
				c.load.records, c.load.reads, c.warm = prefixed("get:", r.o.Keys, r.o.ValueBytes), 1, true
				c.RatioGoal, c.P50Goal = goal{Least: 0.7}, goal{Most: 1.5}
				if pipeline == 1 {
					c.RatioGoal = goal{Least: 0.9}
				}
			} else {
				c.load.records = prefixed("set:", r.o.Keys, r.o.ValueBytes)
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
