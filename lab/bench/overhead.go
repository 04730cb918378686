package bench

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/topology"
)

// OverheadOptions describe how long and how hard to measure.
type OverheadOptions struct {
	Setup
	// Processes runs each part as a process of its own, without and with mutual TLS.
	Processes bool
	// Each of Rounds measures every case once on each system, for Length each.
	Rounds int
	Length time.Duration
	// Profile is how long each case is profiled after the rounds; 0 takes no profiles. Profiles, if not empty, is the
	// directory to keep them in.
	Profile     time.Duration
	Profiles    string
	Connections int
	Pipelines   []int
	Keys        int
	ValueBytes  int
	// Cases, if not empty, are the only commands measured: get, set.
	Cases []string
	// Members, if not empty, are the numbers of members of each coordinator to compare, as processes with mutual TLS.
	// More than one need the program Etcd.
	Members []int
	Etcd    string
	// NearBytes, if not 0, compares processes with mutual TLS without near copies and with so many bytes of them in
	// each sidecar.
	NearBytes int
	// Scopes, if not empty, compares these scopes of sessions, as processes with mutual TLS.
	Scopes []string
}

// FullOverhead returns the options of a full run.
func FullOverhead() *OverheadOptions {
	return &OverheadOptions{Rounds: 5, Length: 3 * time.Second, Profile: 3 * time.Second, Connections: 50,
		Pipelines: []int{1, 16}, Keys: 10000, ValueBytes: 200, Etcd: "etcd"}
}

func (o *OverheadOptions) experiment() *Experiment {
	return &Experiment{
		Name:  "overhead",
		Short: "Compare a stock Redis with the same Redis behind the data plane of one data center",
		Long: `Runs the same closed-loop load in turn against a stock redis-server, and against
a deployment of one data center that uses another redis-server as its storage: GETs that the cache
answers, and SETs that are synced to disk before they are acknowledged. Requires redis-server and
Linux.

The deployment is one process. With --processes, each of its parts is a process of its own, as in
production, once without and once with mutual TLS between them; values then have 1 KiB unless
--value-bytes is given, and profiles are taken only if --profile is given, of each process of the
last deployment. With --members 1,2,3 as well, what is compared is how many members hold the log of
the coordinator, with mutual TLS; more than one need the program etcd. With --near-copies BYTES
instead, it is the sidecar without and with near copies, with mutual TLS; with
--session-scopes pod,datacenter, sessions of different scopes, with mutual TLS, and with both,
each scope without and with near copies.`,
		quick:   "measure three rounds of one second each, in less than a minute",
		quickly: map[string]string{"seconds": "1", "rounds": "3", "profile": "1s"},
		setup:   &o.Setup, declare: o.declare, measure: measuring(o.Measure),
	}
}

func (o *OverheadOptions) declare(f *flags) {
	f.in(time.Second, &o.Length, "seconds", "length of each round of a case on one side")
	f.count(&o.Rounds, "rounds", "rounds of each case on each side")
	f.count(&o.Connections, "connections", "number of client connections")
	f.IntSliceVar(&o.Pipelines, "pipelines", o.Pipelines, "pipeline depths to measure")
	f.count(&o.Keys, "keys", "number of keys")
	f.count(&o.ValueBytes, "value-bytes", "size of values in bytes")
	f.StringSliceVar(&o.Cases, "cases", nil, "commands to measure: get, set, incr, and mget and mset "+
		"of 10 keys (default get, set)")
	f.DurationVar(&o.Profile, "profile", o.Profile, "length of the CPU profile of each case; 0 takes none")
	f.StringVar(&o.Profiles, "profiles", "", "directory to write the CPU profiles to")
	f.BoolVar(&o.Processes, "processes", false, "run each part as a process of its own, without and with mutual TLS")
	f.IntSliceVar(&o.Members, "members", nil, "with --processes, the numbers of members of the coordinator to compare")
	f.StringVar(&o.Etcd, "etcd", o.Etcd, "the program etcd, for more than one member")
	f.nearCopies(&o.NearBytes, 0, "with --processes, bytes of near copies of each sidecar, to compare with none")
	f.StringSliceVar(&o.Scopes, "session-scopes", nil, "with --processes, the scopes of sessions to compare")
	f.positive("seconds", "pipelines")
	f.notNegative("profile")
	f.between(1, topology.MaxMembers, "members")
	f.oneOf([]string{"get", "set", "incr", "mget", "mset"}, "cases")
	f.oneOf([]string{string(contract.ScopePod), string(contract.ScopeConnection), string(contract.ScopeDataCenter)},
		"session-scopes")
	f.must(func() error {
		alternatives := 0
		for _, given := range []bool{len(o.Members) > 0, o.NearBytes != 0 || len(o.Scopes) > 0} {
			if given {
				alternatives++
			}
		}
		switch {
		case alternatives > 1:
			return errors.New("--members; --near-copies and --session-scopes: give one or the other")
		case o.Processes:
			if f.Lookup("profile").Changed { // --quick has another default
				return f.unlessGiven("value-bytes", "1024")
			}
			return errors.Join(f.unlessGiven("value-bytes", "1024"), f.unlessGiven("profile", "0"))
		case alternatives > 0:
			return errors.New("--members, --near-copies and --session-scopes need --processes")
		}
		return nil
	})
	f.must(func() error {
		if o.Profiles != "" && o.Profile == 0 {
			return errors.New("--profiles: nothing is profiled; give --profile 3s as well")
		}
		return nil
	})
}

// ways are the systems to compare with Redis itself.
func (o *OverheadOptions) ways() (ways []way) {
	switch {
	case !o.Processes:
		return []way{{wayLocal, startLocal}}
	case len(o.Scopes) > 0:
		for _, scope := range o.Scopes {
			for _, w := range secured(processSpec{scope: contract.Scope(scope)}, o.NearBytes) {
				if w.name == wayNear {
					w.name = "scope " + scope + ", near copies"
				} else {
					w.name = "scope " + scope
				}
				ways = append(ways, w)
			}
		}
		return ways
	case o.NearBytes > 0:
		return secured(processSpec{}, o.NearBytes)
	case len(o.Members) == 0:
		return append([]way{throughParts(wayProcesses, processSpec{})}, secured(processSpec{}, 0)...)
	}
	for _, n := range o.Members {
		name := fmt.Sprintf("%d members", n)
		if n == 1 {
			name = "1 member"
		}
		ways = append(ways, throughParts(name, processSpec{tls: true, groupMembers: n, etcd: o.Etcd}))
	}
	return ways
}

// Overhead is the cost of the data plane over the storage itself.
type Overhead struct {
	Origin
	Connections int     `json:"connections"`
	Keys        int     `json:"keys"`
	ValueBytes  int     `json:"valueBytes"`
	Rounds      int     `json:"rounds"`
	Seconds     float64 `json:"secondsPerRound"`
	Cases       []*Case `json:"cases"`
}

// Case is one command at one pipeline depth.
type Case struct {
	Command  string  `json:"command"`
	Pipeline int     `json:"pipeline"`
	Ways     []*Side `json:"ways"`
	// The goals are those of a data plane in one process.
	RatioGoal goal `json:"ratioGoal,omitzero"`
	P50Goal   goal `json:"p50Goal,omitzero"`

	load burst
}

// Measure compares a stock Redis with the same Redis behind the sidecar, cache, coordinator and middleman of one data
// center. All sync every write to the same disk before they acknowledge it.
func (o *OverheadOptions) Measure(ctx context.Context) (res *Overhead, err error) {
	err = o.withDataDir(func(dir string) (err error) {
		all, err := startContest(ctx, &o.Setup, dir, o.ways())
		defer func() { err = all.stop(err) }()
		for _, who := range all {
			if err == nil {
				err = who.connect(ctx, o.Connections, prefixed("get:", o.Keys, o.ValueBytes))
			}
		}
		if err != nil {
			return err
		}
		res = &Overhead{Origin: o.origin(), Connections: o.Connections, Keys: o.Keys, ValueBytes: o.ValueBytes,
			Rounds: o.Rounds, Seconds: o.Length.Seconds(), Cases: o.cases(all)}
		return o.compare(ctx, res.Cases, all)
	})
	return res, err
}

// cases returns the cases to measure. GETs use keys that nobody writes, so that all of them can be cache hits.
func (o *OverheadOptions) cases(all contest) (cases []*Case) {
	commands := o.Cases
	if len(commands) == 0 {
		commands = []string{"get", "set"}
	}
	for _, command := range commands {
		command = strings.ToUpper(command)
		for _, pipeline := range o.Pipelines {
			c := &Case{Command: command, Pipeline: pipeline, Ways: all.sides(),
				load: burst{workload: workload{pipeline: pipeline}, duration: o.Length}}
			c.load.records = prefixed("set:", o.Keys, o.ValueBytes)
			c.RatioGoal, c.P50Goal = goal{Least: 1}, goal{Most: 1.5}
			c.load.command = otherCommands[command]
			switch command {
			case "INCR":
				c.load.records = prefixed("count:", o.Keys, 0)
			case "GET", "MGET":
				c.load.records, c.load.reads, c.RatioGoal = prefixed("get:", o.Keys, o.ValueBytes), 1, goal{Least: 0.7}
				if pipeline == 1 {
					c.RatioGoal = goal{Least: 0.9}
				}
			}
			if o.Processes {
				c.RatioGoal, c.P50Goal = goal{}, goal{}
			}
			cases = append(cases, c)
		}
	}
	return cases
}

// compare measures all cases in all rounds, and then takes profiles of the last system.
func (o *OverheadOptions) compare(ctx context.Context, cases []*Case, all contest) error {
	for round := range o.Rounds {
		for _, c := range cases {
			o.progress("round %d of %d: %s", round+1, o.Rounds, c.name())
			for i, who := range all {
				if err := c.measure(ctx, c.Ways[i], who, all); err != nil {
					return fmt.Errorf("%s, %s: %w", c.name(), who.name, err)
				}
			}
		}
	}
	last := len(all) - 1
	for _, c := range cases {
		concludeAll(c.Ways)
		if o.Profile == 0 {
			continue
		}
		o.progress("profile: %s", c.name())
		if err := c.profile(ctx, c.Ways[last], all[last], o.Profile, o.Profiles); err != nil {
			return fmt.Errorf("profile %s: %w", c.name(), err)
		}
	}
	return nil
}

func (c *Case) name() string { return fmt.Sprintf("%s, pipeline %d", c.Command, c.Pipeline) }

// measure runs one round of a case on one system.
func (c *Case) measure(ctx context.Context, s *Side, who *contender, all contest) error {
	warm := c.load
	warm.duration = shortWarmUp(c.load.duration)
	if _, err := who.driver.burst(ctx, warm); err != nil {
		return err
	}
	if c.load.reads == 1 { // every key, so that all rounds start with full caches and valid leases
		warm.duration, warm.pipeline, warm.command = 0, 16, nil
		if err := failOnWrongReplies(who.driver.burst(ctx, warm)); err != nil {
			return err
		}
	}
	if _, err := who.drain(ctx); err != nil {
		return err
	}
	return s.measure(ctx, who.processes, all, func() (burstResult, error) {
		l, err := who.driver.burst(ctx, c.load)
		return l, failOnWrongReplies(l, err)
	})
}

// profile takes a CPU profile of each process of a system under the load of a case, and keeps the profiles in a
// directory, as <command>-<pipeline>-<process>.pprof. Nothing is measured meanwhile.
func (c *Case) profile(ctx context.Context, s *Side, who *contender, length time.Duration, dir string) error {
	load := c.load
	load.duration = length + 100*time.Millisecond
	failed := make(chan error, 1)
	go func() {
		_, err := who.driver.burst(ctx, load)
		failed <- err
	}()
	profiles, err := who.profiles(ctx, length)
	if err = errors.Join(err, <-failed); err != nil {
		return err
	}
	for i, p := range s.Costs {
		raw, taken := profiles[p.Process]
		if !taken { // it is not a program in Go
			continue
		}
		stacks, err := keepProfile(raw, dir, fmt.Sprintf("%s-%d-%s", c.Command, c.Pipeline, p.Process))
		if err != nil {
			return err
		}
		s.Costs[i].Layers, s.Costs[i].Functions, _ = shares(stacks, 12)
	}
	_, err = who.drain(ctx)
	return err
}

// Report has the figures beside the goals.
func (r *Overhead) Report() *Report {
	speed := &table{title: "Throughput and latency", head: []string{"case", "way", "ops/s", "ratio",
		"of " + r.Cases[0].Ways[1].Name, "goal", "", "p50 us", "p99 us", "p50 ratio", "goal", "",
		"CPU us/op", "clients us/op", "wrong replies", "others' CPUs"}}
	cost := &table{title: "CPU time in microseconds, allocations and bytes per operation, and collections, by process",
		head: []string{"case", "way", "process", "CPU us/op", "allocations", "bytes", "GCs"}}
	past := &table{title: "Where keys were read from, and writes that were incomplete at the end of a round",
		head: []string{"case", "way", "read from", "backlog at end", "drained after ms"}}
	profiles := chapter{title: "Where the CPU time goes"}
	for _, c := range r.Cases {
		for i, w := range c.Ways {
			ratio, p50 := c.RatioGoal, c.P50Goal
			if i == 0 {
				ratio, p50 = goal{}, goal{}
			}
			speed.add(c.name(), w.Name, w.Throughput.text("%.0f"), w.Ratio.text("%.2f"), w.OfSecond.text("%.2f"),
				ratio.String(), ratio.verdict(w.Ratio.Median), fmt.Sprintf("%.0f", w.P50Us),
				fmt.Sprintf("%.0f", w.P99Us), fmt.Sprintf("%.2f", w.P50Ratio), p50.String(),
				p50.verdict(w.P50Ratio), fmt.Sprintf("%.2f", w.CPUUs),
				fmt.Sprintf("%.2f", w.GeneratorUs), fmt.Sprint(w.Wrong), fmt.Sprintf("%.2f", w.Others))
			for _, p := range w.Costs {
				row := []string{c.name(), w.Name, p.Process, fmt.Sprintf("%.2f", p.CPUUs), "-", "-", "-"}
				if p.Allocations > 0 {
					row = append(row[:4], fmt.Sprintf("%.2f", p.Allocations), fmt.Sprintf("%.0f", p.AllocatedBytes),
						fmt.Sprint(p.Collections))
				}
				cost.add(row...)
				if len(p.Layers) > 0 {
					profiles.lines = append(profiles.lines,
						fmt.Sprintf("%s, %s, %s: %s", c.name(), w.Name, p.Process, formatShares(p.Layers, p.CPUUs)),
						"  functions: "+formatShares(p.Functions, p.CPUUs))
				}
			}
			if i > 0 {
				past.add(c.name(), w.Name, readFromText(w.ReadFrom), w.Backlog.text("%.0f"), w.DrainMs.text("%.0f"))
			}
		}
	}
	for _, t := range []*table{speed, cost, past} {
		t.dropEmptyColumns()
		t.mergeRepeated(3)
	}
	chapters := tablesIn(speed, cost, past)
	if len(profiles.lines) > 0 {
		chapters = append(chapters, profiles)
	}
	return r.report("overhead", "A stock Redis (appendfsync always), and the same behind coordinator, middleman, "+
		"cache and sidecar of one data center",
		fmt.Sprintf("%d connections, %d keys, values of %d bytes; %s", r.Connections,
			r.Keys, r.ValueBytes, inTurn(r.Rounds, r.Seconds)), chapters...)
}

// formatShares prints shares as percentages and as microseconds per operation.
func formatShares(all []share, cpu float64) string {
	var parts []string
	for _, s := range all {
		if s.Part >= 0.005 {
			parts = append(parts, fmt.Sprintf("%s %.0f %% (%.2f us)", s.Name, 100*s.Part, s.Part*cpu))
		}
	}
	return strings.Join(parts, ", ")
}
