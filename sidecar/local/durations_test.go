package local

import (
	"testing"

	"pgregory.net/rapid"
)

func TestABucketHoldsATimeAndIsAtMostAnEighthTooWide(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ms := rapid.Uint64Range(0, 1<<17).Draw(t, "ms")
		b := bucketOf(ms)
		if b < 0 || b >= durationBuckets {
			t.Fatalf("%d ms: bucket %d", ms, b)
		}
		if top := upTo(b); float64(ms) > top || top > float64(ms)*1.125+1 {
			t.Fatalf("%d ms is in the bucket up to %g", ms, top)
		}
		if b > 0 && float64(ms) <= upTo(b-1) {
			t.Fatalf("%d ms would fit the bucket before, up to %g", ms, upTo(b-1))
		}
	})
}

func TestDurationsAreCountedOnceEach(t *testing.T) {
	var d durations
	for _, ms := range []int64{-3, 0, 7, 7, 300, 1 << 40} {
		d.add(ms)
	}
	s := d.snapshot()
	if s.Count != 6 || s.SumMs != 314+1<<40 || len(s.Buckets) != 4 || s.Buckets[0].Count != 2 || s.Buckets[1].Count != 2 {
		t.Errorf("%+v", s)
	}
}
