package sim

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
)

func TestDocumentationListsEveryProfile(t *testing.T) {
	text, err := os.ReadFile("../../docs/checking.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range profiles {
		if row := fmt.Sprintf("\n| `%s` | %s |\n", p.Name, p.About); !strings.Contains(string(text), row) {
			t.Errorf("docs/checking.md lacks the row %s", strings.TrimSpace(row))
		}
	}
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
					for mutation := range strings.SplitSeq(list, ",") {
						shown[mutation] = true
					}
				}
			}
		}
	}
	for _, f := range causal.AllMutations() {
		if !shown[f.String()] {
			t.Errorf("no scenario plays the mutation %s", f)
		}
	}
}
