package demo

import (
	"context"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func TestProseIsWrappedAtTheWidthOfThePage(t *testing.T) {
	var b strings.Builder
	p := &page{out: &b}
	text := strings.Repeat("a sentence of some length about a write, ", 12)
	p.say(t.Context(), "%s", text)
	p.verdict(t.Context(), true, text)
	for line := range strings.Lines(b.String()) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > width || !strings.HasPrefix(line, margin) {
			t.Errorf("a line of %d letters: %q", n, line)
		}
	}
	if got := strings.Join(strings.Fields(b.String()), " "); got != strings.TrimSpace(text)+" ok "+
		strings.TrimSpace(text) {
		t.Errorf("words are lost: %q", got)
	}
}

func TestColorsAreOptional(t *testing.T) {
	for _, color := range []bool{false, true} {
		var b strings.Builder
		p := &page{out: &b, color: color}
		p.title(t.Context(), 1, "a title")
		p.row(t.Context(), "a row")
		p.verdict(t.Context(), false, "a verdict")
		if got := strings.Contains(b.String(), "\x1b["); got != color {
			t.Errorf("with color %t: %q", color, b.String())
		}
	}
}

func TestTimeToReadEndsWithTheContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var b strings.Builder
	p := &page{out: &b, perLetter: time.Hour}
	p.say(ctx, "told at once")
	if b.Len() == 0 {
		t.Error("nothing was printed")
	}
}

func TestDurationsAreShownInTheirOwnPrecision(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0.0 ms", 42 * time.Microsecond: "0.04 ms", 1500 * time.Microsecond: "1.5 ms",
		83 * time.Millisecond:   "83 ms",
		2345 * time.Millisecond: "2345 ms", 12345 * time.Millisecond: "12.3 s",
	} {
		if got := took(d); got != want {
			t.Errorf("%v is shown as %q, want %q", d, got, want)
		}
	}
}
