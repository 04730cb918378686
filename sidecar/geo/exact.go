package geo

import "math"

// Redis computes distances with the functions of the C library, which nearly always round exactly; those of Go do not.
// Here they are computed with twice as many digits, and rounded once.

// exact is a number with the digits of two: low is less than half of the last digit of high.
type exact struct{ high, low float64 }

// sum returns a + b without rounding.
func sum(a, b float64) exact {
	s := a + b
	t := s - a
	return exact{s, (a - (s - t)) + (b - t)}
}

// product returns a · b without rounding.
func product(a, b float64) exact {
	p := float64(a * b)
	return exact{p, math.FMA(a, b, -p)}
}

func (a exact) plus(b exact) exact {
	s := sum(a.high, b.high)
	return sum(s.high, s.low+a.low+b.low)
}

func (a exact) times(b exact) exact {
	p := product(a.high, b.high)
	return sum(p.high, p.low+float64(a.high*b.low)+float64(a.low*b.high))
}

// over returns a / n.
func (a exact) over(n float64) exact {
	q := a.high / n
	p := product(q, n)
	return sum(q, ((a.high-p.high)-p.low+a.low)/n)
}

// quarter is π/2.
var quarter = exact{math.Pi / 2, 6.123233995736766e-17}

// maxAngle is up to where sines are exact. Angles between places that can be stored are less.
const maxAngle = 100

// sinCos returns the sine and the cosine of an angle up to maxAngle.
func sinCos(x float64) (s, c exact) {
	n := math.Round(x / quarter.high)
	turned := product(-n, quarter.high)
	rest := sum(x, turned.high).plus(sum(turned.low, -n*quarter.low))
	s, c = series(rest, rest, 1), series(exact{1, 0}, rest, 0)
	for range int(n) & 3 { // sin(x + π/2) = cos x, cos(x + π/2) = -sin x
		s, c = c, exact{-s.high, -s.low}
	}
	return s, c
}

// powers has 1 / (n · (n-1)): what a term of the series of sines and cosines is multiplied by, besides -x², to get the
// next one, of x to the power of n.
var powers = func() (all [32]exact) {
	for n := 2; n < len(all); n++ {
		all[n] = exact{1, 0}.over(float64(n * (n - 1)))
	}
	return all
}()

// leastTerm is what a sum of about 1 is not changed by, even if it is rounded once more.
const leastTerm = 1e-26

// series returns the sum of the series of a sine or cosine of x, at most π/4, that begins with a term of a power of x.
func series(term, x exact, power int) exact {
	square := x.times(x)
	square = exact{-square.high, -square.low}
	total, least := term, leastTerm*math.Abs(term.high)
	for power += 2; power < len(powers) && math.Abs(term.high) > least; power += 2 {
		term = term.times(square).times(powers[power])
		total = total.plus(term)
	}
	return total
}

func sin(x float64) float64 {
	if !(math.Abs(x) <= maxAngle) {
		return math.Sin(x)
	}
	s, _ := sinCos(x)
	return s.high
}

func cos(x float64) float64 {
	if !(math.Abs(x) <= maxAngle) {
		return math.Cos(x)
	}
	_, c := sinCos(x)
	return c.high
}

// asin corrects what is nearly the arc of a sine by the exact sine of that.
func asin(x float64) float64 {
	y := math.Asin(x)
	if !(math.Abs(x) < 1) {
		return y
	}
	s, c := sinCos(y)
	return y + ((x-s.high)-s.low)/c.high
}
