package bench

import (
	"bytes"
	"context"
	"encoding/csv"
	"fmt"
	"math"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// StockClientOptions describe what redis-benchmark is to measure.
type StockClientOptions struct {
	Setup
	// Commands are get, set, incr and mset (of ten keys); Connections and Pipelines are the values of its -c and -P.
	// All combinations are measured.
	Commands               []string
	Connections, Pipelines []int
	// Each of Rounds measures every combination once on each system, for about Length each.
	Rounds int
	Length time.Duration
	// Keys and ValueBytes are its -r and -d.
	Keys, ValueBytes int
	// NearBytes bounds the near copies of the sidecar of the third system, in bytes. If it is 0, there is no third
	// system.
	NearBytes int
}

// FullStockClient returns the options of a full run.
func FullStockClient() *StockClientOptions {
	return &StockClientOptions{Commands: []string{"get", "set"}, Connections: []int{1, 50, 1000},
		Pipelines: []int{1, 16, 64}, Rounds: 3, Length: time.Second, Keys: 10_000, ValueBytes: 1024,
		NearBytes: 32 << 20}
}

func (o *StockClientOptions) experiment() *Experiment {
	return &Experiment{
		Name:  "redis-benchmark",
		Short: "Let redis-benchmark compare a stock Redis and the same Redis behind the parts of one data center",
		Long: `Runs the stock redis-benchmark in turn against a stock redis-server, and against
deployments of one data center that use another redis-server as their storage. Each part is a
process of its own, with mutual TLS between them; one deployment has near copies in its sidecar.
Writes are synced to disk before they are acknowledged, everywhere. All combinations of commands,
connections and pipelines are measured. Requires redis-server, redis-benchmark and Linux.`,
		Example: `  causalstore bench redis-benchmark
  causalstore bench redis-benchmark --commands get --connections 50 --pipelines 1,16,64 --value-bytes 100`,
		quick:   "measure one round of half a second each",
		quickly: map[string]string{"seconds": "0.5", "rounds": "1"},
		setup:   &o.Setup, declare: o.declare, measure: measuring(o.Measure),
	}
}

func (o *StockClientOptions) declare(f *flags) {
	f.in(time.Second, &o.Length, "seconds", "about the length of each round of a combination on one system")
	f.count(&o.Rounds, "rounds", "rounds of each combination on each system")
	f.StringSliceVar(&o.Commands, "commands", o.Commands, "some of get, set, incr, and mset of ten keys")
	f.IntSliceVar(&o.Connections, "connections", o.Connections, "numbers of client connections (-c)")
	f.IntSliceVar(&o.Pipelines, "pipelines", o.Pipelines, "numbers of commands that a connection sends at once (-P)")
	f.count(&o.Keys, "keys", "number of keys (-r)")
	f.count(&o.ValueBytes, "value-bytes", "size of values, in bytes (-d)")
	f.nearCopies(&o.NearBytes, o.NearBytes,
		"bytes of near copies of the sidecar of the third system; 0: no third system")
	f.positive("seconds", "connections", "pipelines")
	f.oneOf([]string{"get", "set", "incr", "mset"}, "commands")
}

// StockClient compares a stock Redis, and the same Redis behind the parts of one data center, by redis-benchmark.
type StockClient struct {
	Origin
	Keys       int                `json:"keys"`
	ValueBytes int                `json:"valueBytes"`
	Rounds     int                `json:"rounds"`
	Seconds    float64            `json:"secondsPerRound"`
	Cases      []*StockClientCase `json:"cases"`
}

// StockClientCase is one combination of command, connections and pipeline.
type StockClientCase struct {
	Command     string            `json:"command"`
	Connections int               `json:"connections"`
	Pipeline    int               `json:"pipeline"`
	Ways        []*StockClientWay `json:"ways"`
}

// StockClientWay is what redis-benchmark says of one of the compared systems.
type StockClientWay struct {
	Name       string `json:"way"`
	Throughput spread `json:"throughput"` // operations per second
	// Ratio is the throughput of a round divided by that of Redis in the same round.
	Ratio spread `json:"ratio"`
	P50Ms spread `json:"p50Ms"`
	P99Ms spread `json:"p99Ms"`

	rps, p50, p99 []float64
}

// Measure runs redis-benchmark in turns against a stock Redis, and against the same Redis behind the parts of one data
// center, each of them a process, with mutual TLS between them, without and with near copies.
func (o *StockClientOptions) Measure(ctx context.Context) (*StockClient, error) {
	client, err := exec.LookPath("redis-benchmark")
	if err != nil {
		return nil, fmt.Errorf("%w; install it (Debian: apt-get install redis-tools, macOS: brew install redis)", err)
	}
	res := &StockClient{Origin: o.origin(), Keys: o.Keys, ValueBytes: o.ValueBytes, Rounds: o.Rounds,
		Seconds: o.Length.Seconds()}
	return res, o.withDataDir(func(dir string) (err error) {
		all, err := startContest(ctx, &o.Setup, dir, secured(processSpec{}, o.NearBytes))
		defer func() { err = all.stop(err) }()
		if err != nil {
			return err
		}
		run := stockClient{program: client, o: o}
		for _, who := range all {
			o.progress("%s: preload %d keys", who.name, o.Keys)
			if err := run.preload(ctx, who); err != nil {
				return fmt.Errorf("%s: %w", who.name, err)
			}
		}
		for _, command := range o.Commands {
			for _, connections := range o.Connections {
				for _, pipeline := range o.Pipelines {
					c := &StockClientCase{Command: strings.ToUpper(command), Connections: connections,
						Pipeline: pipeline}
					o.progress("%s -c %d -P %d", command, connections, pipeline)
					if err := run.measure(ctx, c, all); err != nil {
						return err
					}
					res.Cases = append(res.Cases, c)
				}
			}
		}
		return nil
	})
}

// stockClient runs redis-benchmark.
type stockClient struct {
	program string
	o       *StockClientOptions
}

// preload writes so many random keys that hardly one of them is missing.
func (s *stockClient) preload(ctx context.Context, t *contender) error {
	n := int(float64(s.o.Keys) * (math.Log(float64(s.o.Keys)) + 3))
	if _, err := s.run(ctx, t, &StockClientCase{Command: "SET", Connections: 20, Pipeline: 16}, n); err != nil {
		return err
	}
	_, err := t.drain(ctx)
	return err
}

// measure runs all rounds of a case. The first one of each system tells how many requests take about as long as a round
// is to last.
func (s *stockClient) measure(ctx context.Context, c *StockClientCase, targets contest) error {
	requests := make([]int, len(targets))
	for i, t := range targets {
		c.Ways = append(c.Ways, &StockClientWay{Name: t.name})
		first, err := s.run(ctx, t, c, max(2000, 4*c.atOnce()))
		if err != nil {
			return fmt.Errorf("%s: %w", t.name, err)
		}
		requests[i] = max(int(first.rps*s.o.Length.Seconds()), 4*c.atOnce())
	}
	for range s.o.Rounds {
		for i, t := range targets {
			f, err := s.run(ctx, t, c, requests[i])
			if err != nil {
				return fmt.Errorf("%s: %w", t.name, err)
			}
			if _, err := t.drain(ctx); err != nil {
				return err
			}
			w := c.Ways[i]
			w.rps, w.p50, w.p99 = append(w.rps, f.rps), append(w.p50, f.p50), append(w.p99, f.p99)
		}
	}
	for _, w := range c.Ways {
		w.Throughput, w.P50Ms, w.P99Ms = spreadOf(w.rps), spreadOf(w.p50), spreadOf(w.p99)
		var ratios []float64
		for i, rps := range w.rps {
			ratios = append(ratios, rps/c.Ways[0].rps[i])
		}
		w.Ratio = spreadOf(ratios)
	}
	return nil
}

// stockFigures is a line of redis-benchmark: requests per second, and latencies in milliseconds.
type stockFigures struct{ rps, p50, p99 float64 }

// atOnce is how many requests are in flight.
func (c *StockClientCase) atOnce() int { return c.Connections * c.Pipeline }

// run sends at least so many requests.
func (s *stockClient) run(ctx context.Context, t *contender, c *StockClientCase, requests int) (f stockFigures,
	err error) {
	host, port, err := net.SplitHostPort(t.addr())
	if err != nil {
		return f, err
	}
	// redis-benchmark may fail at the end if not all clients send as many, in whole pipelines
	requests += c.atOnce() - 1
	requests -= requests % c.atOnce()
	cmd := exec.CommandContext(ctx, s.program, "-h", host, "-p", port, "-t", strings.ToLower(c.Command), "-c",
		strconv.Itoa(c.Connections), "-P", strconv.Itoa(c.Pipeline),
		"-n", strconv.Itoa(requests), "-r", strconv.Itoa(s.o.Keys), "-d", strconv.Itoa(s.o.ValueBytes), "--csv")
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problems
	if err := cmd.Run(); err != nil {
		return f, fmt.Errorf("%s: %w: %.500s%.500s", strings.Join(cmd.Args, " "), err, problems.String(), out.String())
	}
	if f, err = parseStockFigures(out.Bytes(), c.Command); err != nil {
		return f, fmt.Errorf("%s: %w", strings.Join(cmd.Args, " "), err)
	}
	return f, nil
}

// parseStockFigures reads what redis-benchmark --csv prints of a command.
func parseStockFigures(out []byte, command string) (f stockFigures, err error) {
	lines, err := csv.NewReader(bytes.NewReader(out)).ReadAll()
	if err != nil {
		return f, fmt.Errorf("its output is no CSV: %w: %.500s", err, out)
	}
	if len(lines) != 2 || strings.TrimSuffix(lines[1][0], " (10 keys)") != command {
		return f, fmt.Errorf("its output is not a line for %s: %.500s", command, out)
	}
	for i, column := range lines[0] {
		var to *float64
		switch column {
		case "rps":
			to = &f.rps
		case "p50_latency_ms":
			to = &f.p50
		case "p99_latency_ms":
			to = &f.p99
		default:
			continue
		}
		if *to, err = strconv.ParseFloat(lines[1][i], 64); err != nil {
			return f, fmt.Errorf("column %s of its output: %w", column, err)
		}
	}
	if !(f.rps > 0) {
		return f, fmt.Errorf("its output has no throughput: %.500s", out)
	}
	return f, nil
}

// Report has the figures.
func (r *StockClient) Report() *Report {
	t := &table{title: "What redis-benchmark says",
		head: []string{"command", "-c", "-P", "way", "requests/s", "ratio", "p50 ms", "p99 ms"}}
	for _, c := range r.Cases {
		for _, w := range c.Ways {
			t.add(c.Command, fmt.Sprint(c.Connections), fmt.Sprint(c.Pipeline), w.Name, w.Throughput.text("%.0f"),
				w.Ratio.text("%.2f"), fmt.Sprintf("%.2f", w.P50Ms.Median), fmt.Sprintf("%.2f", w.P99Ms.Median))
		}
	}
	t.mergeRepeated(3)
	return r.report("redis-benchmark", "redis-benchmark against a stock Redis (appendfsync always), and the same "+
		"behind coordinator, middleman, cache and sidecar, each a process",
		fmt.Sprintf("%d keys, values of %d bytes; about %s", r.Keys, r.ValueBytes, inTurn(r.Rounds, r.Seconds)),
		tablesIn(t)...)
}
