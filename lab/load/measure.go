package load

import (
	"fmt"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Result is what a run measured.
type Result struct {
	// Elapsed is from the first operation to the end of the last one, without preloading and final reads.
	Elapsed time.Duration
	// Ops counts operations that succeeded. Failed counts those that certainly had no effect, Unknown those that may
	// have had one.
	Ops, Failed, Unknown int64
	// Unsent counts operations of the open loop that were due before the end, but for which no connection was free.
	Unsent int64
	// Throughput is Ops per second.
	Throughput float64
	// Latency holds the latencies of successful operations in microseconds. Verbs that did not occur are absent.
	Latency map[Verb]*hdrhistogram.Histogram
	// Reads counts the keys that were read, and Misses those of them that did not exist.
	Reads, Misses int64
	// Errors counts operations by error: the code of an error reply, "connect", "timeout", "connection", "unwritten"
	// for a read-modify-write that lost its connection between read and write, or "causal-last" for malformed replies
	// to CAUSAL LAST.
	Errors map[string]int64
	// Examples has the text of the last error reply of each code.
	Examples map[string]string
	// Sources and Statuses count the second and third element of the replies to CAUSAL LAST.
	Sources, Statuses map[string]int64
	// Reconnects counts connections that were lost after at least one reply.
	Reconnects int64
	// Preload is the outcome of preloading; nil if no keys were preloaded.
	Preload *Preload
	// Final is the outcome of the final reads; nil if there were none.
	Final *Final
	// Inside is what a load that checks DataCenter has seen; nil for others.
	Inside *Inside

	config Config // with defaults
}

// Preload is the outcome of preloading.
type Preload struct {
	Keys    int
	Elapsed time.Duration
	// Unsettled counts sessions whose endpoint knows CAUSAL WAIT but did not confirm that their writes are complete.
	Unsettled int
}

// Final is the outcome of the final reads.
type Final struct {
	Keys     int // written, and therefore read
	Disagree int // on which the endpoints still disagreed at the end
	Behind   int // on which they agreed on a version older than an acknowledged write
	// Undrained counts sessions for which CAUSAL WAIT did not confirm that all their writes are complete.
	Undrained int
	Rounds    int
}

// Settled reports whether the final reads found the last state of every key at every endpoint.
func (f Final) Settled() bool { return f.Disagree == 0 && f.Behind == 0 }

// Latencies range from a microsecond to ten minutes, with three significant digits.
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
	series *series // nil: not wanted
	// observe is Config.Observe.
	observe func(Observation)
}

func newMeter() *meter {
	return &meter{result: Result{Latency: map[Verb]*hdrhistogram.Histogram{}, Errors: map[string]int64{},
		Examples: map[string]string{}, Sources: map[string]int64{},
		Statuses: map[string]int64{}}}
}

// Observation is how an operation ended.
type Observation struct {
	Endpoint string // its data center
	Verb     Verb
	// Latency is the time until now, as the package comment says. Here operations that did not succeed have one, too.
	Latency time.Duration
	// Error is the kind of error that it ended with, as in Result.Errors; empty if it succeeded.
	Error string
	// Source is where a read was answered, as in Result.Sources; empty if the endpoint did not say.
	Source string
}

// take counts a request whose outcome is known. The caller holds the lock.
func (m *meter) take(r *request, latency time.Duration, err error) {
	seen := Observation{Endpoint: r.op.DC, Verb: r.verb, Latency: latency, Source: r.source}
	if err != nil {
		seen.Error = ErrorKind(err)
		m.result.Errors[seen.Error]++
		if Answered(err) {
			m.result.Examples[seen.Error] = err.Error()
		}
	}
	if m.observe != nil {
		m.observe(seen)
	}
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

// record adds a latency; those beyond the range count as its end.
func record(h *hdrhistogram.Histogram, latency time.Duration) {
	if err := h.RecordValue(min(max(latency.Microseconds(), lowestMicros), highestMicros)); err != nil {
		panic(fmt.Sprintf("latency %v does not fit a histogram made for it: %v", latency, err))
	}
}
