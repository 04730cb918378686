package transport

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/causalstore/causalstore/lab/capture"
)

// logged returns the attributes of the lines of a log that are about violations.
func logged(b *capture.Buffer) (lines []string) {
	for line := range strings.Lines(b.String()) {
		_, line, _ = strings.Cut(strings.TrimSpace(line), "must not do this\" ")
		line, _, _ = strings.Cut(line, " quietFor")
		lines = append(lines, line)
	}
	return lines
}

func TestEachKindOfViolationOfAPeerIsLoggedOnceAMinuteWithTheNumberOfOthers(t *testing.T) {
	var b capture.Buffer
	var v violations
	log := slog.New(slog.NewTextHandler(&b, nil))
	now := time.Now()
	for i := range 5 {
		v.noteAt(ViolationSender, "10.0.0.1:"+fmt.Sprint(40000+i), fmt.Errorf("sender%d", i), now, log)
		v.noteAt(ViolationKind, "10.0.0.1:"+fmt.Sprint(50000+i), fmt.Errorf("kind%d", i), now.Add(time.Second), log)
	}
	want := []string{"peer=10.0.0.1 violation=sender error=sender0 suppressed=0",
		"peer=10.0.0.1 violation=kind error=kind0 suppressed=0"}
	if got := logged(&b); !slices.Equal(got, want) {
		t.Errorf("at once: %q", got)
	}
	v.log.flush(now.Add(peerLogInterval), log) // nothing has followed
	want = append(want, "peer=10.0.0.1 violation=sender error=sender4 suppressed=3")
	if got := logged(&b); !slices.Equal(got, want) {
		t.Errorf("after a minute: %q", got)
	}
	v.noteAt(ViolationKind, "10.0.0.1:1", errors.New("kind5"), now.Add(peerLogInterval+time.Second), log)
	want = append(want, "peer=10.0.0.1 violation=kind error=kind4 suppressed=3")
	if got := logged(&b); !slices.Equal(got, want) {
		t.Errorf("with another one: %q", got)
	}
	for i := range 3 {
		v.log.flush(now.Add(time.Duration(i+3)*peerLogInterval), log)
	}
	if len(v.log.lines) != 0 {
		t.Errorf("%d are remembered", len(v.log.lines))
	}
	if got := logged(&b); got[len(got)-1] != "peer=10.0.0.1 violation=kind error=kind5 suppressed=0" ||
		len(got) != len(want)+1 {
		t.Errorf("at the end: %q", got)
	}
}

func TestThoseWhoAreTooManyDoNotHideAnotherKindOfViolation(t *testing.T) {
	var b capture.Buffer
	var v violations
	log, now := slog.New(slog.NewTextHandler(&b, nil)), time.Now()
	for i := range 2 * maxLoggedPeers {
		v.noteAt(ViolationCertificate, fmt.Sprintf("10.0.%d.%d:1", i>>8, i&255), errors.New("x"), now, log)
	}
	v.noteAt(ViolationSender, "spiffe://eu/s/dc/a/sidecar/shop", errors.New("y"), now, log)
	lines := logged(&b)
	if len(lines) != maxLoggedPeers+2 || lines[maxLoggedPeers+
		1] != "peer=spiffe://eu/s/dc/a/sidecar/shop violation=sender error=y suppressed=0" {
		t.Errorf("%d lines, the last ones %q", len(lines), lines[len(lines)-2:])
	}
	if len(v.log.lines) > maxLoggedPeers+int(numViolations) {
		t.Errorf("%d are remembered", len(v.log.lines))
	}
	v.log.flush(now.Add(peerLogInterval), log)
	if !slices.Contains(logged(&b), fmt.Sprintf("peer=others violation=certificate error=x suppressed=%d",
		maxLoggedPeers-2)) {
		t.Error("the others are not counted")
	}
}
