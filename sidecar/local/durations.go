package local

import (
	"math"
	"math/bits"
	"sync/atomic"
)

// durations counts times of milliseconds to minutes in buckets that get wider with the time: eight to a doubling, so a
// bucket is at most an eighth wider than the one before. It is cheap enough to be filled for every write.
type durations struct {
	sumMs   atomic.Uint64
	buckets [durationBuckets]atomic.Uint64
}

const (
	durationBuckets  = 128
	bucketsPerDouble = 8
)

// add counts one time.
func (d *durations) add(ms int64) {
	n := uint64(max(ms, 0))
	d.sumMs.Add(n)
	d.buckets[bucketOf(n)].Add(1)
}

// bucketOf numbers the bucket of a time: one each below 16 ms, then eight to a doubling.
func bucketOf(ms uint64) int {
	if ms < 2*bucketsPerDouble {
		return int(ms)
	}
	shift := bits.Len64(ms) - 4 // leaves four bits, of which the first is set
	return min(shift*bucketsPerDouble+int(ms>>shift), durationBuckets-1)
}

// upTo is the greatest time of a bucket, in milliseconds.
func upTo(bucket int) float64 {
	if bucket < 2*bucketsPerDouble {
		return float64(bucket)
	}
	shift := bucket/bucketsPerDouble - 1
	return math.Ldexp(float64(bucket-shift*bucketsPerDouble+1), shift) - 1
}

// Durations is the distribution of a time since the start, in milliseconds.
type Durations struct {
	Count   uint64   `json:"count"`
	SumMs   uint64   `json:"sumMs"`
	Buckets []Bucket `json:"buckets,omitempty"`
}

// Bucket counts the times that are above the bucket before and at most UpToMs. Empty buckets are left out.
type Bucket struct {
	UpToMs float64 `json:"upToMs"`
	Count  uint64  `json:"count"`
}

func (d *durations) snapshot() Durations {
	s := Durations{SumMs: d.sumMs.Load()}
	for i := range d.buckets {
		if n := d.buckets[i].Load(); n > 0 {
			s.Count += n
			s.Buckets = append(s.Buckets, Bucket{UpToMs: upTo(i), Count: n})
		}
	}
	return s
}
