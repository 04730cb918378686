package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
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
	record        string
	check         bool
}

// NewLoadCommand returns `causalstore load`.
func NewLoadCommand() *cobra.Command {
	var f loadFlags
	cmd := &cobra.Command{
		Use:   "load",
		Short: "Drive Redis endpoints with load, measure them, and check what they answered",
		Long: `Sends GET, SET, DEL and MGET over unmodified Redis clients to one or many endpoints, prints throughput and latencies,
and with --record writes what every client saw as a history. --check decides at the end whether that was causally
consistent; exit code 1 says that it was not.

Without --rate every connection sends its next operation when the last one is answered. With --rate the latency of an
operation counts from when it was due.`,
		Example: `  causalstore local --endpoints-file ends.json &
  causalstore load --endpoints-file ends.json --sessions 64 --duration 30s --check
  causalstore load --endpoint here=127.0.0.1:6379 --read-ratio 0.5 --ops 100000 --rate 5000`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd.Context(), cmd.OutOrStdout()) },
	}
	fs := cmd.Flags()
	fs.StringVar(&f.endpointsFile, "endpoints-file", "", "endpoints, as causalstore local --endpoints-file writes them")
	fs.StringArrayVar(&f.endpoints, "endpoint", nil, "an endpoint, as name=host:port; may be repeated")
	fs.StringSliceVar(&f.only, "only", nil, "names of the endpoints to use; default: all")
	fs.StringVar(&f.record, "record", "", "file to write the history to, as JSON lines; - is standard output")
	fs.BoolVar(&f.check, "check", false, "read everything everywhere at the end, and check the history")
	f.register(fs)
	return cmd
}

// register adds the flags that shape the load.
func (f *loadFlags) register(fs *pflag.FlagSet) {
	c := &f.config
	fs.IntVar(&c.Sessions, "sessions", 16, "sessions, spread over the endpoints in turn")
	fs.IntVar(&c.ConnectionsPerSession, "connections-per-session", 1, "connections of each session; more than one needs --session endpoint")
	fs.StringVar(&f.naming, "session", string(load.ByConnection),
		"what the history counts as one session: connection, or endpoint where the sidecar's sessions are pods")
	fs.DurationVar(&c.Duration, "duration", 0, "length of the load; default 10s if --ops is not given")
	fs.Int64Var(&c.Ops, "ops", 0, "number of operations after which to stop; 0: no bound")
	fs.Float64Var(&c.Rate, "rate", 0, "operations a second of all connections together; 0: as fast as answers come")
	fs.IntVar(&c.Pipeline, "pipeline", 1, "operations that a connection sends at once")
	fs.DurationVar(&c.Timeout, "timeout", 5*time.Second, "bound of connecting and of every round trip")
	fs.IntVar(&c.Protocol, "resp", 3, "version of the Redis protocol: 2 or 3")
	fs.IntVar(&c.Keys, "keys", 1000, "number of keys that all share")
	fs.StringVar(&c.KeyPrefix, "key-prefix", "", "what stands before every key; default: new for every run")
	fs.Float64Var(&c.Theta, "theta", 0.99, "skew of the zipfian distribution of keys, from 0 (uniform) to below 1")
	fs.Float64Var(&c.PrivateKeyShare, "private-share", 0, "share of operations on keys that no other connection uses")
	fs.Float64Var(&c.ReadRatio, "read-ratio", 0.8, "share of GET")
	fs.Float64Var(&c.MGetRatio, "mget-ratio", 0.02, "share of MGET")
	fs.Float64Var(&c.DeleteRatio, "delete-ratio", 0.02, "share of DEL; what is left is SET")
	fs.IntVar(&c.MGetKeys, "mget-keys", 4, "keys of an MGET")
	fs.IntVar(&c.ValueBytes, "value-bytes", 0, "length that values are padded to")
	fs.Uint64Var(&c.Seed, "seed", 1, "seed of the choice of operations")
	fs.BoolVar(&c.CaptureVersions, "versions", true, "ask CAUSAL LAST after every operation, for versions and where reads were answered")
	fs.DurationVar(&c.FinalTimeout, "final-timeout", time.Minute, "bound of the final reads of --check")
}

func (f *loadFlags) run(ctx context.Context, out io.Writer) (err error) {
	c := f.config
	if c.Endpoints, err = f.targets(); err != nil {
		return err
	}
	if c.Duration == 0 && c.Ops == 0 {
		c.Duration = 10 * time.Second
	}
	c.SessionNaming, c.FinalReads = load.Naming(f.naming), f.check
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
		printLoad(out, &result)
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
			return nil, fmt.Errorf("--endpoint %q: give name=host:port", e)
		}
		all = append(all, load.Endpoint{Name: name, Addr: addr})
	}
	if len(all) == 0 {
		return nil, errors.New("no endpoint: give --endpoint name=host:port, or --endpoints-file")
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

func printLoad(out io.Writer, r *load.Result) {
	fmt.Fprintf(out, "%d operations in %s: %.0f a second; %d failed, %d of unknown outcome, %d reconnects\n\n", r.Ops,
		r.Elapsed.Round(time.Millisecond), r.Throughput, r.Failed, r.Unknown, r.Reconnects)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "ms\tcount\tmean\tp50\tp95\tp99\tmax\t")
	for _, row := range []struct {
		name string
		h    *hdrhistogram.Histogram
	}{{"GET", r.Get}, {"MGET", r.MGet}, {"SET", r.Put}, {"DEL", r.Delete}} {
		if h := row.h; h.TotalCount() > 0 {
			at := func(q float64) float64 { return float64(h.ValueAtQuantile(q)) / 1e3 }
			fmt.Fprintf(w, "%s\t%d\t%.3f\t%.3f\t%.3f\t%.3f\t%.3f\t\n", row.name, h.TotalCount(), h.Mean()/1e3, at(50), at(95),
				at(99), float64(h.Max())/1e3)
		}
	}
	_ = w.Flush() // to what has taken the lines before
	printCounts(out, "answered from", r.Sources)
	printCounts(out, "states", r.Statuses)
	printCounts(out, "errors", r.Errors)
	if f := r.Final; f != nil {
		fmt.Fprintf(out, "final reads of %d keys in %d rounds: endpoints disagree on %d and are behind on %d; %d sessions not drained\n",
			f.Keys, f.Rounds, f.Disagree, f.Behind, f.Undrained)
	}
}

func printCounts(out io.Writer, name string, counts map[string]int64) {
	if len(counts) == 0 {
		return
	}
	parts := make([]string, 0, len(counts))
	for _, k := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%s %d", k, counts[k]))
	}
	fmt.Fprintf(out, "%s: %s\n", name, strings.Join(parts, ", "))
}
