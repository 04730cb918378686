package operation

import (
	"math"
	"strconv"
	"testing"

	"pgregory.net/rapid"
)

func TestIntegersAreParsedStrictly(t *testing.T) {
	for _, text := range []string{"", "-", "+1", "01", "-0", "-01", " 1", "1 ", "1.0", "abc", "9223372036854775808",
		"-9223372036854775809", "18446744073709551617", "99999999999999999999", "/", ":"} {
		if n, ok := ParseInt([]byte(text)); ok {
			t.Errorf("%q was read as %d", text, n)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int64().Draw(t, "n")
		if got, ok := ParseInt(strconv.AppendInt(nil, n, 10)); !ok || got != n {
			t.Fatalf("%d was read as %d, %v", n, got, ok)
		}
	})
}

func TestIntegerOverflowIsDetected(t *testing.T) {
	edge := []int64{0, 1, -1, math.MaxInt64, math.MinInt64, math.MaxInt64 - 1, math.MinInt64 + 1}
	for _, a := range edge {
		for _, b := range edge {
			exact := float64(a) + float64(b)
			if got, ok := addInt(a, b); ok != (got-b == a && (b >= 0) == (got >= a)) ||
				ok && math.Abs(exact-float64(got)) > 4096 {
				t.Errorf("%d + %d = %d, %v", a, b, got, ok)
			}
		}
	}
}
