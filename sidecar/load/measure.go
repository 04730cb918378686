package load

import (
	"fmt"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Result is what a run has measured.
type Result struct {
	// Elapsed is from the first operation to the end of the last one, without preloading and final reads.
	Elapsed time.Duration
	// Ops counts the operations that succeeded; Failed and Unknown the others, by what is known of their effect.
	Ops, Failed, Unknown int64
	// Unsent counts the operations of the open loop that were due before the end, but for which no connection was free.
	Unsent int64
	// Throughput is Ops a second.
	Throughput float64
	// Latency is that of successful operations, in microseconds. Verbs that did not occur are not in it.
	Latency map[Verb]*hdrhistogram.Histogram
	// Reads counts the keys that were read, and Misses those of them that were not there.
	Reads, Misses int64
	// Errors counts operations by what went wrong: the code of an error reply, "connect", "timeout", "connection",
	// "unwritten" for a read-modify-write that lost its connection between its halves, or "causal-last" for answers to
	// CAUSAL LAST that make no sense.
	Errors map[string]int64
	// Sources and Statuses count the second and third part of the answers to CAUSAL LAST.
	Sources, Statuses map[string]int64
	// Reconnects counts connections that were lost after they had worked.
	Reconnects int64
	// Preload says how the keys were written beforehand; nil if none were.
	Preload *Preload
	// Final says how the final reads went; nil if there were none.
	Final *Final

	config Config // what was run
}

// Preload is the outcome of preloading.
type Preload struct {
	Keys    int
	Elapsed time.Duration
	// Unsettled counts sessions for which the endpoint knows CAUSAL WAIT, but did not say that their writes are everywhere.
	Unsettled int
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

func newHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(lowestMicros, highestMicros, digits)
}

// meter collects measurements from all connections.
type meter struct {
	mu     sync.Mutex
	result Result
	series *series // nil: none is wanted
}

func newMeter() *meter {
	return &meter{result: Result{Latency: map[Verb]*hdrhistogram.Histogram{}, Errors: map[string]int64{}, Sources: map[string]int64{},
		Statuses: map[string]int64{}}}
}

// take counts a request whose outcome is known. The meter is locked.
func (m *meter) take(r *request, latency time.Duration) {
	op := r.decisive()
	var counted outcome
	switch {
	case op.OK:
		m.result.Ops++
		counted = succeeded
		record(m.result.of(r.verb), latency)
		misses, reads := r.misses()
		m.result.Misses += misses
		m.result.Reads += reads
	case op.Unknown:
		m.result.Unknown++
		counted = unknown
	default:
		m.result.Failed++
		counted = failed
	}
	if m.series != nil {
		m.series.take(r.ended(), counted, latency)
	}
}

func (m *meter) reconnected() {
	m.mu.Lock()
	m.result.Reconnects++
	m.mu.Unlock()
}

func (r *Result) of(v Verb) *hdrhistogram.Histogram {
	h := r.Latency[v]
	if h == nil {
		h = newHistogram()
		r.Latency[v] = h
	}
	return h
}

// record records a value that fits the histogram: longer ones count as the longest.
func record(h *hdrhistogram.Histogram, latency time.Duration) {
	if err := h.RecordValue(min(max(latency.Microseconds(), lowestMicros), highestMicros)); err != nil {
		panic(fmt.Sprintf("latency %v does not fit a histogram made for it: %v", latency, err))
	}
}
