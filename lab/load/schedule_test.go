package load

import (
	"context"
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestScheduleSpreadsConnectionsAndCatchesUp(t *testing.T) {
	clock := &manual{now: time.Minute}
	s := newSchedule(&Config{Rate: 100}, clock, 1, 4) // 25/s each: one in 40 ms, this one from 10 ms on
	clock.advance(145 * time.Millisecond)
	for i, want := range []int{10, 50, 90} {
		if due, ok := s.next(t.Context()); !ok || due != time.Minute+time.Duration(want)*time.Millisecond {
			t.Errorf("operation %d was due at %v", i, due)
		}
	}
	if due, ok := s.overdue(); !ok || due != time.Minute+130*time.Millisecond {
		t.Errorf("one more was due at %v", due)
	}
	if due, ok := s.overdue(); ok {
		t.Errorf("one was due early, at %v", due)
	}
	if due, ok := s.next(t.Context()); !ok || due != time.Minute+170*time.Millisecond || clock.since() != due {
		t.Errorf("waited until %v for what is due at %v", clock.since(), due)
	}
	if n := s.unsent(time.Minute + 250*time.Millisecond); n != 2 { // at 210 and 250 ms
		t.Errorf("%d were due and not sent", n)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, ok := s.next(ended); ok {
		t.Error("went on after the end")
	}
	if newSchedule(&Config{}, clock, 0, 1) != nil || (*schedule)(nil).unsent(time.Hour) != 0 {
		t.Error("the closed loop has a schedule")
	}
}

// arrivals are the times of the first n operations.
func arrivals(t *testing.T, c Config, n int) []time.Duration {
	s := newSchedule(&c, &manual{}, 0, 1)
	out := make([]time.Duration, n)
	for i := range out {
		out[i], _ = s.next(t.Context())
		if i > 0 && out[i] < out[i-1] {
			t.Fatalf("operation %d is due before the one before it", i)
		}
	}
	return out
}

func TestPoissonArrivalsHaveExponentialGaps(t *testing.T) {
	const n, bins = 100_000, 20
	at := arrivals(t, Config{Rate: 1000, Arrivals: Poisson, Seed: 3}, n)
	counts, probabilities := make([]int, bins), make([]float64, bins)
	last := time.Duration(0)
	for _, a := range at {
		counts[min(bins-1, int((1-math.Exp(-(a-last).Seconds()*1000))*bins))]++
		last = a
	}
	for i := range probabilities {
		probabilities[i] = 1.0 / bins
	}
	fits(t, "gaps by quantile", counts, probabilities)
	if at[0] == 0 {
		t.Error("the first operations of all connections are due together, at the start")
	}
}

func TestBurstsHaveTheirFactorAndPreserveTheMean(t *testing.T) {
	burst := Burst{Factor: 3, Length: Duration(time.Second), Pause: Duration(4 * time.Second)}
	inBurst := 0
	for _, a := range arrivals(t, Config{Rate: 100, Burst: burst}, 5000) {
		if a%(5*time.Second) < time.Second {
			inBurst++
		}
	}
	if inBurst != 3000 { // ten cycles of 300 in the burst and 50 a second after it
		t.Errorf("%d of 5000 operations are due in bursts", inBurst)
	}
	burst.Factor = 5
	for i, a := range arrivals(t, Config{Rate: 100, Arrivals: Poisson, Burst: burst}, 5000) {
		if a%(5*time.Second) > time.Second {
			t.Fatalf("operation %d is due at %v, where nothing is to arrive", i, a)
		}
	}
}

func TestPaceIsTheInverseOfItsTimes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := pace{rate: rapid.Float64Range(0.1, 1e6).Draw(t, "rate")}
		if rapid.Bool().Draw(t, "bursts") {
			on, off := rapid.IntRange(1, 10_000).Draw(t, "on"), rapid.IntRange(1, 10_000).Draw(t, "off")
			p.burst = Burst{Length: Duration(on) * Duration(time.Millisecond),
				Pause: Duration(off) * Duration(time.Millisecond)}
			p.burst.Factor = 1 + rapid.Float64Range(0.01, 1).Draw(t, "factor")*float64(off)/float64(on)
			if err := p.burst.check(); err != nil {
				t.Fatal(err)
			}
		}
		x := rapid.Float64Range(0, p.rate*1000).Draw(t, "x")
		at := p.when(x)
		// A nanosecond of rounding is some operations at a high rate.
		if back, slack := p.expected(at), 1e-6*x+4e-9*p.rate*max(1, p.burst.Factor); math.Abs(back-x) > slack {
			t.Fatalf("%g operations are due at %v, where %g are due", x, at, back)
		}
	})
}

func TestBurstThatCannotPreserveTheMeanIsRefused(t *testing.T) {
	for b, want := range map[Burst]string{{Factor: 3, Length: Duration(time.Second),
		Pause: Duration(time.Second)}: "must be above 1", {Factor: 1, Length: 1, Pause: 1}: "must be above 1",
		{Factor: 2}: "a length above 0", {Length: 1, Pause: 1}: "must be above 1"} {
		if err := b.check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v", b, err)
		}
	}
}
