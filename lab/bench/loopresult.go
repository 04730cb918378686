package bench

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// loopResult is what the clients of a closed loop measured.
type loopResult struct {
	sites   []*siteResult // by address
	elapsed time.Duration
}

// siteResult is what the clients of one address measured together.
type siteResult struct {
	ops      int64
	failed   int64
	example  string                  // of a failure
	get, put *hdrhistogram.Histogram // nanoseconds
	window   time.Duration
	series   []windowResult
}

// windowResult is one point of a time series.
type windowResult struct {
	ops, gets int64
	getTime   time.Duration // sum
}

func newSiteResult(l *closedLoop) *siteResult {
	s := &siteResult{get: newLatency(), put: newLatency(), window: l.window}
	if l.window > 0 {
		s.series = make([]windowResult, max(1, int((l.length+l.window-1)/l.window)))
	}
	return s
}

// add counts an operation that ended at a time since the start of the measurement.
func (s *siteResult) add(isGet, wrong bool, reply string, at, took time.Duration) {
	if wrong {
		s.failed++
		s.example = reply
		return
	}
	s.ops++
	latency := s.put
	if isGet {
		latency = s.get
	}
	_ = latency.RecordValue(inRange(latency, took))
	if s.window > 0 {
		w := &s.series[min(int(at/s.window), len(s.series)-1)]
		w.ops++
		if isGet {
			w.gets++
			w.getTime += took
		}
	}
}

// rates are the operations per second by address.
func (r *loopResult) rates() []float64 {
	out := make([]float64, len(r.sites))
	for i, s := range r.sites {
		out[i] = float64(s.ops) / max(r.elapsed.Seconds(), 1e-9)
	}
	return out
}

func (r *loopResult) throughput() (sum float64) {
	for _, v := range r.rates() {
		sum += v
	}
	return sum
}

func (r *loopResult) ops() (n int64) {
	for _, s := range r.sites {
		n += s.ops
	}
	return n
}
