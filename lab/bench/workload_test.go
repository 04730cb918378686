package bench

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/causalstore/causalstore/lab/load"
)

func TestPopularityFollowsTheZipfDistribution(t *testing.T) {
	const keys, draws = 100, 200000
	p := popularity{load.NewZipf(keys, 0.99)}
	counts := make([]float64, keys)
	r := rand.New(rand.NewPCG(1, 2))
	for range draws {
		counts[p.draw(r, keys)]++
	}
	sum := 0.0
	for i := range keys {
		sum += math.Pow(float64(i+1), -0.99)
	}
	for _, rank := range []int{1, 2, 10, 50} {
		want := draws * math.Pow(float64(rank), -0.99) / sum
		if got := counts[rank-1]; math.Abs(got-want) > 6*math.Sqrt(want) {
			t.Errorf("rank %d was drawn %v times, want about %.0f", rank, got, want)
		}
	}
}

func TestPacingBoundsTheRateOfEachSite(t *testing.T) {
	l := &closedLoop{addrs: make([]string, 3), clients: 8, rates: []float64{30, 0, 10}, think: time.Millisecond}
	p := l.pacing()
	var got []time.Duration
	for site := range l.addrs {
		got = append(got, p.interval(site))
	}
	// Three clients share 30 operations per second, three are not bounded, two share 10 operations per second.
	if want := []time.Duration{100 * time.Millisecond, 0, 200 * time.Millisecond}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	c := &client{}
	if pause := p.pause(c, 30*time.Millisecond); pause != 70*time.Millisecond {
		t.Errorf("the pause after a reply at 30 ms is %v", pause)
	}
	if pause := p.pause(c, 950*time.Millisecond); pause != l.think {
		t.Errorf("the pause after a late reply is %v", pause)
	}
}

func TestRecordsAreRESP(t *testing.T) {
	r := newRecords(2, 3)
	if got, want := string(r.get(nil, 1)), "*2\r\n$3\r\nGET\r\n$10\r\nuser:2:3:1\r\n"; got != want {
		t.Errorf("GET is %q, want %q", got, want)
	}
	if got, want := string(r.set(nil, 0)), "*3\r\n$3\r\nSET\r\n$10\r\nuser:2:3:0\r\n$3\r\nvvv\r\n"; got != want {
		t.Errorf("SET is %q, want %q", got, want)
	}
	k := prefixed("k:", 9, 3).part(1, 3)
	if got, want := string(k.get(nil, 0)), "*2\r\n$3\r\nGET\r\n$3\r\nk:1\r\n"; got != want || k.count != 2 {
		t.Errorf("GET is %q, want %q", got, want)
	}
	if got, want := string(prefixed("k:", 1, 3).set(nil, 0)),
		"*3\r\n$3\r\nSET\r\n$3\r\nk:0\r\n$3\r\nvvv\r\n"; got != want {
		t.Errorf("SET is %q, want %q", got, want)
	}
}
