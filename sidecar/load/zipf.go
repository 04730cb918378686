package load

import (
	"math"
	"math/rand/v2"
)

// zipfian draws numbers below n as YCSB does: rank i with a probability proportional to 1/(i+1)^theta, by the method of
// Gray et al., "Quickly generating billion-record synthetic databases". The ranks are then scattered by a hash, so that
// popular keys do not stand together. As in YCSB, two ranks may fall on one number.
type zipfian struct {
	n                        uint64
	theta, alpha, zetan, eta float64
	second                   float64 // below it, of the unit interval times zetan: rank 1
}

func newZipfian(n int, theta float64) *zipfian {
	z := &zipfian{n: uint64(n), theta: theta, alpha: 1 / (1 - theta), zetan: zeta(n, theta)}
	z.eta = (1 - math.Pow(2/float64(n), 1-theta)) / (1 - zeta(2, theta)/z.zetan)
	z.second = 1 + math.Pow(0.5, theta)
	return z
}

func zeta(n int, theta float64) float64 {
	sum := 0.0
	for i := 1; i <= n; i++ {
		sum += 1 / math.Pow(float64(i), theta)
	}
	return sum
}

func (z *zipfian) rank(r *rand.Rand) uint64 {
	u := r.Float64()
	switch uz := u * z.zetan; {
	case uz < 1 || z.n == 1:
		return 0
	case uz < z.second || z.n == 2:
		return 1
	}
	return min(uint64(float64(z.n)*math.Pow(z.eta*u-z.eta+1, z.alpha)), z.n-1)
}

func (z *zipfian) next(r *rand.Rand) int {
	if z.theta == 0 {
		return r.IntN(int(z.n))
	}
	return int(fnv64(z.rank(r)) % z.n)
}

// fnv64 is FNV-1a over the eight bytes of x, low byte first.
func fnv64(x uint64) uint64 {
	h := uint64(0xcbf29ce484222325)
	for range 8 {
		h = (h ^ x&0xff) * 0x100000001b3
		x >>= 8
	}
	return h
}
