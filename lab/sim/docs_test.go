package sim

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
)

func TestDocumentationListsEveryProfileAndEveryFault(t *testing.T) {
	text, err := os.ReadFile("../../docs/checking.md")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(text), "\n")
	for _, p := range profiles {
		row := fmt.Sprintf("| `%s` | %s |", p.Name, p.About)
		if !containsRow(lines, row, "") {
			t.Errorf("docs/checking.md lacks the row %s", row)
		}
	}
	for _, f := range causal.AllFaults() {
		start, end := fmt.Sprintf("| `%s` | ", f), fmt.Sprintf(" | %s |", detectedBy[f])
		if !containsRow(lines, start, end) {
			t.Errorf("docs/checking.md lacks the row %s...%s", start, end)
		}
	}
}

func containsRow(lines []string, start, end string) bool {
	for _, l := range lines {
		if strings.HasPrefix(l, start) && strings.HasSuffix(l, end) {
			return true
		}
	}
	return false
}

func TestEveryFaultHasAScenario(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d scenarios, %v", len(files), err)
	}
	shown := map[string]bool{}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			for word := range strings.FieldsSeq(line) {
				if list, ok := strings.CutPrefix(word, "broken="); ok {
					for fault := range strings.SplitSeq(list, ",") {
						shown[fault] = true
					}
				}
			}
		}
	}
	for _, f := range causal.AllFaults() {
		if !shown[f.String()] {
			t.Errorf("no scenario plays the fault %s", f)
		}
	}
}
