package sim

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
)

func TestTheDocumentationNamesEveryProfileAndEveryFault(t *testing.T) {
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
		start, end := fmt.Sprintf("| `%s` | ", f), fmt.Sprintf(" | %s |", caughtBy[f])
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
