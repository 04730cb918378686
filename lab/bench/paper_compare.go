package bench

import (
	"maps"
	"slices"
)

// against compares the throughput of two cells; it is empty if one is missing.
func against(a, b *Cell) summary {
	if a == nil || b == nil {
		return summary{}
	}
	return a.Throughput.over(b.Throughput)
}

// perDC compares two cells in each data center.
func perDC(a, b *Cell) map[string]summary {
	out := map[string]summary{}
	if a == nil || b == nil {
		return out
	}
	for dc, s := range a.PerDC {
		out[dc] = s.over(b.PerDC[dc])
	}
	return out
}

// byDataCenter is the geometric mean of the ratios in the data centers. Unlike the sum, it is not dominated by data
// centers that hold everything, where clients in a closed loop get by far the most done.
func byDataCenter(a, b *Cell) float64 {
	ratios := perDC(a, b)
	var means []float64
	for _, dc := range slices.Sorted(maps.Keys(ratios)) {
		means = append(means, ratios[dc].Mean)
	}
	return geometricMean(means)
}
