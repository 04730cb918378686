package load

import (
	"math"
	"math/rand/v2"
)

// Zipf draws ranks below n, rank i with a probability proportional to 1/(i+1)^theta, for any theta from 0 on. It uses
// rejection-inversion (Hörmann and Derflinger, "Rejection-inversion to generate variates from monotone discrete
// distributions", 1996): exact, without tables, at a cost that does not depend on n.
type Zipf struct {
	n     uint64
	theta float64
	// A draw is a point of the area under 1/x^theta between first and last. Points closer than acceptBelow are accepted
	// without a further test.
	first, last, acceptBelow float64
}

func NewZipf(n int, theta float64) *Zipf {
	z := &Zipf{theta: theta}
	z.first = z.area(1.5) - 1
	z.acceptBelow = 2 - z.at(z.area(2.5)-math.Pow(2, -theta))
	sized := z.sized(n)
	return &sized
}

// sized returns the same distribution over another number of ranks.
func (z *Zipf) sized(n int) Zipf {
	out := *z
	out.n, out.last = uint64(n), z.area(float64(n)+0.5)
	return out
}

// area is the integral of 1/x^theta from 1 to x; at is its inverse.
func (z *Zipf) area(x float64) float64 {
	log := math.Log(x)
	return log * expm1Over((1-z.theta)*log)
}

func (z *Zipf) at(area float64) float64 {
	return math.Exp(area * log1pOver(max(-1, area*(1-z.theta))))
}

// expm1Over is (e^x-1)/x and log1pOver is log(1+x)/x, accurate also near 0, that is, for theta near 1.
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

func (z *Zipf) Rank(r *rand.Rand) uint64 {
	for {
		area := z.last + r.Float64()*(z.first-z.last)
		x := z.at(area)
		k := min(max(math.Floor(x+0.5), 1), float64(z.n))
		if k-x <= z.acceptBelow || area >= z.area(k+0.5)-math.Pow(k, -z.theta) {
			return uint64(k) - 1
		}
	}
}

// next returns a rank scattered by a hash, so that popular keys are not neighbors. As in YCSB, two ranks may collide.
func (z *Zipf) next(r *rand.Rand) int {
	if z.theta == 0 {
		return r.IntN(int(z.n))
	}
	return int(fnv64(z.Rank(r)) % z.n)
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
