package load

import (
	"math"
	"math/rand/v2"
)

// zipfian draws ranks below n, rank i with a probability proportional to 1/(i+1)^theta, for any theta from 0 on. It does
// so by rejection-inversion (Hörmann and Derflinger, "Rejection-inversion to generate variates from monotone discrete
// distributions", 1996): exact, without tables, at a cost that does not depend on n.
type zipfian struct {
	n     uint64
	theta float64
	// The area under 1/x^theta from first to last is what is drawn from; below surely, a draw is taken without a look.
	first, last, surely float64
}

func newZipfian(n int, theta float64) *zipfian {
	z := &zipfian{theta: theta}
	z.first = z.area(1.5) - 1
	z.surely = 2 - z.at(z.area(2.5)-math.Pow(2, -theta))
	sized := z.sized(n)
	return &sized
}

// sized is the same distribution over another number of ranks.
func (z *zipfian) sized(n int) zipfian {
	out := *z
	out.n, out.last = uint64(n), z.area(float64(n)+0.5)
	return out
}

// area is the integral of 1/x^theta from 1 to x, and at its inverse.
func (z *zipfian) area(x float64) float64 {
	log := math.Log(x)
	return log * expm1Over((1-z.theta)*log)
}

func (z *zipfian) at(area float64) float64 {
	return math.Exp(area * log1pOver(max(-1, area*(1-z.theta))))
}

// expm1Over is (e^x-1)/x, and log1pOver is log(1+x)/x, also near 0, which is where theta is near 1.
func expm1Over(x float64) float64 {
	if math.Abs(x) < 1e-8 {
		return 1 + x/2
	}
	return math.Expm1(x) / x
}

func log1pOver(x float64) float64 {
	if math.Abs(x) < 1e-8 {
		return 1 - x/2
	}
	return math.Log1p(x) / x
}

func (z *zipfian) rank(r *rand.Rand) uint64 {
	for {
		area := z.last + r.Float64()*(z.first-z.last)
		x := z.at(area)
		k := min(max(math.Floor(x+0.5), 1), float64(z.n))
		if k-x <= z.surely || area >= z.area(k+0.5)-math.Pow(k, -z.theta) {
			return uint64(k) - 1
		}
	}
}

// next is a rank scattered by a hash, so that popular keys do not stand together. As in YCSB, two ranks may fall on one
// number.
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
