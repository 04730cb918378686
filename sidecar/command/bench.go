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
	var seconds float64
	o := bench.PaperOptions{Theta: 0.99, Seed: 1}
	cmd := &cobra.Command{
		Use:   "paper",
		Short: "Compare with sessions that stay in one ring, as in the evaluation of Karma",
		Long: `Runs two deployments of eight data centres in three rings with the delays of a WAN between them: CausalStore as it is, and
with every session bound to the ring of its data centre and without caches (COPS-PR). Clients in a closed loop load them in
turn, with YCSB's zipfian distribution.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.quick {
				setUnlessGiven(cmd, "seconds", &seconds, 4)
				setUnlessGiven(cmd, "rounds", &o.Rounds, 3)
				setUnlessGiven(cmd, "warm-up", &o.Warm, 4*time.Second)
				setUnlessGiven(cmd, "keys", &o.Keys, 10000)
			}
			if seconds <= 0 || o.Rounds < 1 || o.Clients < 1 || o.Keys < 1 || o.ValueBytes < 1 || o.Think < 0 || o.ReadRatio < 0 || o.ReadRatio > 1 {
				return errors.New("--seconds, --rounds, --clients, --keys and --value-bytes must be positive, and --read-ratio between 0 and 1")
			}
			var err error
			if o.Binary, err = thisProgram(); err != nil {
				return err
			}
			o.Dir, o.Length, o.Progress = f.dir, time.Duration(seconds*float64(time.Second)), cmd.ErrOrStderr()
			res, err := bench.MeasurePaper(cmd.Context(), o)
			if err != nil {
				return err
			}
			return f.finish(cmd, res)
		},
	}
	fs := cmd.Flags()
	f.register(fs, "three rounds of four seconds and fewer keys: less than a minute")
	fs.Float64Var(&seconds, "seconds", 10, "length of a round on one side")
	fs.IntVar(&o.Rounds, "rounds", 5, "how often each side is measured")
	fs.DurationVar(&o.Warm, "warm-up", 15*time.Second, "load of each side before the first round")
	fs.IntVar(&o.Clients, "clients", 64, "clients of all data centres together, each a session")
	fs.DurationVar(&o.Think, "think", 5*time.Millisecond, "what a client waits between an answer and its next request; 0 lets data centres that hold everything take the machine from the others")
	fs.IntVar(&o.Keys, "keys", 50000, "number of keys")
	fs.IntVar(&o.ValueBytes, "value-bytes", 200, "size of values")
	fs.Float64Var(&o.ReadRatio, "read-ratio", 0.95, "share of reads")
	fs.StringVar(&o.Topology, "topology", "", "topology file; default: eight AWS regions in three rings")
	return cmd
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
