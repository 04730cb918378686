// Package retry says how long to wait before something that has failed is tried again.
package retry

import (
	"math/rand/v2"
	"time"
)

// Backoff is a series of waits that doubles up to a bound. Half of each wait is random, so that those who wait for the
// same disk or server do not all come back at once. The zero value of failures is ready to use; one goroutine at a time
// uses it.
type Backoff struct {
	// First and Max bound the waits. Max is also how late a recovery is noticed.
	First, Max time.Duration
	failures   int
}

// Next returns the wait after one more failure.
func (b *Backoff) Next() time.Duration {
	d := b.Max
	if b.failures < 30 && b.First<<b.failures < b.Max {
		d = b.First << b.failures
		b.failures++
	}
	return d/2 + rand.N(d/2+1)
}

// Reset starts the series again, after a success.
func (b *Backoff) Reset() { b.failures = 0 }
