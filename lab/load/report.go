package load

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// String returns the summary that WriteText writes.
func (r *Result) String() string {
	var b strings.Builder
	r.WriteText(&b)
	return b.String()
}

// WriteText writes a summary for people.
func (r *Result) WriteText(out io.Writer) {
	if p := r.Preload; p != nil {
		fmt.Fprintf(out, "%d keys preloaded in %s", p.Keys, p.Elapsed.Round(time.Millisecond))
		if p.Unsettled > 0 {
			fmt.Fprintf(out, "; %d sessions did not confirm that their writes are complete", p.Unsettled)
		}
		fmt.Fprintln(out)
	}
	fmt.Fprintf(out, "%d operations in %s: %.0f per second; %d failed, %d of unknown outcome, %d reconnects\n\n", r.Ops,
		r.Elapsed.Round(time.Millisecond), r.Throughput, r.Failed, r.Unknown, r.Reconnects)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "ms\tcount\tmean\tp50\tp95\tp99\tp99.9\tmax\t")
	for _, v := range slices.Sorted(maps.Keys(r.Latency)) {
		h := r.Latency[v]
		at := func(q float64) float64 { return float64(h.ValueAtQuantile(q)) / 1e3 }
		fmt.Fprintf(w, "%s\t%d\t%.3f\t%.3f\t%.3f\t%.3f\t%.3f\t%.3f\t\n", strings.ToUpper(v.String()), h.TotalCount(),
			h.Mean()/1e3, at(50),
			at(95), at(99), at(99.9), float64(h.Max())/1e3)
	}
	_ = w.Flush() // the writer took the lines before
	if r.config.Workload != nil && r.Reads > 0 {
		fmt.Fprintf(out, "keys read: %d, not found: %d\n", r.Reads, r.Misses)
	}
	if r.Unsent > 0 {
		fmt.Fprintf(out, "due but not sent before the end: %d", r.Unsent)
		if r.Unsent > int64(r.config.connections()) { // fewer may have become due at the last moment
			fmt.Fprint(out, "; the endpoints or the connections cannot keep up with the rate")
		}
		fmt.Fprintln(out)
	}
	writeCounts(out, "answered from", r.Sources)
	writeCounts(out, "states", r.Statuses)
	writeCounts(out, "errors", r.Errors)
	for _, code := range slices.Sorted(maps.Keys(r.Examples)) {
		fmt.Fprintf(out, "  such as: %s\n", r.Examples[code])
	}
	if f := r.Final; f != nil {
		fmt.Fprintf(out,
			"final reads of %d keys in %d rounds: endpoints disagree on %d and are behind on %d; %d sessions "+
				"not drained\n",
			f.Keys, f.Rounds, f.Disagree, f.Behind, f.Undrained)
	}
	if r.Inside != nil {
		r.Inside.writeText(out)
	}
}

func (i *Inside) writeText(out io.Writer) {
	if i.Pairs == 0 {
		fmt.Fprintln(out, "pairs of SET at one endpoint of a data center and GET at another one: none")
	} else {
		fmt.Fprintf(out, "pairs of SET at one endpoint of a data center and GET at another one right after OK: %d, of "+
			"which %d (%.1f %%) returned something old; %d with an error\n", i.Pairs, i.OldPairs,
			100*float64(i.OldPairs)/float64(i.Pairs), i.FailedPairs)
	}
	fmt.Fprintf(out, "added to counters of one data center: %d acknowledged, %d of unknown outcome; counted: %d",
		i.Added, i.AddedUnknown, i.Counted)
	if i.Unread > 0 {
		fmt.Fprintf(out, "; %d last values were not read", i.Unread)
	}
	fmt.Fprintln(out)
}

func writeCounts(out io.Writer, name string, counts map[string]int64) {
	if len(counts) == 0 {
		return
	}
	parts := make([]string, 0, len(counts))
	for _, k := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%s %d", k, counts[k]))
	}
	fmt.Fprintf(out, "%s: %s\n", name, strings.Join(parts, ", "))
}

// resultJSON is the form of a result for programs.
type resultJSON struct {
	Workload       string                 `json:"workload,omitempty"`
	Connections    int                    `json:"connections"`
	Pipeline       int                    `json:"pipeline"`
	RatePerSecond  float64                `json:"ratePerSecond,omitempty"`
	Arrivals       Arrivals               `json:"arrivals,omitempty"`
	Keys           int                    `json:"keys"`
	Seed           uint64                 `json:"seed"`
	PreloadedKeys  int                    `json:"preloadedKeys,omitempty"`
	PreloadSeconds float64                `json:"preloadSeconds,omitempty"`
	ElapsedSeconds float64                `json:"elapsedSeconds"`
	OpsPerSecond   float64                `json:"opsPerSecond"`
	Ops            int64                  `json:"ops"`
	Failed         int64                  `json:"failed"`
	Unknown        int64                  `json:"unknown"`
	Unsent         int64                  `json:"unsent"`
	Reconnects     int64                  `json:"reconnects"`
	KeysRead       int64                  `json:"keysRead"`
	KeysMissing    int64                  `json:"keysMissing"`
	LatencyMicros  map[string]latencyJSON `json:"latencyMicros"`
	Errors         map[string]int64       `json:"errors,omitempty"`
	Examples       map[string]string      `json:"errorExamples,omitempty"`
	AnsweredFrom   map[string]int64       `json:"answeredFrom,omitempty"`
	States         map[string]int64       `json:"states,omitempty"`
	Inside         *Inside                `json:"insideDataCenters,omitempty"`
}

type latencyJSON struct {
	Count int64   `json:"count"`
	Mean  float64 `json:"mean"`
	P50   int64   `json:"p50"`
	P90   int64   `json:"p90"`
	P95   int64   `json:"p95"`
	P99   int64   `json:"p99"`
	P999  int64   `json:"p999"`
	Max   int64   `json:"max"`
}

func newLatencyJSON(h *hdrhistogram.Histogram) latencyJSON {
	return latencyJSON{Count: h.TotalCount(), Mean: h.Mean(), P50: h.ValueAtQuantile(50), P90: h.ValueAtQuantile(90),
		P95: h.ValueAtQuantile(95),
		P99: h.ValueAtQuantile(99), P999: h.ValueAtQuantile(99.9), Max: h.Max()}
}

// WriteJSON writes the result as JSON, with latencies in microseconds per verb.
func (r *Result) WriteJSON(out io.Writer) error {
	c := &r.config
	j := resultJSON{Connections: c.Sessions * c.ConnectionsPerSession, Pipeline: c.Pipeline, RatePerSecond: c.Rate,
		Keys: c.Keys, Seed: c.Seed,
		ElapsedSeconds: r.Elapsed.Seconds(), OpsPerSecond: r.Throughput, Ops: r.Ops, Failed: r.Failed,
		Unknown: r.Unknown, Unsent: r.Unsent,
		Reconnects: r.Reconnects, KeysRead: r.Reads, KeysMissing: r.Misses, Errors: r.Errors, Examples: r.Examples,
		AnsweredFrom:  r.Sources,
		States:        r.Statuses,
		Inside:        r.Inside,
		LatencyMicros: make(map[string]latencyJSON)}
	if c.Workload != nil {
		j.Workload = c.Workload.Name
	}
	if c.Rate > 0 {
		j.Arrivals = c.Arrivals
	}
	if r.Preload != nil {
		j.PreloadedKeys, j.PreloadSeconds = r.Preload.Keys, r.Preload.Elapsed.Seconds()
	}
	for v, h := range r.Latency {
		j.LatencyMicros[v.String()] = newLatencyJSON(h)
	}
	e := json.NewEncoder(out)
	e.SetIndent("", "  ")
	if err := e.Encode(&j); err != nil {
		return fmt.Errorf("write result: %w", err)
	}
	return nil
}
