package causal

import "time"

// Backoff returns how long to wait before a repetition: base, doubled with each attempt up to limit, less up to a
// quarter of it. How much less depends on the seed and the attempt, so that many who wait for the same node do not all
// come at once.
func Backoff(base, limit time.Duration, attempt int, seed uint64) int64 {
	d := int64(min(limit, base<<min(attempt, 16)))
	return d - int64(mix(mix(seed)+uint64(attempt))%uint64(d/4+1))
}

// mix returns a number that depends on every bit of x (splitmix64).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
