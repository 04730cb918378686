package bench

import (
	"math"
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
		{goal{}, 1, ""}, {goal{Least: 0.9}, 0.9, "met"}, {goal{Least: 0.9}, 0.89, "missed"},
		{goal{Most: 16}, 16, "met"},
		{goal{Most: 16}, 16.1, "missed"}, {goal{Most: 16}, math.NaN(), "not measured"},
	} {
		if got := c.g.verdict(c.v); got != c.want {
			t.Errorf("%v at %v: %q, want %q", c.g, c.v, got, c.want)
		}
	}
}
