package plan_test

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/causalstore/causalstore/controllers/causalstore/plan"
)

// TestTheDocumentationHasTheDemandsOfAllContainers compares the table of docs/kubernetes.md.
func TestTheDocumentationHasTheDemandsOfAllContainers(t *testing.T) {
	b, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "kubernetes.md"))
	if err != nil {
		t.Fatal(err)
	}
	cache := plan.CacheDemand("1Gi")
	cache.Memory, cache.MemoryLimit = "its `memory`", "the same"
	for name, d := range map[string]plan.Demand{"coordinator": plan.CoordinatorDemand, "front": plan.FrontDemand,
		"middleman": plan.MiddlemanDemand, "edge, of stores with several regions": plan.EdgeDemand(),
		"Redis": plan.RedisDemand, "sidecar of an app": plan.SidecarDemand, "cache": cache} {
		row := fmt.Sprintf("| %s | %s | %s | %s |", name, d.CPU, d.Memory, cmp.Or(d.MemoryLimit, "none"))
		if !strings.Contains(string(b), row) {
			t.Errorf("docs/kubernetes.md lacks the row %q", row)
		}
	}
}
