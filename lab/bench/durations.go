package bench

import (
	"cmp"
	"slices"

	"github.com/causalstore/causalstore/lab/local"
)

// durationsSince subtracts an earlier state of a distribution.
func durationsSince(now, before local.Durations) local.Durations {
	had := map[float64]uint64{}
	for _, b := range before.Buckets {
		had[b.UpToMs] = b.Count
	}
	d := local.Durations{Count: now.Count - before.Count, SumMs: now.SumMs - before.SumMs}
	for _, b := range now.Buckets {
		if n := b.Count - had[b.UpToMs]; n > 0 {
			d.Buckets = append(d.Buckets, local.Bucket{UpToMs: b.UpToMs, Count: n})
		}
	}
	return d
}

// durationsPlus adds two distributions.
func durationsPlus(a, b local.Durations) local.Durations {
	sum := local.Durations{Count: a.Count + b.Count, SumMs: a.SumMs + b.SumMs}
	for _, x := range slices.Concat(a.Buckets, b.Buckets) {
		i, found := slices.BinarySearchFunc(sum.Buckets, x.UpToMs, func(b local.Bucket, ms float64) int {
			return cmp.Compare(b.UpToMs, ms)
		})
		if !found {
			sum.Buckets = slices.Insert(sum.Buckets, i, local.Bucket{UpToMs: x.UpToMs})
		}
		sum.Buckets[i].Count += x.Count
	}
	return sum
}

// Times are the mean and some quantiles of a duration, in milliseconds.
type Times struct {
	Count  uint64  `json:"count"`
	MeanMs float64 `json:"meanMs"`
	P50Ms  float64 `json:"p50Ms"`
	P90Ms  float64 `json:"p90Ms"`
	P99Ms  float64 `json:"p99Ms"`
	// P999Ms is omitted where durations are only known by buckets.
	P999Ms float64 `json:"p999Ms,omitempty"`
}

// timesOf summarizes a distribution; quantiles are the upper bounds of buckets.
func timesOf(d local.Durations) Times {
	t := Times{Count: d.Count}
	if d.Count == 0 {
		return t
	}
	t.MeanMs = float64(d.SumMs) / float64(d.Count)
	quantile := func(q float64) float64 {
		seen := uint64(0)
		for _, b := range d.Buckets {
			if seen += b.Count; float64(seen) >= q*float64(d.Count) {
				return b.UpToMs
			}
		}
		return d.Buckets[len(d.Buckets)-1].UpToMs
	}
	t.P50Ms, t.P90Ms, t.P99Ms = quantile(0.5), quantile(0.9), quantile(0.99)
	return t
}
