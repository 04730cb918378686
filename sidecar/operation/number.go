package operation

import (
	"math"
	"math/big"
	"regexp"
	"strings"
)

// ParseInt parses a 64-bit integer as strictly as Redis: no sign but '-', no leading zeros, no spaces.
func ParseInt(b []byte) (int64, bool) {
	if len(b) == 0 || len(b) > 20 {
		return 0, false
	}
	digits := b
	negative := b[0] == '-'
	if negative {
		digits = b[1:]
	}
	if len(digits) == 0 || digits[0] == '0' && (negative || len(digits) > 1) {
		return 0, false
	}
	var n uint64
	for _, c := range digits {
		d := uint64(c - '0')
		if d > 9 || n > (math.MaxUint64-d)/10 {
			return 0, false
		}
		n = n*10 + d
	}
	switch {
	case negative && n <= 1<<63:
		return -int64(n), true
	case negative || n > math.MaxInt64:
		return 0, false
	}
	return int64(n), true
}

// addInt returns a + b, and false on overflow.
func addInt(a, b int64) (int64, bool) {
	sum := a + b
	return sum, (sum > a) == (b > 0)
}

// Redis computes INCRBYFLOAT in the C type long double, which on x86 has a mantissa of 64 bits and these binary
// exponents. The digits it prints depend on that, so this package uses the same precision.
const (
	floatPrecision   = 64
	maxFloatExponent = 16384
	minFloatExponent = -16445
	maxFloatBytes    = 5*1024 - 1
)

var (
	decimalFloat = regexp.MustCompile(`^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$`)
	hexFloat     = regexp.MustCompile(`^[+-]?0[xX]([0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)([pP][+-]?[0-9]+)?$`)
	infinity     = regexp.MustCompile(`^[+-]?(?i:inf|infinity)$`)
)

// parseFloat accepts what strtold accepts, except NaN and numbers out of range.
func parseFloat(b []byte) (*big.Float, bool) {
	if len(b) == 0 || len(b) > maxFloatBytes {
		return nil, false
	}
	s := string(b)
	switch {
	case infinity.MatchString(s):
		return new(big.Float).SetInf(s[0] == '-'), true
	case hexFloat.MatchString(s):
		f, _, err := big.ParseFloat(s, 0, floatPrecision, big.ToNearestEven)
		return f, err == nil && inFloatRange(f)
	case !decimalFloat.MatchString(s):
		return nil, false
	}
	f, _, err := big.ParseFloat(s, 10, floatPrecision, big.ToNearestEven)
	if err != nil || !inFloatRange(f) {
		return nil, false
	}
	if f.Sign() == 0 {
		// Either zero, or a number too small for any float type.
		mantissa, _, _ := strings.Cut(strings.ToLower(s), "e")
		return f, !strings.ContainsAny(mantissa, "123456789")
	}
	// ParseFloat may round twice; SetRat rounds once. The exponent is known to be small here.
	exact, ok := new(big.Rat).SetString(s)
	if !ok {
		return nil, false
	}
	return f.SetRat(exact), true
}

func inFloatRange(f *big.Float) bool {
	if f.IsInf() {
		return false
	}
	return f.Sign() == 0 || f.MantExp(nil) <= maxFloatExponent && f.MantExp(nil) >= minFloatExponent
}

// addFloat returns a + b, and false if the sum is not finite.
func addFloat(a, b *big.Float) (*big.Float, bool) {
	if a.IsInf() || b.IsInf() {
		return nil, false
	}
	sum := new(big.Float).SetPrec(floatPrecision).Add(a, b)
	return sum, inFloatRange(sum) || sum.MantExp(nil) < minFloatExponent
}

// formatFloat formats like Redis: with 17 digits after the point, and without trailing zeros.
func formatFloat(f *big.Float) string {
	return trimZeros(f.Text('f', 17))
}

// trimZeros returns a number with digits after the point without those that are zeros at its end.
func trimZeros(s string) string {
	s = strings.TrimRight(s, "0")
	s = strings.TrimSuffix(s, ".")
	if s == "-0" {
		return "0"
	}
	return s
}

// Decimal is a number without rounding.
type Decimal struct{ rat big.Rat }

// ParseDecimal parses what INCRBY and INCRBYFLOAT add to, but for infinities.
func ParseDecimal(text string) (d Decimal, ok bool) {
	if n, isInt := ParseInt([]byte(text)); isInt {
		d.rat.SetInt64(n)
		return d, true
	}
	f, ok := parseFloat([]byte(text))
	switch {
	case !ok || f.IsInf():
		return d, false
	case decimalFloat.MatchString(text):
		_, ok = d.rat.SetString(text)
		return d, ok
	}
	f.Rat(&d.rat)
	return d, true
}

// Add returns d + o.
func (d Decimal) Add(o Decimal) (sum Decimal) {
	sum.rat.Add(&d.rat, &o.rat)
	return sum
}

// Sub returns d - o.
func (d Decimal) Sub(o Decimal) (difference Decimal) {
	difference.rat.Sub(&d.rat, &o.rat)
	return difference
}

// String returns the number as INCRBYFLOAT writes it: with up to 17 digits after the point.
func (d Decimal) String() string {
	if d.rat.IsInt() {
		return d.rat.Num().String()
	}
	return trimZeros(d.rat.FloatString(17))
}
