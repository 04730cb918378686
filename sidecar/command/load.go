package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/causalstore/causalstore/sidecar/history"
	"github.com/causalstore/causalstore/sidecar/load"
	"github.com/causalstore/causalstore/sidecar/local"
)

// loadFlags are the flags of `causalstore load`.
type loadFlags struct {
	config        load.Config
	endpointsFile string
	endpoints     []string
	only          []string
	naming        string
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
		Short: "Drive Redis endpoints with load, measure them, and check what they answered",
		Long: `Drives one or many Redis endpoints over unmodified Redis clients, and prints throughput and latencies.

--workload names what is asked: ycsb-a to ycsb-f (YCSB), twitter-1 to twitter-54 (the published mixes of Twitter's cache
clusters), or a YAML file of your own. All its keys are written first. Without --workload it is a mix of GET, SET, DEL and
MGET on few keys (--read-ratio, --theta and so on), which is there to show whether the endpoints are causal.

With --record what every client saw is written as a history. --check decides at the end whether that was causally
consistent; exit code 1 says that it was not.

Without --rate every connection sends its next operation when the last one is answered. With --rate operations are due at
fixed or random times (--arrivals), and the latency of each counts from when it was due, whether or not a connection was
free.

Several endpoints are taken for one store. Workloads, files and mappings: docs/load.md.`,
		Example: `  causalstore load --endpoint 127.0.0.1:6379 --workload ycsb-a --duration 30s
  causalstore load --endpoint 127.0.0.1:6379 --workload twitter-52 --rate 20000 --arrivals poisson --series out.csv
  causalstore load --endpoint 127.0.0.1:6379 --workload mine.yaml --rate 5000 --burst-factor 4 --burst-length 1s --burst-pause 4s
  causalstore load --endpoint 127.0.0.1:7001 --workload ycsb-b --hot-keys 5 --hot-share 0.5 --hot-move 2s

  causalstore local --endpoints-file ends.json &
  causalstore load --endpoints-file ends.json --workload ycsb-b --sessions 64 --json result.json
  causalstore load --endpoints-file ends.json --session endpoint --sessions 64 --duration 30s --check`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.run(cmd.Context(), cmd.Flags(), cmd.OutOrStdout())
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.StringVar(&f.endpointsFile, "endpoints-file", "", "endpoints, as causalstore local --endpoints-file writes them")
	fs.StringArrayVar(&f.endpoints, "endpoint", nil, "an endpoint, as host:port or name=host:port; may be repeated")
	fs.StringSliceVar(&f.only, "only", nil, "names of the endpoints to use; default: all")
	f.registerBounds(fs)
	f.registerWorkload(fs)
	f.registerMix(fs)
	f.registerOutput(fs)
	return cmd
}

// registerBounds adds the flags that say how hard and how long.
func (f *loadFlags) registerBounds(fs *pflag.FlagSet) {
	c := &f.config
	fs.IntVar(&c.Sessions, "sessions", 16, "sessions, spread over the endpoints in turn")
	fs.IntVar(&c.ConnectionsPerSession, "connections-per-session", 1, "connections of each session; more than one needs --session endpoint")
	fs.StringVar(&f.naming, "session", string(load.ByConnection),
		"what the history counts as one session: connection, or endpoint where the sidecar's sessions are pods")
	fs.DurationVar(&c.Duration, "duration", 0, "length of the load; default 10s if --ops is not given")
	fs.Int64Var(&c.Ops, "ops", 0, "number of operations after which to stop; 0: no bound")
	fs.Float64Var(&c.Rate, "rate", 0, "operations a second of all connections together; 0: as fast as answers come")
	fs.StringVar(&f.arrivals, "arrivals", string(load.Uniform), "how --rate is spread over time: uniform or poisson")
	fs.Float64Var(&c.Burst.Factor, "burst-factor", 0, "bursts: this many times --rate, with less between them, so that --rate stays the mean")
	fs.DurationVar(&f.burstLength, "burst-length", 0, "length of a burst")
	fs.DurationVar(&f.burstPause, "burst-pause", 0, "time between two bursts")
	fs.IntVar(&c.Pipeline, "pipeline", 1, "operations that a connection sends at once; with --rate at most, and only those that are due")
	fs.DurationVar(&c.Timeout, "timeout", 5*time.Second, "bound of connecting and of every round trip")
	fs.IntVar(&c.Protocol, "resp", 3, "version of the Redis protocol: 2 or 3")
	fs.Uint64Var(&c.Seed, "seed", 1, "seed of the choice of operations")
}

// registerWorkload adds the flags of keys and workloads.
func (f *loadFlags) registerWorkload(fs *pflag.FlagSet) {
	c := &f.config
	fs.StringVar(&f.workload, "workload", "", "ycsb-a to ycsb-f, twitter-1 to twitter-54, or a file; default: a mix that shows whether a store is causal")
	fs.IntVar(&c.Keys, "keys", 0, "number of keys; default: that of the workload, 1000 without one")
	fs.IntVar(&c.LoadKeys, "load-keys", 0, "number of keys to write before the load, 0 for none; default: all of the workload's, none without one")
	fs.IntVar(&c.MaxKeys, "max-keys", 0, "inserts: number of keys from which on new ones take the place of the oldest; default: ten times --keys")
	fs.Float64Var(&f.maxGiB, "max-gib", 2, "refuse workloads whose keys would hold more than this")
	fs.IntVar(&c.Hot.Keys, "hot-keys", 0, "number of hot keys")
	fs.Float64Var(&c.Hot.Share, "hot-share", 0, "share of operations that go to the hot keys, besides what they get anyway")
	fs.DurationVar(&f.hotMove, "hot-move", 0, "time after which other keys are the hot ones; 0: never")
	fs.StringVar(&c.KeyPrefix, "key-prefix", "", "what stands before every key; default: load: with --workload and no history, otherwise new for every run")
}

// mixFlags are of no use with --workload.
var mixFlags = []string{"theta", "private-share", "read-ratio", "mget-ratio", "delete-ratio", "mget-keys", "value-bytes"}

// registerMix adds the flags of the mix that is sent without --workload.
func (f *loadFlags) registerMix(fs *pflag.FlagSet) {
	c := &f.config
	fs.Float64Var(&c.Theta, "theta", 0.99, "without --workload: skew of the zipfian distribution of keys, from 0 (uniform) to below 1")
	fs.Float64Var(&c.PrivateKeyShare, "private-share", 0, "without --workload: share of operations on keys that no other connection uses")
	fs.Float64Var(&c.ReadRatio, "read-ratio", 0.8, "without --workload: share of GET")
	fs.Float64Var(&c.MGetRatio, "mget-ratio", 0.02, "without --workload: share of MGET")
	fs.Float64Var(&c.DeleteRatio, "delete-ratio", 0.02, "without --workload: share of DEL; what is left is SET")
	fs.IntVar(&c.MGetKeys, "mget-keys", 4, "without --workload: keys of an MGET")
	fs.IntVar(&c.ValueBytes, "value-bytes", 0, "without --workload: length that values are padded to")
}

// registerOutput adds the flags of what comes out.
func (f *loadFlags) registerOutput(fs *pflag.FlagSet) {
	c := &f.config
	fs.StringVar(&f.json, "json", "", "file to write the result to, as JSON")
	fs.StringVar(&f.series, "series", "", "file to write a line of CSV to for every second")
	fs.StringVar(&f.record, "record", "", "file to write the history to, as JSON lines; - is standard output")
	fs.BoolVar(&f.check, "check", false, "read everything everywhere at the end, and check the history")
	fs.BoolVar(&c.CaptureVersions, "versions", true,
		"ask CAUSAL LAST after every operation, for versions and where reads were answered; default with --workload: only for a history")
	fs.DurationVar(&c.FinalTimeout, "final-timeout", time.Minute, "bound of the final reads of --check")
}

// configure turns the flags into a config, without what is written.
func (f *loadFlags) configure(fs *pflag.FlagSet) (c load.Config, err error) {
	c = f.config
	if c.Endpoints, err = f.targets(); err != nil {
		return c, err
	}
	if c.Duration == 0 && c.Ops == 0 {
		c.Duration = 10 * time.Second
	}
	c.SessionNaming, c.FinalReads, c.Arrivals = load.Naming(f.naming), f.check, load.Arrivals(f.arrivals)
	c.Burst.Length, c.Burst.Pause, c.Hot.Move = load.Duration(f.burstLength), load.Duration(f.burstPause), load.Duration(f.hotMove)
	for _, name := range []string{"keys", "max-keys"} {
		if given := fs.Lookup(name); given.Changed && given.Value.String() == "0" {
			return c, fmt.Errorf("--%s 0: at least 1 is needed", name)
		}
	}
	if f.workload == "" {
		for _, name := range []string{"load-keys", "max-keys", "max-gib"} {
			if fs.Changed(name) {
				return c, fmt.Errorf("--%s goes with --workload: name one", name)
			}
		}
		return c, nil
	}
	for _, name := range mixFlags {
		if fs.Changed(name) {
			return c, fmt.Errorf("--%s does not go with --workload, which has its own mix: leave it out, or write a workload file "+
				"(docs/load.md)", name)
		}
	}
	if !(f.maxGiB > 0 && f.maxGiB <= 1<<20) {
		return c, fmt.Errorf("--max-gib %g: it must be above 0", f.maxGiB)
	}
	c.MaxBytes, c.MGetKeys = int64(f.maxGiB*(1<<30)), 0
	if fs.Changed("load-keys") && c.LoadKeys <= 0 {
		if c.LoadKeys < 0 {
			return c, fmt.Errorf("--load-keys %d: give 0 for none", c.LoadKeys)
		}
		c.LoadKeys = -1
	}
	if !fs.Changed("versions") {
		c.CaptureVersions = f.check || f.record != ""
	}
	c.Workload, err = load.NewWorkload(f.workload)
	return c, err
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
		defer series.Close() // it was flushed by the load, which has told of errors
		c.Series = series
	}
	file, err := f.recording(out)
	if err != nil {
		return err
	}
	if file.path != "" {
		c.Record = file
	}
	result, err := load.Run(ctx, c)
	if out == file.stream {
		out = os.Stderr // the history stands alone on standard output
	}
	if err == nil || result.Ops > 0 {
		result.WriteText(out)
		err = errors.Join(err, f.writeJSON(&result))
	}
	var verdict error
	if err == nil && f.check {
		verdict, err = file.verdict(out, &result)
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

// targets returns the endpoints that the flags name.
func (f *loadFlags) targets() ([]load.Endpoint, error) {
	var all []load.Endpoint
	if f.endpointsFile != "" {
		b, err := os.ReadFile(f.endpointsFile)
		if err != nil {
			return nil, fmt.Errorf("read endpoints: %w", err)
		}
		var ends local.Endpoints
		if err := json.Unmarshal(b, &ends); err != nil {
			return nil, fmt.Errorf("read endpoints %s: %w", f.endpointsFile, err)
		}
		for _, e := range ends.DataCenters {
			all = append(all, load.Endpoint{Name: e.Name, Addr: e.RESP})
		}
	}
	for _, e := range f.endpoints {
		name, addr, ok := strings.Cut(e, "=")
		if !ok {
			addr = name
		}
		if _, _, err := net.SplitHostPort(addr); err != nil {
			return nil, fmt.Errorf("--endpoint %q: give host:port or name=host:port", e)
		}
		all = append(all, load.Endpoint{Name: name, Addr: addr})
	}
	if len(all) == 0 {
		return nil, errors.New("no endpoint: give --endpoint host:port, or --endpoints-file")
	}
	if len(f.only) == 0 {
		return all, nil
	}
	for _, name := range f.only {
		if !slices.ContainsFunc(all, func(e load.Endpoint) bool { return e.Name == name }) {
			return nil, fmt.Errorf("--only: there is no endpoint %q", name)
		}
	}
	return slices.DeleteFunc(all, func(e load.Endpoint) bool { return !slices.Contains(f.only, e.Name) }), nil
}

// recording is where the history goes. The zero recording is none.
type recording struct {
	io.Writer
	path   string // empty: nothing is recorded
	stream io.Writer
	file   *os.File
	keep   bool
}

// recording opens what --record names; --check alone takes a temporary file.
func (f *loadFlags) recording(out io.Writer) (*recording, error) {
	switch {
	case f.record == "-" && f.check:
		return nil, errors.New("--check reads the history again: give --record a file, not -")
	case f.record == "-":
		return &recording{Writer: out, path: "-", stream: out}, nil
	case f.record == "" && !f.check:
		return &recording{}, nil
	}
	var file *os.File
	var err error
	if f.record != "" {
		file, err = os.Create(f.record)
	} else {
		file, err = os.CreateTemp("", "causalstore-history-*.jsonl")
	}
	if err != nil {
		return nil, fmt.Errorf("record history: %w", err)
	}
	return &recording{Writer: file, path: file.Name(), file: file, keep: f.record != ""}, nil
}

// verdict checks what was recorded; a history with violations is kept.
func (r *recording) verdict(out io.Writer, result *load.Result) (verdict, err error) {
	h, err := readHistory(r.path, nil)
	if err != nil {
		return nil, err
	}
	report := history.Check(h, history.Options{})
	fmt.Fprintf(out, "\nhistory: %s\n", report)
	if report.OK() && (result.Final == nil || result.Final.Settled()) {
		return nil, nil
	}
	if !r.keep {
		r.keep = true
		fmt.Fprintf(out, "the history is kept in %s\n", r.path)
	}
	return errSilent, nil
}

func (r *recording) close() error {
	if r.file == nil {
		return nil
	}
	err := r.file.Close()
	if !r.keep {
		err = errors.Join(err, os.Remove(r.path))
	}
	return err
}
