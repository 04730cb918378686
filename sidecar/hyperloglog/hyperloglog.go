// Package hyperloglog estimates how many different elements were added to a set, as Redis does: with the same hash, the
// same registers, the same estimate, and the same bytes for a set that is a string.
package hyperloglog

import (
	"encoding/binary"
	"math"
	"math/bits"
)

const (
	// Count is the number of registers.
	Count = 1 << indexBits
	// MaxRank is the greatest value of a register that an element gives.
	MaxRank = rankBits + 1

	indexBits = 14
	rankBits  = 64 - indexBits
)

// Registers are the registers of a set. Those of a union of sets are the greatest of theirs, one by one.
type Registers [Count]byte

// Raise makes registers at least what others are.
func (r *Registers) Raise(other *Registers) {
	for i, rank := range other {
		r[i] = max(r[i], rank)
	}
}

// Place returns the register of an element, and what that is at least when the element was added.
func Place(element []byte) (register int, rank byte) {
	h := hash(element)
	rest := h>>indexBits | 1<<rankBits
	return int(h & (Count - 1)), byte(bits.TrailingZeros64(rest) + 1)
}

// hash is MurmurHash64A, with the seed of Redis.
func hash(b []byte) uint64 {
	const seed, m, shift = 0xadc83b19, 0xc6a4a7935bd1e995, 47
	h := uint64(seed) ^ uint64(len(b))*m
	for ; len(b) >= 8; b = b[8:] {
		k := binary.LittleEndian.Uint64(b) * m
		h = (h ^ (k^k>>shift)*m) * m
	}
	if len(b) > 0 {
		last := [8]byte{}
		copy(last[:], b)
		h = (h ^ binary.LittleEndian.Uint64(last[:])) * m
	}
	h = (h ^ h>>shift) * m
	return h ^ h>>shift
}

// Estimate returns about how many elements were added. Otmar Ertl, "New cardinality estimation algorithms for
// HyperLogLog sketches", 2017. The order of the operations is that of Redis, so the result is equal to the last digit.
func (r *Registers) Estimate() uint64 {
	histogram := [64]int{}
	for _, rank := range r {
		histogram[rank&63]++
	}
	const m, alpha = float64(Count), 0.721347520444481703680 // 1/(2 ln 2)
	z := m * tau((m-float64(histogram[MaxRank]))/m)
	for rank := rankBits; rank >= 1; rank-- {
		z += float64(histogram[rank])
		z *= 0.5
	}
	z += float64(m * sigma(float64(histogram[0])/m))
	return uint64(math.Round(alpha * m * m / z))
}

// The products are converted, so that no processor adds them without rounding them before.

func tau(x float64) float64 {
	if x == 0 || x == 1 {
		return 0
	}
	y, z := 1.0, 1-x
	for before := math.NaN(); before != z; {
		x = math.Sqrt(x)
		before = z
		y *= 0.5
		z -= float64(float64((1-x)*(1-x)) * y)
	}
	return z / 3
}

func sigma(x float64) float64 {
	if x == 1 {
		return math.Inf(1)
	}
	y, z := 1.0, x
	for before := math.NaN(); before != z; {
		x *= x
		before = z
		z += float64(x * y)
		y += y
	}
	return z
}
