package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/causalstore/causalstore/lab/load"
)

// loadFlags are the flags of `causalstore load`.
type loadFlags struct {
	config        load.Config
	endpointsFile string
	endpoints     []string
	only          []string
	naming        string
	promise       string
	workload      string
	arrivals      string
	burstLength   time.Duration
	burstPause    time.Duration
	hotMove       time.Duration
	maxGiB        float64
	record        string
	check         bool
	series        string
	json          string
}

// NewLoadCommand returns `causalstore load`.
func NewLoadCommand() *cobra.Command {
	var f loadFlags
	cmd := &cobra.Command{
		Use:   "load",
		Short: "Load Redis endpoints, measure them, and check their answers",
		Long: `Loads one or more Redis endpoints through unmodified Redis clients, and prints
throughput and latencies.

--workload selects the operations: ycsb-a to ycsb-f (YCSB), twitter-1 to twitter-54 (the published
mixes of Twitter's cache clusters), or a YAML file. Its keys are preloaded.
Without --workload, the load is a mix of GET, SET, DEL and MGET on few keys (--read-ratio,
--theta and so on) that is made to check causality.

--record writes what every client saw as a history. --check checks at the end whether it was causally
consistent; the exit code is 1 if it was not. With --promise datacenter, it also checks whether the
clients of each data center find one Redis there, whichever of its endpoints they use; the mix has INCR,
SET NX and other commands then.

Without --rate, every connection sends its next operation after the reply to the previous one. With
--rate, operations are due at even or random intervals (--arrivals), and the latency of each counts
from its due time, whether or not a connection was free.

All endpoints together are considered one store; those with one name are in one data center.
docs/load.md describes workloads and their files.`,
		Example: `  causalstore load --endpoint 127.0.0.1:6379 --workload ycsb-a --duration 30s
  causalstore load --endpoint 127.0.0.1:6379 --workload twitter-52 --rate 20000 --arrivals poisson --series out.csv
  causalstore load --endpoint 127.0.0.1:6379 --workload mine.yaml --rate 5000 --burst-factor 4 \
    --burst-length 1s --burst-pause 4s
  causalstore load --endpoint 127.0.0.1:7001 --workload ycsb-b --hot-keys 5 --hot-share 0.5 --hot-move 2s

  causalstore local --endpoints-file ends.json &
  causalstore load --endpoints-file ends.json --workload ycsb-b --sessions 64 --json result.json
  causalstore load --endpoints-file ends.json --session endpoint --sessions 64 --duration 30s --check

  causalstore local --sidecars 2 --endpoints-file ends.json &
  causalstore load --endpoints-file ends.json --session endpoint --sessions 64 --check --promise datacenter`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.run(cmd.Context(), cmd.Flags(), cmd.OutOrStdout())
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.StringVar(&f.endpointsFile, "endpoints-file", "",
		"file with endpoints, as written by causalstore local --endpoints-file")
	fs.StringArrayVar(&f.endpoints, "endpoint", nil, "endpoint as host:port or name=host:port; may be repeated. "+
		"Those with one name are of one data center")
	fs.StringSliceVar(&f.only, "only", nil,
		"names of the endpoints, which are those of data centers, to use (default all)")
	f.registerBounds(fs)
	f.registerWorkload(fs)
	f.registerMix(fs)
	f.registerOutput(fs)
	return cmd
}

// registerBounds adds the flags for the intensity and length of the load.
func (f *loadFlags) registerBounds(fs *pflag.FlagSet) {
	c := &f.config
	fs.IntVar(&c.Sessions, "sessions", 16, "number of sessions, spread round robin over the endpoints")
	fs.IntVar(&c.ConnectionsPerSession, "connections-per-session", 1,
		"connections per session; more than one requires --session endpoint")
	fs.StringVar(&f.naming, "session", string(load.ByConnection),
		"what the history considers a session: connection, or endpoint if the scope of the sidecar's "+
			"sessions is the pod")
	fs.DurationVar(&c.Duration, "duration", 0, "length of the load (default 10s without --ops)")
	fs.Int64Var(&c.Ops, "ops", 0, "stop after this number of operations; 0 means no bound")
	fs.Float64Var(&c.Rate, "rate", 0, "operations per second of all connections together; 0 is the closed loop")
	fs.StringVar(&f.arrivals, "arrivals", string(load.Uniform),
		"distribution of the operations of --rate over time: uniform or poisson")
	fs.Float64Var(&c.Burst.Factor, "burst-factor", 0,
		"rate during bursts as a multiple of --rate; the rate between bursts is lower, so that --rate is the mean")
	fs.DurationVar(&f.burstLength, "burst-length", 0, "length of a burst")
	fs.DurationVar(&f.burstPause, "burst-pause", 0, "time between two bursts")
	fs.IntVar(&c.Pipeline, "pipeline", 1,
		"operations that a connection sends at once; with --rate, the maximum number of due operations to send at once")
	fs.DurationVar(&c.Timeout, "timeout", 5*time.Second, "time limit for connecting and for every round trip")
	fs.IntVar(&c.Protocol, "resp", 3, "version of the Redis protocol: 2 or 3")
	fs.Uint64Var(&c.Seed, "seed", 1, "seed for the choice of operations")
}

// registerWorkload adds the flags for workloads and their keys.
func (f *loadFlags) registerWorkload(fs *pflag.FlagSet) {
	c := &f.config
	fs.StringVar(&f.workload, "workload", "",
		"ycsb-a to ycsb-f, twitter-1 to twitter-54, or a file (default a mix that is made to check causality)")
	fs.IntVar(&c.Keys, "keys", 0, "number of keys (default as in the workload, or 1000 without one; with "+
		"--promise datacenter, of each kind and data center at a time, 4)")
	fs.IntVar(&c.LoadKeys, "load-keys", 0,
		"number of keys to preload; 0 preloads none (default all keys of the workload, none without one)")
	fs.IntVar(&c.MaxKeys, "max-keys", 0,
		"number of keys above which inserted keys replace the oldest ones (default ten times --keys)")
	fs.Float64Var(&f.maxGiB, "max-gib", 2, "refuse workloads with more data than this")
	fs.IntVar(&c.Hot.Keys, "hot-keys", 0, "number of hot keys")
	fs.Float64Var(&c.Hot.Share, "hot-share", 0,
		"share of operations on the hot keys, in addition to what these keys receive anyway")
	fs.DurationVar(&f.hotMove, "hot-move", 0, "time after which other keys become hot; 0 means never")
	fs.StringVar(&c.KeyPrefix, "key-prefix", "",
		"prefix of all keys (default \"load:\" with --workload and without a history, otherwise new for every run)")
}

// mixFlags cannot be combined with --workload.
var mixFlags = []string{"theta", "private-share", "read-ratio", "mget-ratio", "delete-ratio", "mget-keys",
	"value-bytes"}

// registerMix adds the flags for the mix without --workload.
func (f *loadFlags) registerMix(fs *pflag.FlagSet) {
	c := &f.config
	fs.Float64Var(&c.Theta, "theta", 0.99,
		"without --workload: skew of the zipfian distribution of keys, from 0 (uniform) to below 1")
	fs.Float64Var(&c.PrivateKeyShare, "private-share", 0,
		"without --workload: share of operations on keys that no other connection uses")
	fs.Float64Var(&c.ReadRatio, "read-ratio", 0.8, "without --workload: share of GET")
	fs.Float64Var(&c.MGetRatio, "mget-ratio", 0.02, "without --workload: share of MGET")
	fs.Float64Var(&c.DeleteRatio, "delete-ratio", 0.02, "without --workload: share of DEL; the rest is SET")
	fs.IntVar(&c.MGetKeys, "mget-keys", 4, "without --workload: keys per MGET")
	fs.IntVar(&c.ValueBytes, "value-bytes", 0, "without --workload: length to which values are padded")
}

// registerOutput adds the flags for output.
func (f *loadFlags) registerOutput(fs *pflag.FlagSet) {
	c := &f.config
	fs.StringVar(&f.json, "json", "", "write the result to this file, as JSON")
	fs.StringVar(&f.series, "series", "", "write a line of CSV per second to this file")
	fs.StringVar(&f.record, "record", "", "write the history to this file, as JSON lines; - is standard output")
	fs.BoolVar(&f.check, "check", false, "read all keys at all endpoints at the end, and check the history")
	fs.StringVar(&f.promise, "promise", string(load.Causal), "what --check checks: causal, or datacenter, which has "+
		"a mix of its own")
	fs.BoolVar(&c.CaptureVersions, "versions", true,
		"send CAUSAL LAST after every operation, to record versions and where reads were answered (default with "+
			"--workload: only for a history)")
	fs.DurationVar(&c.FinalTimeout, "final-timeout", time.Minute, "time limit for the final reads of --check")
}

// configure converts the flags to a config, except for the outputs.
func (f *loadFlags) configure(fs *pflag.FlagSet) (c load.Config, err error) {
	c = f.config
	if c.Endpoints, err = f.targets(); err != nil {
		return c, err
	}
	if c.Duration == 0 && c.Ops == 0 {
		c.Duration = 10 * time.Second
	}
	c.Promise = load.Promise(f.promise)
	if c.Promise == load.DataCenter {
		if err := f.configureDataCenter(fs); err != nil {
			return c, err
		}
		c.MGetKeys = 0
	}
	c.SessionNaming, c.FinalReads, c.Arrivals = load.Naming(f.naming), f.check, load.Arrivals(f.arrivals)
	c.Burst.Length, c.Burst.Pause, c.Hot.Move = load.Duration(f.burstLength), load.Duration(f.burstPause),
		load.Duration(f.hotMove)
	for _, name := range []string{"keys", "max-keys"} {
		if given := fs.Lookup(name); given.Changed && given.Value.String() == "0" {
			return c, fmt.Errorf("--%s 0: it must be at least 1", name)
		}
	}
	if f.workload == "" {
		for _, name := range []string{"load-keys", "max-keys", "max-gib"} {
			if fs.Changed(name) {
				return c, fmt.Errorf("--%s requires --workload", name)
			}
		}
		return c, nil
	}
	for _, name := range mixFlags {
		if fs.Changed(name) {
			return c,
				fmt.Errorf(
					"--%s cannot be combined with --workload, which has its own mix: leave it out, or write "+
						"a workload file "+
						"(docs/load.md)", name)
		}
	}
	if !(f.maxGiB > 0 && f.maxGiB <= 1<<20) {
		return c, fmt.Errorf("--max-gib %g: it must be above 0", f.maxGiB)
	}
	c.MaxBytes, c.MGetKeys = int64(f.maxGiB*(1<<30)), 0
	if fs.Changed("load-keys") && c.LoadKeys <= 0 {
		if c.LoadKeys < 0 {
			return c, fmt.Errorf("--load-keys %d: it must not be negative; 0 preloads none", c.LoadKeys)
		}
		c.LoadKeys = -1
	}
	if !fs.Changed("versions") {
		c.CaptureVersions = f.check || f.record != ""
	}
	c.Workload, err = load.NewWorkload(f.workload)
	return c, err
}

// configureDataCenter refuses flags that cannot be combined with the mix that checks data centers.
func (f *loadFlags) configureDataCenter(fs *pflag.FlagSet) error {
	if !f.check {
		return fmt.Errorf("--promise %s says what --check checks: add --check", load.DataCenter)
	}
	for _, name := range append([]string{"workload", "hot-keys", "hot-share", "hot-move"}, mixFlags...) {
		if fs.Changed(name) {
			return fmt.Errorf("--%s cannot be combined with --promise %s, which has a mix of its own: leave it out",
				name, load.DataCenter)
		}
	}
	return nil
}

func (f *loadFlags) run(ctx context.Context, fs *pflag.FlagSet, out io.Writer) (err error) {
	c, err := f.configure(fs)
	if err != nil {
		return err
	}
	if f.series != "" {
		series, err := os.Create(f.series)
		if err != nil {
			return fmt.Errorf("write series: %w", err)
		}
		defer series.Close() // Run has flushed it and reported errors
		c.Series = series
	}
	file, err := f.recording(out)
	if err != nil {
		return err
	}
	if file.path != "" {
		c.Record = file
	}
	var result load.Result
	if err = load.Reach(ctx, c); err == nil {
		result, err = load.Run(ctx, c)
	}
	if out == file.stream {
		out = os.Stderr // keep the history alone on standard output
	}
	if err == nil || result.Ops > 0 {
		result.WriteText(out)
		err = errors.Join(err, f.writeJSON(&result))
	}
	var verdict error
	if err == nil && f.check {
		verdict, err = file.verdict(out, &result, c.Promise)
	}
	if err = errors.Join(err, file.close()); err != nil {
		return err
	}
	return verdict
}

func (f *loadFlags) writeJSON(result *load.Result) error {
	if f.json == "" {
		return nil
	}
	file, err := os.Create(f.json)
	if err != nil {
		return fmt.Errorf("write result: %w", err)
	}
	return errors.Join(result.WriteJSON(file), file.Close())
}
