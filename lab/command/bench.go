package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/lab/bench"
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// NewBenchCommand returns `causalstore bench`.
func NewBenchCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "bench",
		Short: "Measure the overhead, the gains, the memory, the idle cost, the availability and pairs of regions " +
			"on this machine",
		Long: `Measures deployments on this machine and prints the goals beside the results.
Systems that are compared take turns within one run. Missing a goal is not an error.`,
	}
	cmd.AddCommand(newBenchOverheadCommand(), newBenchWorkloadsCommand(), newBenchRedisBenchmarkCommand(),
		newBenchPaperCommand(), newBenchMemoryCommand(), newBenchLimitsCommand(), newBenchIdleCommand(),
		newBenchFaultsCommand(), newBenchRegionsCommand())
	return cmd
}

// benchFlags are the flags of every benchmark.
type benchFlags struct {
	quick bool
	json  string
	dir   string
}

func (f *benchFlags) register(fs *pflag.FlagSet, quick string) {
	fs.BoolVar(&f.quick, "quick", false, quick)
	fs.StringVar(&f.json, "json", "", "also write the results to this file, as JSON")
	fs.StringVar(&f.dir, "dir", os.TempDir(), "directory for temporary data; it decides which disk is measured")
}

// finish prints a result and writes it to the file that --json names.
func (f *benchFlags) finish(cmd *cobra.Command, result interface{ Text(io.Writer) }) error {
	result.Text(cmd.OutOrStdout())
	if f.json == "" {
		return nil
	}
	b, err := json.MarshalIndent(result, "", "  ")
	if err == nil {
		err = os.WriteFile(f.json, append(b, '\n'), 0o644)
	}
	if err != nil {
		return fmt.Errorf("write the results: %w", err)
	}
	return nil
}

// checkNearCopies refuses a value of --near-copies that sidecars do not accept.
func checkNearCopies(bytes int) error {
	if bytes != 0 && bytes < contract.MinNearBytes {
		return fmt.Errorf("--near-copies %d: give at least %d bytes, or 0 for no near copies", bytes,
			contract.MinNearBytes)
	}
	return nil
}

// thisProgram returns the path of this program, which deployments are started from.
func thisProgram() (string, error) {
	path, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find the path of this program: %w", err)
	}
	return path, nil
}

func newBenchOverheadCommand() *cobra.Command {
	var f benchFlags
	var seconds float64
	var processes bool
	o := bench.OverheadOptions{Pipelines: []int{1, 16}}
	cmd := &cobra.Command{
		Use:   "overhead",
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
instead, it is the sidecar without and with near copies, with mutual TLS.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.quick {
				setUnlessGiven(cmd, "seconds", &seconds, 1)
				setUnlessGiven(cmd, "rounds", &o.Rounds, 3)
			}
			switch {
			case processes:
				setUnlessGiven(cmd, "value-bytes", &o.ValueBytes, 1024)
				setUnlessGiven(cmd, "profile", &o.Profile, 0)
			case f.quick:
				setUnlessGiven(cmd, "profile", &o.Profile, time.Second)
			}
			if o.Profiles != "" && o.Profile == 0 {
				return errors.New("--profiles: nothing is profiled; give --profile 3s as well")
			}
			for i, c := range o.Cases {
				o.Cases[i] = strings.ToUpper(c)
			}
			if seconds <= 0 || o.Rounds < 1 || o.Connections < 1 || o.Keys < 1 || o.ValueBytes < 1 || o.Profile < 0 {
				return errors.New("--seconds, --rounds, --connections, --keys and --value-bytes must be positive")
			}
			for _, p := range o.Pipelines {
				if p < 1 {
					return fmt.Errorf("--pipelines: %d; it must be at least 1", p)
				}
			}
			for _, n := range o.Members {
				if n < 1 || n > topology.MaxMembers {
					return fmt.Errorf("--members: %d; it must be 1 to %d", n, topology.MaxMembers)
				}
			}
			if len(o.Members) > 0 && !processes {
				return errors.New("--members: needs --processes")
			}
			if o.NearBytes != 0 && !processes {
				return errors.New("--near-copies: needs --processes")
			}
			if err := checkNearCopies(o.NearBytes); err != nil {
				return err
			}
			var err error
			if o.Binary, err = thisProgram(); err != nil {
				return err
			}
			o.Dir, o.Length, o.Progress = f.dir, time.Duration(seconds*float64(time.Second)), cmd.ErrOrStderr()
			if processes {
				res, err := bench.MeasureOverheadProcesses(cmd.Context(), o)
				if err != nil {
					return err
				}
				return f.finish(cmd, res)
			}
			res, err := bench.MeasureOverhead(cmd.Context(), o)
			if err != nil {
				return err
			}
			return f.finish(cmd, res)
		},
	}
	fs := cmd.Flags()
	f.register(fs, "measure three rounds of one second each, in less than a minute")
	fs.Float64Var(&seconds, "seconds", 3, "length of each round of a case on one side")
	fs.IntVar(&o.Rounds, "rounds", 5, "rounds of each case on each side")
	fs.IntVar(&o.Connections, "connections", 50, "number of client connections")
	fs.IntSliceVar(&o.Pipelines, "pipelines", o.Pipelines, "pipeline depths to measure")
	fs.IntVar(&o.Keys, "keys", 10000, "number of keys")
	fs.IntVar(&o.ValueBytes, "value-bytes", 200, "size of values in bytes")
	fs.StringSliceVar(&o.Cases, "cases", nil, "commands to measure: get, set (default both)")
	fs.DurationVar(&o.Profile, "profile", 3*time.Second, "length of the CPU profile of each case; 0 takes none")
	fs.StringVar(&o.Profiles, "profiles", "", "directory to write the CPU profiles to")
	fs.BoolVar(&processes, "processes", false, "run each part as a process of its own, without and with mutual TLS")
	fs.IntSliceVar(&o.Members, "members", nil, "with --processes, the numbers of members of the coordinator to compare")
	fs.StringVar(&o.Etcd, "etcd", "etcd", "the program etcd, for more than one member")
	fs.IntVar(&o.NearBytes, "near-copies", 0,
		"with --processes, bytes of near copies of each sidecar, to compare with none")
	cmd.MarkFlagsMutuallyExclusive("members", "near-copies")
	return cmd
}

func newBenchPaperCommand() *cobra.Command {
	var f benchFlags
	var seconds, think float64
	var report string
	full, quick := bench.FullPaper(), bench.QuickPaper()
	o := full
	cmd := &cobra.Command{
		Use:   "paper",
		Short: "Repeat the evaluation of the Karma paper: throughput, latency, congestion, mixes, loads, sizes",
		Long: `Repeats sections 5 and 6 of the Karma paper with eight data centers in three
rings on an emulated WAN. Each scheme is this program with different flags, in its own process:
CausalStore, Karma as published, Karma without caches, COPS-PR (sessions stay in their ring) and
COPS-Ideal (full replication). Closed-loop clients load them in turn, with YCSB's zipfian
distribution. The results are printed beside the paper's figures.

Sections: ` + strings.Join(bench.SectionNames(), ", ") + `.`,
		Example: `  causalstore bench paper --quick
  causalstore bench paper --sections throughput,mixes --rounds 5
  causalstore bench paper --report docs/benchmarks --json docs/benchmarks/paper.json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.quick {
				given := o
				o = quick
				keepGiven(cmd, &o, &given)
			}
			setIfGiven(cmd, "seconds", &o.Length, time.Duration(seconds*float64(time.Second)))
			setIfGiven(cmd, "think", &o.Think, time.Duration(think*float64(time.Millisecond)))
			var err error
			if o.Binary, err = thisProgram(); err != nil {
				return err
			}
			o.Dir, o.Progress, o.Command = f.dir, cmd.ErrOrStderr(), commandLine(cmd)
			res, err := bench.MeasurePaper(cmd.Context(), o)
			if err != nil {
				return err
			}
			if report != "" {
				err = res.WriteReport(report)
			}
			return errors.Join(f.finish(cmd, res), err)
		},
	}
	fs := cmd.Flags()
	f.register(fs, "measure three rounds of "+fmt.Sprint(len(quick.Sections))+" of the sections, in about six minutes")
	fs.StringVar(&report, "report", "", "directory to write a page with tables and charts to")
	fs.StringSliceVar(&o.Sections, "sections", full.Sections,
		"sections to measure; default all, or with --quick "+strings.Join(quick.Sections, ","))
	fs.Float64Var(&seconds, "seconds", full.Length.Seconds(),
		"length of a round; sections with many cells use a part of it")
	fs.IntVar(&o.Rounds, "rounds", full.Rounds, "number of rounds")
	fs.Float64Var(&o.WarmReads, "warm-reads", full.WarmReads,
		"reads in every data center to warm its cache, as a multiple of the number of keys")
	fs.IntVar(&o.Clients, "clients", full.Clients, "total number of clients, each a session")
	fs.Float64Var(&think, "think", full.Think.Seconds()*1e3,
		"milliseconds between a reply and the next request of a client; with 0, data centers that hold everything "+
			"starve the others of CPU")
	fs.IntVar(&o.Keys, "keys", full.Keys, "number of keys")
	fs.IntVar(&o.ValueBytes, "value-bytes", full.ValueBytes, "size of values in bytes")
	fs.Float64Var(&o.ReadRatio, "read-ratio", full.ReadRatio, "share of reads")
	fs.StringVar(&o.Topology, "topology", "", "topology file (default eight AWS regions in three rings)")
	return cmd
}

// keepGiven overrides the options of --quick with the flags that were given.
func keepGiven(cmd *cobra.Command, o, given *bench.PaperOptions) {
	setIfGiven(cmd, "sections", &o.Sections, given.Sections)
	setIfGiven(cmd, "rounds", &o.Rounds, given.Rounds)
	setIfGiven(cmd, "warm-reads", &o.WarmReads, given.WarmReads)
	setIfGiven(cmd, "clients", &o.Clients, given.Clients)
	setIfGiven(cmd, "keys", &o.Keys, given.Keys)
	setIfGiven(cmd, "value-bytes", &o.ValueBytes, given.ValueBytes)
	setIfGiven(cmd, "read-ratio", &o.ReadRatio, given.ReadRatio)
	setIfGiven(cmd, "topology", &o.Topology, given.Topology)
}

// setIfGiven sets a field if its flag was given.
func setIfGiven[T any](cmd *cobra.Command, flag string, field *T, value T) {
	if cmd.Flags().Changed(flag) {
		*field = value
	}
}

// commandLine returns the command line without the flags that do not affect the measurement.
func commandLine(cmd *cobra.Command) string {
	line := cmd.CommandPath()
	cmd.Flags().Visit(func(f *pflag.Flag) {
		switch {
		case f.Name == "json" || f.Name == "dir" || f.Name == "report":
		case f.Value.Type() == "bool":
			line += " --" + f.Name
		default:
			line += " --" + f.Name + " " + strings.Trim(f.Value.String(), "[]")
		}
	})
	return line
}

func newBenchMemoryCommand() *cobra.Command {
	var f benchFlags
	var seconds float64
	var o bench.MemoryOptions
	cmd := &cobra.Command{
		Use:   "memory",
		Short: "Measure the memory of each part, and the middleman's state per cached object",
		Long: `Runs each part of one data center in its own process, writes objects, reads each
of them through the cache, and measures the memory of the parts. Requires Linux.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.quick {
				setUnlessGiven(cmd, "objects", &o.Objects, 100000)
				setUnlessGiven(cmd, "seconds", &seconds, 3)
			}
			if seconds <= 0 || o.Objects < 1 || o.Connections < 1 || o.ValueBytes < 1 {
				return errors.New("--seconds, --objects, --connections and --value-bytes must be positive")
			}
			var err error
			if o.Binary, err = thisProgram(); err != nil {
				return err
			}
			o.Dir, o.Load, o.Progress = f.dir, time.Duration(seconds*float64(time.Second)), cmd.ErrOrStderr()
			res, err := bench.MeasureMemory(cmd.Context(), o)
			if err != nil {
				return err
			}
			return f.finish(cmd, res)
		},
	}
	fs := cmd.Flags()
	f.register(fs, "measure a tenth of the objects, in less than a minute")
	fs.Float64Var(&seconds, "seconds", 10, "length of the load in seconds")
	fs.IntVar(&o.Objects, "objects", 1000000, "number of objects")
	fs.IntVar(&o.ValueBytes, "value-bytes", 20,
		"size of values in bytes; the cache holds 256 MiB, and an entry takes 160 bytes plus key and value")
	fs.IntVar(&o.Connections, "connections", 50, "number of client connections")
	return cmd
}

func newBenchIdleCommand() *cobra.Command {
	var f benchFlags
	var seconds, settle float64
	var reads string
	var o bench.IdleOptions
	cmd := &cobra.Command{
		Use:   "idle",
		Short: "Measure what the parts cost while no client does anything",
		Long: `Runs three data centers in two rings, each part in its own process, and measures
the CPU time, the memory, the wake-ups and the messages of each part while no client does anything.
It does so again with more sidecars in the first data center. Requires Linux.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.quick {
				setUnlessGiven(cmd, "seconds", &seconds, 10)
				setUnlessGiven(cmd, "sidecars", &o.Sidecars, 5)
			}
			if seconds <= 0 || settle < 0 || o.Sidecars < 0 {
				return errors.New("--seconds must be positive, --settle and --sidecars must not be negative")
			}
			var err error
			if o.Level, err = parseFlag("reads", reads, causal.SessionLevels()); err != nil {
				return err
			}
			if o.Binary == "" {
				if o.Binary, err = thisProgram(); err != nil {
					return err
				}
			}
			toDuration := func(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
			o.Dir, o.Length, o.Settle, o.Progress = f.dir, toDuration(seconds), toDuration(settle), cmd.ErrOrStderr()
			res, err := bench.MeasureIdle(cmd.Context(), o)
			if err != nil {
				return err
			}
			return f.finish(cmd, res)
		},
	}
	fs := cmd.Flags()
	f.register(fs, "measure for 10 s instead of 60, with 5 sidecars more")
	fs.Float64Var(&seconds, "seconds", 60, "length of each measurement in seconds")
	fs.Float64Var(&settle, "settle", 35,
		"time without clients before a measurement, in seconds; leases of caches last 30 s after the last read")
	fs.IntVar(&o.Sidecars, "sidecars", 50, "number of sidecars that are added to the first data center")
	fs.StringVar(&reads, "reads", causal.Latest.String(),
		"reads of all sessions: "+causal.JoinNames(causal.SessionLevels()))
	fs.StringVar(&o.Binary, "binary", "", "program to measure; default: this one")
	return cmd
}

// setUnlessGiven sets a field unless its flag was given.
func setUnlessGiven[T any](cmd *cobra.Command, flag string, field *T, value T) {
	if !cmd.Flags().Changed(flag) {
		*field = value
	}
}
