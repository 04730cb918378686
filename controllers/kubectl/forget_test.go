package kubectl

import (
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/causalstore/causalstore/api/v1alpha1"
)

// testForget runs forget against a real API server. Nothing runs the operator: the test writes its status.
func testForget(t *testing.T, h *testCluster) {
	exclusions := func(dc int) int32 {
		t.Helper()
		if err := h.k.Get(t.Context(), client.ObjectKeyFromObject(h.store), h.store); err != nil {
			t.Fatal(err)
		}
		return h.store.Spec.DataCenters[dc].Exclusions
	}
	h.expectError("orders has no data center rome; use one of virginia, oregon, paris", "forget", "dc",
		"rome", "orders")

	exclusions(2)
	h.store.Status.DataCenters[0].Shards.Ready = 1
	for i := range h.store.Status.Conditions {
		if c := &h.store.Status.Conditions[i]; c.Type == v1alpha1.ConditionPeersConnected {
			c.Status = "True"
		}
	}
	if err := h.k.Status().Update(t.Context(), h.store); err != nil {
		t.Fatal(err)
	}
	h.expectError("virginia is not lost", "forget", "dc", "virginia", "orders", "--accept-loss")
	if n := exclusions(0); n != 0 {
		t.Errorf("virginia was excluded %d times", n)
	}

	h.expectOutput("Nothing was changed", "forget", "dc", "paris", "orders", "--force")
	if n := exclusions(2); n != 0 {
		t.Errorf("without --accept-loss, paris was excluded %d times", n)
	}

	// As if the operator had told the parts before the command looks.
	h.store.Status.DataCenters[2].Exclusion = &v1alpha1.ExclusionStatus{Count: 1, State: v1alpha1.ExclusionExcluded,
		Coordinators: 4, Applied: 4, Without: 2, Shards: 2}
	if err := h.k.Status().Update(t.Context(), h.store); err != nil {
		t.Fatal(err)
	}
	h.expectOutput("all 4 coordinators go by it; writes complete without 2 of 2 shards", "forget", "dc", "paris",
		"orders", "--force", "--accept-loss")
	if n := exclusions(2); n != 1 {
		t.Errorf("paris was excluded %d times, want 1", n)
	}
	if n := h.store.Spec.DataCenters[2].ForceExclusion; n != 1 {
		t.Errorf("with --force and without a majority, forceExclusion is %d, want 1", n)
	}
	if out, err := h.run("status"); err != nil || !strings.Contains(out, "EXCLUDED") ||
		!strings.Contains(out, "paris") {
		t.Errorf("status: %v\n%s", err, out)
	}

	h.expectError("without virginia no ring is left", "forget", "dc", "virginia", "orders", "--force", "--accept-loss")
	if n := exclusions(0); n != 0 {
		t.Errorf("virginia was excluded %d times, while paris is away", n)
	}
}
