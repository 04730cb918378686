package load

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// zeta is the sum of 1/i^theta for i up to n.
func zeta(n int, theta float64) float64 {
	sum := 0.0
	for i := 1; i <= n; i++ {
		sum += math.Pow(float64(i), -theta)
	}
	return sum
}

func zipfProbabilities(n int, theta float64) []float64 {
	out, sum := make([]float64, n), zeta(n, theta)
	for i := range out {
		out[i] = math.Pow(float64(i+1), -theta) / sum
	}
	return out
}

// fits is Pearson's chi-square test at four standard deviations. What is expected less than five times is taken
// together.
func fits(t *testing.T, name string, counts []int, probabilities []float64) {
	t.Helper()
	draws := 0
	for _, c := range counts {
		draws += c
	}
	chi, bins := 0.0, 0
	add := func(got, want float64) {
		if want > 0 {
			chi += (got - want) * (got - want) / want
			bins++
		} else if got > 0 {
			t.Errorf("%s: something was drawn that cannot be", name)
		}
	}
	rareGot, rareWant := 0.0, 0.0
	for i, p := range probabilities {
		got, want := float64(counts[i]), p*float64(draws)
		if want < 5 {
			rareGot, rareWant = rareGot+got, rareWant+want
			continue
		}
		add(got, want)
	}
	add(rareGot, rareWant)
	free := float64(bins - 1)
	if bound := free + 4*math.Sqrt(2*free); chi > bound+1e-9 {
		t.Errorf("%s: chi-square %.1f of %d draws in %d bins; at most %.1f was expected", name, chi, draws, bins, bound)
	}
}

func TestZipfDrawsRanksWithTheirProbabilities(t *testing.T) {
	const draws = 300_000
	for _, n := range []int{1, 2, 7, 1000} {
		for _, theta := range []float64{0, 0.0242, 0.5, 0.99, 1, 1.0666, 1.8, 2.6774} {
			z := NewZipf(n, theta)
			r := rand.New(rand.NewPCG(1, 2))
			counts := make([]int, n)
			for range draws {
				counts[z.Rank(r)]++
			}
			fits(t, "zipfian", counts, zipfProbabilities(n, theta))
		}
	}
}

func TestChiSquareTestDetectsAWrongExponent(t *testing.T) {
	z := NewZipf(100, 0.9)
	r := rand.New(rand.NewPCG(1, 2))
	counts := make([]int, 100)
	for range 300_000 {
		counts[z.Rank(r)]++
	}
	var seen testing.T
	fits(&seen, "zipfian", counts, zipfProbabilities(100, 0.93))
	if !seen.Failed() {
		t.Error("exponent 0.9 passed for 0.93")
	}
}

func TestScatteredZipfStaysInRangeAndIsSkewed(t *testing.T) {
	for _, n := range []int{1, 2, 3, 100} {
		for _, theta := range []float64{0, 0.99} {
			z := NewZipf(n, theta)
			r := rand.New(rand.NewPCG(1, 2))
			counts := make([]int, n)
			for range 10000 {
				counts[z.next(r)]++
			}
			top := slices.Max(counts)
			if n == 100 && theta == 0 && top > 200 || n == 100 && theta > 0 && top < 1000 {
				t.Errorf("%d keys, theta %g: the most popular was drawn %d times of 10000", n, theta, top)
			}
		}
	}
}

func TestHashIsFNV1a(t *testing.T) {
	// The published vector for eight zero bytes.
	if got := fnv64(0); got != 0xa8c7f832281a39c5 {
		t.Errorf("got %#x", got)
	}
}
