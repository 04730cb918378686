package bench

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestSpreadIsTheMedianAndTheRange(t *testing.T) {
	for _, c := range []struct {
		in   []float64
		want spread
	}{
		{nil, spread{}},
		{[]float64{3}, spread{3, 3, 3}},
		{[]float64{9, 1, 2}, spread{2, 1, 9}},
		{[]float64{4, 1, 2, 9}, spread{3, 1, 9}},
	} {
		if got := spreadOf(c.in); got != c.want {
			t.Errorf("%v: %v, want %v", c.in, got, c.want)
		}
	}
}

func TestGoalsAreMetOrMissedAtTheirBound(t *testing.T) {
	for _, c := range []struct {
		g    goal
		v    float64
		want string
	}{
		{goal{}, 1, ""}, {goal{Least: 0.9}, 0.9, "met"}, {goal{Least: 0.9}, 0.89, "missed"}, {goal{Most: 16}, 16, "met"},
		{goal{Most: 16}, 16.1, "missed"}, {goal{Most: 16}, math.NaN(), "not measured"},
	} {
		if got := c.g.verdict(c.v); got != c.want {
			t.Errorf("%v at %v: %q, want %q", c.g, c.v, got, c.want)
		}
	}
}

func TestPopularityFallsWithTheRankAsZipfSays(t *testing.T) {
	const keys, draws = 100, 200000
	p := newPopularity(keys, 0.99)
	counts := make([]float64, keys)
	r := rand.New(rand.NewPCG(1, 2))
	for range draws {
		counts[p.draw(r)]++
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
