// Package eventnote keeps the texts of events within the limits of the Kubernetes API, which refuses longer ones. An
// event that says the most important thing and ends early is better than none.
package eventnote

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
)

// The limits of the API (events.k8s.io/v1), in bytes.
const (
	mostNote   = 1024
	mostAction = 128
)

// more ends a text that is cut.
const more = " ..."

// Cut returns a text as the note of an event.
func Cut(text string) string { return cut(text, mostNote) }

func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most-len(more)], "") + more
}

// Recorder records events with notes and actions that the API takes.
type Recorder struct{ events.EventRecorder }

// Eventf implements events.EventRecorder.
func (r Recorder) Eventf(regarding, related runtime.Object, kind, reason, action, note string, args ...any) {
	r.EventRecorder.Eventf(regarding, related, kind, reason, cut(action, mostAction), "%s",
		Cut(fmt.Sprintf(note, args...)))
}
