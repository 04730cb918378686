package bench

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// burst is one stretch of closed-loop load.
type burst struct {
	frames   frames
	pipeline int
	// duration is how long; 0 sends every request once, in order.
	duration time.Duration
}

// measured is what a burst has measured.
type measured struct {
	Ops     int64
	Wrong   int64 // replies of another type than the right one
	Example string
	Elapsed time.Duration
	// Latency is from sending a request, or a pipeline of them, to its last reply, in nanoseconds, once per operation.
	Latency *hdrhistogram.Histogram
}

func newLatency() *hdrhistogram.Histogram { return hdrhistogram.New(1000, int64(2*time.Minute), 3) }

// Throughput is operations a second.
func (l measured) Throughput() float64 { return float64(l.Ops) / max(l.Elapsed.Seconds(), 1e-9) }

// draw is a small generator of uniform numbers (xorshift), one per connection.
type draw uint64

func (d *draw) below(n int) int {
	x := uint64(*d)
	x ^= x << 13
	x ^= x >> 7
	x ^= x << 17
	*d = draw(x)
	return int(x >> 11 % uint64(n))
}

// stall is how long a request may go without an answer before the run counts as failed.
const stall = 15 * time.Second
