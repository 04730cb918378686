package coordinator

import (
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
)

// flow bounds what a lane has in flight (PROTOCOL LAN-9): the bytes that were sent and are not acknowledged. The
// limit is twice what the shard acknowledges in a round trip and a quarter of a second. So it grows as long as more in
// flight makes more get through, whatever the round trip, and a shard that is slow has about a second's worth of each
// coordinator's puts: more would only make the puts of other coordinators wait, and look as if they were lost.
//
// Latency alone does not say that a shard is slow: a put also waits until its dependencies are clean at other shards,
// to which other lanes lead.
type flow struct {
	max      int // bound of limit
	limit    int // bytes that may be in flight
	inFlight int
	emptyAt  int64 // monotonic: when nothing was in flight last

	// A measurement of the rate of acknowledgements lasts for a round trip and slack, and at least as long as a put
	// takes: meanwhile the shard has taken the puts of all coordinators in turn.
	since int64 // monotonic: when it began
	acked int   // bytes that were acknowledged since then
	held  bool  // the limit has held a put back since then

	latency int64 // moving average of the time until an acknowledgement, up to maxLatency
	lowest  windowedMin
}

const (
	// startLimit is the limit of a lane that has sent nothing yet, and below which no limit shrinks, in bytes.
	startLimit = 512 << 10
	// slack is added to the round trip: the limit grows although acknowledgements do not come at once, and they come in
	// batches.
	slack = 250 * time.Millisecond
	// maxLatency bounds what is taken for the time until an acknowledgement: a put may also wait for the lease of a
	// cache.
	maxLatency = 2 * time.Second
)

// newFlow returns the flow of a lane with an expected round trip.
func newFlow(max int, roundTrip time.Duration) flow {
	return flow{max: max, limit: min(startLimit, max), latency: int64(roundTrip)}
}

// admits reports whether a put may be sent. One put may always be in flight, however large it is.
func (f *flow) admits(size int) bool {
	ok := f.inFlight == 0 || f.inFlight+size <= f.limit
	f.held = f.held || !ok
	return ok
}

// sent records that a put was sent for the first time.
func (f *flow) sent(now causal.Now, size int) {
	if f.inFlight == 0 && now.Mono-f.emptyAt > int64(slack) {
		f.startMeasurement(now) // the lane was idle
	}
	f.inFlight += size
}

// acknowledged records that a put was acknowledged, which was last sent at a time. again says that it was sent more
// than once, so that it is unknown which sending was acknowledged.
func (f *flow) acknowledged(now causal.Now, size int, sentAt int64, again bool) {
	f.inFlight -= size
	f.acked += size
	if f.inFlight == 0 {
		f.emptyAt = now.Mono
	}
	if took := max(now.Mono-sentAt, 1); !again {
		f.latency = min(f.latency+(took-f.latency)/8, int64(maxLatency))
		f.lowest.add(now, took)
	}
}

// measure ends the measurement if it has lasted long enough, and adjusts the limit if that has held puts back. It is
// called when all acknowledgements of a message are taken.
func (f *flow) measure(now causal.Now) {
	took, roundTrip := now.Mono-f.since, f.lowest.value()+int64(slack)
	if took < max(roundTrip, f.latency) {
		return
	}
	if f.held {
		rate := float64(f.acked) / float64(took)
		f.limit = min(startLimit+int(2*rate*float64(roundTrip)), f.max)
	}
	f.startMeasurement(now)
}

func (f *flow) startMeasurement(now causal.Now) { f.since, f.acked, f.held = now.Mono, 0, false }

// restart begins again with a small limit, because what is in flight may be lost, and the way to the shard be another
// one.
func (f *flow) restart(now causal.Now) {
	f.limit = min(startLimit, f.max)
	f.startMeasurement(now)
}

// setMax replaces the bound.
func (f *flow) setMax(max int) {
	f.max = max
	f.limit = min(f.limit, max)
}

// windowedMin is the least of the values of the last ten to twenty seconds.
type windowedMin struct {
	current, previous int64 // 0: none
	since             int64 // monotonic: when current began
}

const minPeriod = 10 * time.Second

func (m *windowedMin) add(now causal.Now, v int64) {
	switch {
	case m.current == 0:
		m.current, m.since = v, now.Mono
	case now.Mono-m.since >= int64(minPeriod):
		m.previous, m.current, m.since = m.current, v, now.Mono
	}
	m.current = min(m.current, v)
}

// value returns the minimum; 0 if there is no value.
func (m *windowedMin) value() int64 {
	if m.previous != 0 {
		return min(m.current, m.previous)
	}
	return m.current
}

// windowBound returns the bound of the limit of a lane: its share of what all coordinators together may have in flight
// to a shard.
func (c *Coordinator) windowBound() int {
	coordinators := 0
	for i := range c.cfg.Topology.DCs {
		coordinators += c.cfg.Topology.DCs[i].RunningCoordinators()
	}
	return min(c.cfg.Window, c.cfg.ShardWindow/max(coordinators, 1))
}
