package load

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"time"
)

// Arrivals is how the operations of the open loop are spread over time.
type Arrivals string

// The arrival processes.
const (
	Uniform Arrivals = "uniform" // at even intervals
	Poisson Arrivals = "poisson" // independent of each other
)

// Burst varies the rate: for Length it is Factor times the mean, then for Pause what preserves the mean. The zero Burst
// is a steady rate.
type Burst struct {
	Factor float64  `json:"factor"`
	Length Duration `json:"length"`
	Pause  Duration `json:"pause"`
}

func (b Burst) check() error {
	if b == (Burst{}) {
		return nil
	}
	if b.Length <= 0 || b.Pause <= 0 {
		return fmt.Errorf("bursts of %v with pauses of %v: give a factor, a length above 0 and a pause above 0",
			b.Length, b.Pause)
	}
	most := float64(b.Length+b.Pause) / float64(b.Length)
	if !(b.Factor > 1 && b.Factor <= most+1e-9) {
		return fmt.Errorf(
			"burst factor %g: the rate is the mean, so with bursts of %v and pauses of %v the factor must be above 1, "+
				"and at most %g, where nothing arrives between bursts", b.Factor, b.Length, b.Pause, most)
	}
	return nil
}

// pace is the expected number of operations over time, and its inverse.
type pace struct {
	rate  float64 // mean, per second
	burst Burst
}

// cycle returns the length of a burst and of a whole cycle in seconds, and the rates in bursts and between them.
func (p pace) cycle() (on, whole, fast, slow float64) {
	on, whole = p.burst.Length.Seconds(), p.burst.Length.Seconds()+p.burst.Pause.Seconds()
	fast = p.rate * p.burst.Factor
	return on, whole, fast, max(0, (p.rate*whole-fast*on)/(whole-on))
}

// expected is how many operations are due up to t.
func (p pace) expected(t time.Duration) float64 {
	s := t.Seconds()
	if p.burst == (Burst{}) {
		return p.rate * s
	}
	on, whole, fast, slow := p.cycle()
	cycles := math.Floor(s / whole)
	rest := s - cycles*whole
	return p.rate*whole*cycles + fast*min(rest, on) + slow*max(0, rest-on)
}

// when is the time until which so many operations are due.
func (p pace) when(expected float64) time.Duration {
	if p.burst == (Burst{}) {
		return seconds(expected / p.rate)
	}
	on, whole, fast, slow := p.cycle()
	cycles := math.Floor(expected / (p.rate * whole))
	rest := expected - cycles*p.rate*whole
	switch {
	case rest <= fast*on:
		return seconds(cycles*whole + rest/fast)
	case slow == 0: // because of rounding
		return seconds((cycles + 1) * whole)
	}
	return seconds(cycles*whole + min(whole, on+(rest-fast*on)/slow))
}

// seconds converts a time that may exceed the range of a Duration.
func seconds(s float64) time.Duration {
	return time.Duration(math.Round(min(s, 1e9) * 1e9))
}

// schedule is when the operations of one connection are due. A nil schedule is the closed loop: immediately.
type schedule struct {
	clock clock
	start time.Duration // when the load began, on the clock
	pace  pace
	gap   func() float64 // to the next operation, in expected operations
	x     float64        // expected operations at the next one
}

// newSchedule spreads the rate over the connections, each with an offset of its own.
func newSchedule(c *Config, clock clock, number, connections int) *schedule {
	if c.Rate == 0 {
		return nil
	}
	s := &schedule{clock: clock, start: clock.since(), pace: pace{rate: c.Rate / float64(connections), burst: c.Burst}}
	if c.Arrivals == Poisson {
		r := rand.New(rand.NewPCG(c.Seed, 1<<32+uint64(number))) // independent of the draws of operations
		s.gap = r.ExpFloat64
		s.x = s.gap()
	} else {
		s.gap = func() float64 { return 1 }
		s.x = float64(number) / float64(connections)
	}
	return s
}

// next waits until the next operation is due and returns its due time, which may be long past. It reports false if ctx
// has ended.
func (s *schedule) next(ctx context.Context) (time.Duration, bool) {
	due := s.start + s.pace.when(s.x)
	if !s.clock.pause(ctx, due-s.clock.since()) {
		return 0, false
	}
	s.x += s.gap()
	return due, true
}

// overdue returns another operation if it is due by now.
func (s *schedule) overdue() (time.Duration, bool) {
	due := s.start + s.pace.when(s.x)
	if due > s.clock.since() {
		return 0, false
	}
	s.x += s.gap()
	return due, true
}

// unsent is how many operations were due by the end but not sent; for Poisson arrivals it is the expectation.
func (s *schedule) unsent(end time.Duration) int64 {
	if s == nil {
		return 0
	}
	return int64(max(0, math.Floor(s.pace.expected(end-s.start)-s.x+1)))
}

// clock is the time since the start of the run, and a way to wait. pause reports false if ctx ends first.
type clock interface {
	since() time.Duration
	pause(ctx context.Context, d time.Duration) bool
}

// wall is the monotonic clock of the machine.
type wall struct{ started time.Time }

func (w wall) since() time.Duration { return time.Since(w.started) }

func (wall) pause(ctx context.Context, d time.Duration) bool { return pause(ctx, d) }
