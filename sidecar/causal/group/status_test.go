package group

import (
	"strings"
	"testing"
)

func TestALostGroupSaysWhatToDo(t *testing.T) {
	lost := Status{Lost: true}
	if p := lost.Problem(); !strings.Contains(p, "put that of one back") || !strings.Contains(p, "docs/disasters.md") {
		t.Errorf("it says %q", p)
	}
}
