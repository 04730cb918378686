package eventnote

import (
	"strings"
	"testing"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
)

// recorded keeps what was recorded last.
type recorded struct {
	events.EventRecorder
	action, format string
	args           []any
}

func (r *recorded) Eventf(_, _ runtime.Object, _, _, action, note string, args ...any) {
	r.action, r.format, r.args = action, note, args
}

func TestWhatIsTooLongForTheAPIIsCut(t *testing.T) {
	r := &recorded{}
	long := strings.Repeat("zone ö, ", 300)
	Recorder{r}.Eventf(nil, nil, "Warning", "PartsNotReady", "Observe "+long, "%s is %s: %s", "Ready", "False", long)
	note, _ := r.args[0].(string)
	if r.format != "%s" || len(r.args) != 1 {
		t.Fatalf("format %q with %d arguments", r.format, len(r.args))
	}
	for what, text := range map[string]struct {
		text  string
		most  int
		begin string
	}{"note": {note, 1024, "Ready is False: zone"}, "action": {r.action, 128, "Observe zone"}} {
		if len(text.text) > text.most || !utf8.ValidString(text.text) || !strings.HasSuffix(text.text, more) ||
			!strings.HasPrefix(text.text, text.begin) {
			t.Errorf("%s: %d bytes: %q", what, len(text.text), text.text)
		}
	}
}

func TestWhatFitsStaysAsItIs(t *testing.T) {
	exact := strings.Repeat("x", mostNote)
	if Cut(exact) != exact {
		t.Error("a note of the greatest length is cut")
	}
	r := &recorded{}
	Recorder{r}.Eventf(nil, nil, "Normal", "Ready", "Observe", "%d%% of %s", 50, "parts")
	if r.action != "Observe" || r.args[0] != "50% of parts" {
		t.Errorf("%q, %v", r.action, r.args)
	}
}
