package bench

import (
	"math"
	"math/rand/v2"
	"sort"
)

// popularity draws keys with a probability proportional to 1/rank^theta, as YCSB's zipfian distribution does.
type popularity []float64 // cumulative

func newPopularity(keys int, theta float64) popularity {
	p := make(popularity, keys)
	sum := 0.0
	for i := range p {
		sum += math.Pow(float64(i+1), -theta)
		p[i] = sum
	}
	return p
}

func (p popularity) draw(r *rand.Rand) int {
	return min(sort.SearchFloat64s(p, r.Float64()*p[len(p)-1]), len(p)-1)
}
