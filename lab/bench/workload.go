package bench

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/causalstore/causalstore/lab/load"
)

// workload is what the connections of a driver ask for.
type workload struct {
	records  records
	reads    float64  // share of GETs; the others are SETs
	command  *command // of a case with another command; nil: GETs and SETs
	popular  popularity
	pipeline int
	// once asks for every key once, in order, instead of for random ones.
	once   bool
	pacing pacing
}

// popularity is how often keys are asked for: key i with a probability proportional to 1/(i+1)^theta, as in YCSB's
// zipfian distribution; all alike if there is none.
type popularity struct{ *load.Zipf }

func (p popularity) draw(r *rand.Rand, keys int) int {
	if p.Zipf == nil {
		return r.IntN(keys)
	}
	return int(p.Rank(r))
}

// pacing is how long clients pause between a reply and the next request. The zero pacing is no pause.
type pacing struct {
	think time.Duration
	// rates, if given, bound the operations per second that the clients of each site start together.
	rates []float64
	// clients is how many there are of each site.
	clients []int
}

// interval is the time from one operation of a client to its next one that the rate of its site demands; 0 is no bound.
func (p pacing) interval(site int) time.Duration {
	if p.rates == nil || p.rates[site] <= 0 {
		return 0
	}
	return min(time.Duration(float64(p.clients[site])/p.rates[site]*float64(time.Second)), time.Minute)
}

// firstPause spreads the first requests of clients over time.
func (p pacing) firstPause(c *client) time.Duration {
	return time.Duration(c.random.Int64N(int64(max(p.think, p.interval(c.site))) + 1))
}

// pause is how long a client thinks, and waits until its next operation is due, after a reply at done. It does not
// catch up on operations that were due while it waited for the reply.
func (p pacing) pause(c *client, done time.Duration) time.Duration {
	pause := p.think
	if interval := p.interval(c.site); interval > 0 {
		c.next = max(c.next+interval, done-interval)
		pause = max(pause, c.next-done)
	}
	return pause
}

// burst is a stretch of load without pauses.
type burst struct {
	workload
	// duration is how long; 0 asks for every key once, in order.
	duration time.Duration
}

// burstResult is what a burst has measured.
type burstResult struct {
	Ops     int64
	Wrong   int64 // replies of another type than the right one
	Example string
	Elapsed time.Duration
	// Latency is from sending a request, or a pipeline of them, to its last reply, in nanoseconds, once per operation.
	Latency *hdrhistogram.Histogram
}

// newLatency returns a histogram of nanoseconds, from a microsecond to two minutes.
func newLatency() *hdrhistogram.Histogram { return hdrhistogram.New(1000, int64(2*time.Minute), 3) }

// inRange is a latency that the histogram can record: longer ones count as its longest.
func inRange(h *hdrhistogram.Histogram, latency time.Duration) int64 {
	return min(int64(latency), h.HighestTrackableValue())
}

// Throughput is operations per second.
func (m burstResult) Throughput() float64 { return float64(m.Ops) / max(m.Elapsed.Seconds(), 1e-9) }

// failOnWrongReplies turns wrong replies into an error.
func failOnWrongReplies(l burstResult, err error) error {
	if err == nil && l.Wrong > 0 {
		return fmt.Errorf("%d of %d replies are wrong, such as %q", l.Wrong, l.Ops, l.Example)
	}
	return err
}

// replyTimeout is how long a request may go without a reply before the run fails.
const replyTimeout = 15 * time.Second
