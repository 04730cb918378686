package local

import (
	"testing"

	"pgregory.net/rapid"
)

func TestDurationsCountATimeInABucketThatIsAtMostAnEighthTooWide(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ms := rapid.Int64Range(0, 1<<17).Draw(t, "ms")
		d := newDurations(1)[0]
		d.add(ms)
		s := d.snapshot()
		if len(s.Buckets) != 1 {
			t.Fatalf("%d ms is in %+v", ms, s.Buckets)
		}
		top := s.Buckets[0].UpToMs
		if float64(ms) > top || top > float64(ms)*1.125+1 {
			t.Fatalf("%d ms is in the bucket up to %g", ms, top)
		}
		d.add(int64(top))
		d.add(int64(top) + 1)
		if s = d.snapshot(); len(s.Buckets) != 2 || s.Buckets[0].Count != 2 || s.Buckets[1].Count != 1 {
			t.Fatalf("%d, %g and %g ms are in %+v", ms, top, top+1, s.Buckets)
		}
	})
}

func TestDurationsCountEveryTimeOnce(t *testing.T) {
	d := newDurations(1)[0]
	for _, ms := range []int64{-3, 0, 7, 7, 300, 1 << 40} {
		d.add(ms)
	}
	s := d.snapshot()
	if s.Count != 6 || s.SumMs != 314+1<<40 || len(s.Buckets) != 4 || s.Buckets[0].Count != 2 ||
		s.Buckets[1].Count != 2 {
		t.Errorf("%+v", s)
	}
}
