package retry

import (
	"testing"
	"time"
)

func TestWaitsDoubleUpToTheirBoundAndAreNeverLessThanHalf(t *testing.T) {
	b := Backoff{First: 10 * time.Millisecond, Max: time.Second}
	for round := range 2 {
		for i := range 100 {
			want := time.Second
			if i < 7 {
				want = min(want, 10*time.Millisecond<<i)
			}
			if got := b.Next(); got < want/2 || got > want {
				t.Errorf("round %d, wait %d: %v, want %v to %v", round, i, got, want/2, want)
			}
		}
		b.Reset()
	}
}
