package bench

import (
	"bytes"
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// StockClientOptions describe what redis-benchmark is to measure.
type StockClientOptions struct {
	// Binary is the causalstore program.
	Binary string
	// Dir is where all servers keep their data: it decides which disk is measured.
	Dir string
	// Commands are GET, SET, INCR and MSET (of ten keys); Connections and Pipelines are the values of its -c and -P.
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
	// Progress receives a line per step; nil receives none.
	Progress io.Writer
}

// StockClient compares a stock Redis, and the same Redis behind the parts of one data center, by redis-benchmark.
type StockClient struct {
	Machine    string             `json:"machine"`
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

// MeasureWithStockClient runs redis-benchmark in turns against a stock Redis, and against the same Redis behind the
// parts of one data center, each of them a process, with mutual TLS between them, without and with near copies.
func MeasureWithStockClient(ctx context.Context, o StockClientOptions) (res *StockClient, err error) {
	client, err := exec.LookPath("redis-benchmark")
	if err != nil {
		return nil, fmt.Errorf("%w; install it (Debian: apt-get install redis-tools, macOS: brew install redis)", err)
	}
	dir, err := makeDataDir(o.Dir)
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	ways := WorkloadsOptions{NearBytes: o.NearBytes}.ways()
	targets, err := startTargets(ctx, o.Binary, dir, ways)
	defer func() { err = stopTargets(targets, err) }()
	if err != nil {
		return nil, err
	}
	res = &StockClient{Machine: machine(), Keys: o.Keys, ValueBytes: o.ValueBytes, Rounds: o.Rounds,
		Seconds: o.Length.Seconds()}
	run := stockClient{program: client, o: o}
	for _, t := range targets {
		reportProgress(o.Progress, "%s: preload %d keys", t.name, o.Keys)
		if err := run.preload(ctx, t); err != nil {
			return nil, fmt.Errorf("%s: %w", t.name, err)
		}
	}
	for _, command := range o.Commands {
		for _, connections := range o.Connections {
			for _, pipeline := range o.Pipelines {
				c := &StockClientCase{Command: command, Connections: connections, Pipeline: pipeline}
				reportProgress(o.Progress, "%s -c %d -P %d", command, connections, pipeline)
				if err := run.measure(ctx, c, targets); err != nil {
					return nil, err
				}
				res.Cases = append(res.Cases, c)
			}
		}
	}
	return res, nil
}

// stockClient runs redis-benchmark.
type stockClient struct {
	program string
	o       StockClientOptions
}

// preload writes so many random keys that hardly one of them is missing.
func (s *stockClient) preload(ctx context.Context, t *processTarget) error {
	n := int(float64(s.o.Keys) * (math.Log(float64(s.o.Keys)) + 3))
	if _, err := s.run(ctx, t, &StockClientCase{Command: "SET", Connections: 20, Pipeline: 16}, n); err != nil {
		return err
	}
	return t.drain(ctx)
}

// measure runs all rounds of a case. The first one of each system tells how many requests take about as long as a round
// is to last.
func (s *stockClient) measure(ctx context.Context, c *StockClientCase, targets []*processTarget) error {
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
			if err := t.drain(ctx); err != nil {
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
func (s *stockClient) run(ctx context.Context, t *processTarget, c *StockClientCase, requests int) (f stockFigures,
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

// Text prints the figures.
func (r *StockClient) Text(out io.Writer) {
	t := table{
		title: "redis-benchmark against a stock Redis (appendfsync always), and the same behind coordinator, " +
			"middleman, cache and sidecar, each a process",
		note: fmt.Sprintf(
			"%s; %d keys, values of %d bytes; %d rounds of about %.1f s each way in turn; median (least..greatest)",
			r.Machine, r.Keys, r.ValueBytes,
			r.Rounds, r.Seconds),
		head: []string{"command", "-c", "-P", "way", "requests/s", "ratio", "p50 ms", "p99 ms"}}
	for _, c := range r.Cases {
		cells := []string{c.Command, fmt.Sprint(c.Connections), fmt.Sprint(c.Pipeline)}
		for _, w := range c.Ways {
			t.add(append(cells, w.Name, w.Throughput.text("%.0f"), w.Ratio.text("%.2f"),
				fmt.Sprintf("%.2f", w.P50Ms.Median), fmt.Sprintf("%.2f", w.P99Ms.Median))...)
			cells = []string{"", "", ""}
		}
	}
	t.text(out)
}
