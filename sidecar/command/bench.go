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

	"github.com/causalstore/causalstore/sidecar/bench"
)

// NewBenchCommand returns `causalstore bench`.
func NewBenchCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure this machine: what CausalStore costs, what it gains, what it keeps in memory",
		Long: `Measures deployments on this machine and prints the goals beside the figures. Compared systems take turns within one
run. A missed goal is no error.`,
	}
	cmd.AddCommand(newBenchOverheadCommand(), newBenchPaperCommand(), newBenchMemoryCommand())
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
	fs.StringVar(&f.json, "json", "", "file to write the figures to as well, as JSON")
	fs.StringVar(&f.dir, "dir", os.TempDir(), "folder for the data, on the disk that is to be measured; what is put there is removed at the end")
}

// finish prints a result, or keeps it.
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
		return fmt.Errorf("write the figures: %w", err)
	}
	return nil
}

// thisProgram is what deployments are started from.
func thisProgram() (string, error) {
	path, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find this program: %w", err)
	}
	return path, nil
}

func newBenchOverheadCommand() *cobra.Command {
	var f benchFlags
	var seconds float64
	o := bench.OverheadOptions{Pipelines: []int{1, 16}}
	cmd := &cobra.Command{
		Use:   "overhead",
		Short: "Compare a stock Redis with the same Redis behind the data plane of one data centre",
		Long: `Runs the same closed-loop load against a stock redis-server and against a deployment of one data centre with another
such server as its storage, in turn: GETs that the cache answers, and SETs that are synced to disk before they are
acknowledged. Needs redis-server and Linux.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.quick {
				setUnlessGiven(cmd, "seconds", &seconds, 1)
				setUnlessGiven(cmd, "rounds", &o.Rounds, 3)
				setUnlessGiven(cmd, "profile", &o.Profile, time.Second)
			}
			for i, c := range o.Cases {
				o.Cases[i] = strings.ToUpper(c)
			}
			if seconds <= 0 || o.Rounds < 1 || o.Connections < 1 || o.Keys < 1 || o.ValueBytes < 1 || o.Profile < 0 {
				return errors.New("--seconds, --rounds, --connections, --keys and --value-bytes must be positive")
			}
			for _, p := range o.Pipelines {
				if p < 1 {
					return fmt.Errorf("--pipelines: %d given; at least 1 is needed", p)
				}
			}
			var err error
			if o.Binary, err = thisProgram(); err != nil {
				return err
			}
			o.Dir, o.Length, o.Progress = f.dir, time.Duration(seconds*float64(time.Second)), cmd.ErrOrStderr()
			res, err := bench.MeasureOverhead(cmd.Context(), o)
			if err != nil {
				return err
			}
			return f.finish(cmd, res)
		},
	}
	fs := cmd.Flags()
	f.register(fs, "three rounds of a second: less than a minute")
	fs.Float64Var(&seconds, "seconds", 3, "length of a round of one case on one side")
	fs.IntVar(&o.Rounds, "rounds", 5, "how often each case is measured on each side")
	fs.IntVar(&o.Connections, "connections", 50, "clients")
	fs.IntSliceVar(&o.Pipelines, "pipelines", o.Pipelines, "how many requests a client sends at once")
	fs.IntVar(&o.Keys, "keys", 10000, "number of keys")
	fs.IntVar(&o.ValueBytes, "value-bytes", 200, "size of values")
	fs.StringSliceVar(&o.Cases, "cases", nil, "commands to measure: get, set; default: both")
	fs.DurationVar(&o.Profile, "profile", 3*time.Second, "length of the CPU profile of each case; 0: none")
	fs.StringVar(&o.Profiles, "profiles", "", "folder to keep the CPU profiles in")
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
		Short: "Repeat the evaluation of Karma: throughput, latency, congestion, mixes, loads, sizes",
		Long: `Repeats sections 5 and 6 of Karma's paper with eight data centres in three rings, on an emulated WAN. The schemes are this
program with different flags, each a process of its own: CausalStore, Karma as published, Karma without caches, COPS-PR
(sessions stay in their ring) and COPS-Ideal (full replication). Clients in a closed loop load them in turn, with YCSB's
zipfian distribution. The paper's figures stand beside those measured.

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
	f.register(fs, "three rounds and "+fmt.Sprint(len(quick.Sections))+" of the sections: about six minutes")
	fs.StringVar(&report, "report", "", "folder to write a page with tables and charts to")
	fs.StringSliceVar(&o.Sections, "sections", full.Sections, "what to measure; default: all, with --quick "+strings.Join(quick.Sections, ","))
	fs.Float64Var(&seconds, "seconds", full.Length.Seconds(), "length of a round; sections with many of them take a part of it")
	fs.IntVar(&o.Rounds, "rounds", full.Rounds, "how often everything is measured")
	fs.Float64Var(&o.WarmReads, "warm-reads", full.WarmReads, "how many reads every data centre makes to fill its cache, by the number of keys")
	fs.IntVar(&o.Clients, "clients", full.Clients, "clients of all data centres together, each a session")
	fs.Float64Var(&think, "think", full.Think.Seconds()*1e3,
		"milliseconds that a client waits between an answer and its next request; 0 lets data centres that hold everything take the machine from the others")
	fs.IntVar(&o.Keys, "keys", full.Keys, "number of keys")
	fs.IntVar(&o.ValueBytes, "value-bytes", full.ValueBytes, "size of values")
	fs.Float64Var(&o.ReadRatio, "read-ratio", full.ReadRatio, "share of reads")
	fs.StringVar(&o.Topology, "topology", "", "topology file; default: eight AWS regions in three rings")
	return cmd
}

// keepGiven takes over what was asked for by flags into what --quick stands for.
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

// setIfGiven sets what a flag stands for if the flag was given.
func setIfGiven[T any](cmd *cobra.Command, flag string, field *T, value T) {
	if cmd.Flags().Changed(flag) {
		*field = value
	}
}

// commandLine is how a command was called, with the flags that say what was measured.
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
		Short: "Measure the memory of every part, and the middleman's state per cached object",
		Long: `Runs the parts of one data centre as processes of their own, writes objects, reads each through the cache, and measures
what the parts keep in memory. Needs Linux.`,
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
	f.register(fs, "a tenth of the objects: less than a minute")
	fs.Float64Var(&seconds, "seconds", 10, "length of the load")
	fs.IntVar(&o.Objects, "objects", 1000000, "number of objects")
	fs.IntVar(&o.ValueBytes, "value-bytes", 20, "size of values; the cache holds 256 MiB in all, of which an entry takes 160 bytes beside key and value")
	fs.IntVar(&o.Connections, "connections", 50, "clients")
	return cmd
}

// setUnlessGiven sets what a flag stands for, unless the flag was given.
func setUnlessGiven[T any](cmd *cobra.Command, flag string, field *T, value T) {
	if !cmd.Flags().Changed(flag) {
		*field = value
	}
}
