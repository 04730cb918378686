package groups

import (
	"strings"
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
)

// A record that is not durable where it should be, and a lease that nobody has granted for as long, are seen though no
// user suffers from it.
func TestWhatMembersSayIsComparedWithTheirDisksAndClocks(t *testing.T) {
	for fault, want := range map[causal.Mutation]string{
		causal.AckBeforeDurable: "is not durable on", causal.SelfBeforeDurable: "is not durable on",
		causal.AckBeforeAll: "is not durable on", causal.DropBeforeSettled: "longer than",
		causal.GrantFromReceipt: "longer than", causal.GrantGivenBack: "longer than",
	} {
		t.Run(fault.String(), func(t *testing.T) {
			for seed := range uint64(100) {
				if o := Run(seed, causal.MutationsOf(fault)); len(o.Violations) > 0 {
					if !strings.Contains(o.Violations[0], want) {
						t.Errorf("seed %d: %q, want %q", seed, o.Violations[0], want)
					}
					return
				}
			}
			t.Error("not seen")
		})
	}
}
