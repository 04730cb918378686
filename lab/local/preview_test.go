package local

import (
	"strings"
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
)

func TestALongValueIsShownAsCut(t *testing.T) {
	a := strings.Repeat("a", maxPreview)
	for value, want := range map[string]string{
		"hello":     "hello",
		a:           a,
		a + "b":     a + "…",
		a[1:] + "ü": a[1:] + "…", // no half letter
		"\xff\xfe":  `"\xff\xfe"`,
		"\xff" + a:  `"\xff` + a[1:] + `"…`,
	} {
		if got, _ := preview(causal.Value{Data: []byte(value)}); got != want {
			t.Errorf("%q is shown as %q; want %q", value, got, want)
		}
	}
}
