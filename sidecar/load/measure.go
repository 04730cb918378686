package load

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/causalstore/causalstore/sidecar/history"
)

// Result is what a run has measured.
type Result struct {
	// Elapsed is from the first operation to the end of the last one, without final reads.
	Elapsed time.Duration
	// Ops counts the operations that succeeded; Failed and Unknown the others, by what is known of their effect.
	Ops, Failed, Unknown int64
	// Throughput is Ops a second.
	Throughput float64
	// Get, Put, Delete and MGet are the latencies of successful operations, in microseconds.
	Get, Put, Delete, MGet *hdrhistogram.Histogram
	// Errors counts operations by what went wrong: the code of an error reply, "connect", "timeout", "connection", or
	// "causal-last" for answers to CAUSAL LAST that make no sense.
	Errors map[string]int64
	// Sources and Statuses count the second and third part of the answers to CAUSAL LAST.
	Sources, Statuses map[string]int64
	// Reconnects counts connections that were lost after they had worked.
	Reconnects int64
	// Final says how the final reads went; nil if there were none.
	Final *Final
}

// Final is the outcome of the final reads.
type Final struct {
	Keys     int // that were written, and so read
	Disagree int // on which the endpoints did not agree in time
	Behind   int // on which they agreed on a version that is older than an acknowledged write
	// Undrained counts the sessions for which CAUSAL WAIT did not say that all their writes are everywhere.
	Undrained int
	Rounds    int
}

// Settled reports whether the final reads found every key in its last state at every endpoint.
func (f Final) Settled() bool { return f.Disagree == 0 && f.Behind == 0 }

// Latencies are kept from a microsecond to ten minutes, to three digits.
const (
	lowestMicros  = 1
	highestMicros = 10 * 60 * 1e6
	digits        = 3
)

// meter collects measurements from all connections.
type meter struct {
	mu     sync.Mutex
	result Result
}

func newMeter() *meter {
	h := func() *hdrhistogram.Histogram { return hdrhistogram.New(lowestMicros, highestMicros, digits) }
	return &meter{result: Result{Get: h(), Put: h(), Delete: h(), MGet: h(), Errors: map[string]int64{},
		Sources: map[string]int64{}, Statuses: map[string]int64{}}}
}

func (r *Result) of(k history.OpKind) *hdrhistogram.Histogram {
	switch k {
	case history.Put:
		return r.Put
	case history.Delete:
		return r.Delete
	case history.MGet:
		return r.MGet
	default:
		return r.Get
	}
}

// record records a value that fits the histogram: longer ones count as the longest.
func record(h *hdrhistogram.Histogram, latency time.Duration) {
	if err := h.RecordValue(min(max(latency.Microseconds(), lowestMicros), highestMicros)); err != nil {
		panic(fmt.Sprintf("latency %v does not fit a histogram made for it: %v", latency, err))
	}
}

// String is a summary for people.
func (r *Result) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d operations in %v: %.0f/s; %d failed, %d of unknown outcome, %d reconnects\n", r.Ops,
		r.Elapsed.Round(time.Millisecond), r.Throughput, r.Failed, r.Unknown, r.Reconnects)
	for _, row := range []struct {
		name string
		h    *hdrhistogram.Histogram
	}{{"get", r.Get}, {"mget", r.MGet}, {"put", r.Put}, {"delete", r.Delete}} {
		if row.h.TotalCount() > 0 {
			at := func(q float64) float64 { return float64(row.h.ValueAtQuantile(q)) / 1e3 }
			fmt.Fprintf(&b, "  %-7s %9d  mean %.3f  p50 %.3f  p90 %.3f  p99 %.3f  p99.9 %.3f  max %.3f ms\n", row.name,
				row.h.TotalCount(), row.h.Mean()/1e3, at(50), at(90), at(99), at(99.9), float64(row.h.Max())/1e3)
		}
	}
	for _, row := range []struct {
		name   string
		counts map[string]int64
	}{{"errors", r.Errors}, {"read from", r.Sources}, {"states", r.Statuses}} {
		if len(row.counts) > 0 {
			b.WriteString("  " + row.name + ":")
			for _, k := range slices.Sorted(maps.Keys(row.counts)) {
				fmt.Fprintf(&b, " %s %d", k, row.counts[k])
			}
			b.WriteByte('\n')
		}
	}
	if f := r.Final; f != nil {
		fmt.Fprintf(&b, "  final reads of %d keys in %d rounds: endpoints disagree on %d, are behind on %d; %d sessions not drained\n",
			f.Keys, f.Rounds, f.Disagree, f.Behind, f.Undrained)
	}
	return b.String()
}
