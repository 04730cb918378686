package bench

import (
	"fmt"
	"math"
	"slices"
)

// spread is the median of the rounds, and what the rounds ranged over.
type spread struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

func spreadOf(values []float64) spread {
	if len(values) == 0 {
		return spread{}
	}
	s := slices.Sorted(slices.Values(values))
	mid := s[len(s)/2]
	if len(s)%2 == 0 {
		mid = (mid + s[len(s)/2-1]) / 2
	}
	return spread{mid, s[0], s[len(s)-1]}
}

// text prints the median and the range with a format for numbers.
func (s spread) text(format string) string {
	return fmt.Sprintf(format+" ("+format+".."+format+")", s.Median, s.Min, s.Max)
}

// goal is what a figure should be.
type goal struct {
	Least float64 `json:"least,omitempty"`
	Most  float64 `json:"most,omitempty"`
}

func (g goal) String() string {
	switch {
	case g.Least != 0:
		return fmt.Sprintf(">= %.2f", g.Least)
	case g.Most != 0:
		return fmt.Sprintf("<= %.2f", g.Most)
	}
	return "-"
}

// verdict says whether v meets the goal.
func (g goal) verdict(v float64) string {
	switch {
	case g == goal{}:
		return ""
	case math.IsNaN(v):
		return "not measured"
	case g.Least != 0 && v < g.Least, g.Most != 0 && v > g.Most:
		return "missed"
	}
	return "met"
}
