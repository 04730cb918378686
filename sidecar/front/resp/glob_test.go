package resp

import (
	"strconv"
	"testing"
)

func itoa(n int) string { return strconv.Itoa(n) }

func TestGlobPatternsMatchAsInRedis(t *testing.T) {
	for _, c := range []struct {
		pattern, text string
		want          bool
	}{
		{"*", "", true}, {"*", "abc", true}, {"a*c", "abbbc", true}, {"a*c", "ab", false}, {"a*b*c", "aXbXbXc", true},
		{"?", "", false}, {"a?c", "ABC", true},
		{"[a-c]x", "bx", true}, {"[^a-c]x", "bx", false}, {"[c-a]x", "bx", true}, {`\*`, "*", true}, {`\*`, "a", false},
		{`[\]]`, "]", true}, {"[abc", "c", true},
		{"", "", true}, {"", "a", false}, {"a", "", false}, {`a\`, `a\`, true}, {"**", "x", true},
		{"maxmemory*", "maxmemory-policy", true},
		{"*a*a*a*a*a*a*a*a*b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", false},
	} {
		if got := matchGlob(c.pattern, c.text, true); got != c.want {
			t.Errorf("%q on %q: %v", c.pattern, c.text, got)
		}
	}
}
