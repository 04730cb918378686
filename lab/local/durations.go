package local

import (
	"sync"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// durations counts times of milliseconds to minutes. It has one significant digit, which keeps it small and cheap
// enough to be filled for every write: times below 32 ms are exact, and above that a bucket is at most a sixteenth
// wide.
type durations struct {
	mu    sync.Mutex
	times *hdrhistogram.Histogram // in milliseconds
	sumMs uint64
}

// longestMs is the longest time that durations tell apart; longer ones count as that.
const longestMs = 10 * 60 * 1000

func newDurations(n int) []*durations {
	all := make([]*durations, n)
	for i := range all {
		all[i] = &durations{times: hdrhistogram.New(1, longestMs, 1)}
	}
	return all
}

// add counts one time.
func (d *durations) add(ms int64) {
	ms = max(ms, 0)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sumMs += uint64(ms)
	_ = d.times.RecordValue(min(ms, longestMs)) // which is in its range
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
	d.mu.Lock()
	defer d.mu.Unlock()
	s := Durations{Count: uint64(d.times.TotalCount()), SumMs: d.sumMs}
	for _, bar := range d.times.Distribution() {
		if bar.Count > 0 {
			s.Buckets = append(s.Buckets, Bucket{UpToMs: float64(bar.To), Count: uint64(bar.Count)})
		}
	}
	return s
}
