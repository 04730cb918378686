package bench

import (
	"fmt"
	"math"
	"slices"
)

// spread is the median and the range of the rounds.
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

// text prints the median and the range with a number format.
func (s spread) text(format string) string {
	if s == (spread{}) {
		return "-"
	}
	return fmt.Sprintf(format+" ("+format+".."+format+")", s.Median, s.Min, s.Max)
}

// summary is the mean and the deviation of a measure over the rounds.
type summary struct {
	Mean float64 `json:"mean"`
	// Deviation is the standard deviation of a sample; 0 for a single round.
	Deviation float64 `json:"standardDeviation"`
	Min       float64 `json:"min"`
	Max       float64 `json:"max"`
	Rounds    int     `json:"rounds"`
	// Values are those of the rounds.
	Values []float64 `json:"values,omitempty"`
}

func summaryOf(values []float64) summary {
	s := summary{Rounds: len(values), Values: values}
	if len(values) == 0 {
		return s
	}
	for _, v := range values {
		s.Mean += v / float64(len(values))
	}
	s.Min, s.Max = slices.Min(values), slices.Max(values)
	if len(values) > 1 {
		for _, v := range values {
			s.Deviation += (v - s.Mean) * (v - s.Mean) / float64(len(values)-1)
		}
		s.Deviation = math.Sqrt(s.Deviation)
	}
	return s
}

// text prints the mean and the deviation with a number format.
func (s summary) text(format string) string {
	switch s.Rounds {
	case 0:
		return "-"
	case 1:
		return fmt.Sprintf(format, s.Mean)
	}
	return fmt.Sprintf(format+" ±"+format, s.Mean, s.Deviation)
}

// over divides two systems' values round by round. Rounds with the same number were adjacent in time, so what the
// machine did to both cancels out.
func (s summary) over(b summary) summary {
	var ratios []float64
	for i := range min(len(s.Values), len(b.Values)) {
		if b.Values[i] > 0 {
			ratios = append(ratios, s.Values[i]/b.Values[i])
		}
	}
	return summaryOf(ratios)
}

// geometricMean returns the geometric mean of ratios; 0 if one of them is not positive.
func geometricMean(ratios []float64) float64 {
	if len(ratios) == 0 || slices.Min(ratios) <= 0 {
		return 0
	}
	sum := 0.0
	for _, r := range ratios {
		sum += math.Log(r)
	}
	return math.Exp(sum / float64(len(ratios)))
}

// goal is a bound that a figure should keep.
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

// verdict reports whether v meets the goal.
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
