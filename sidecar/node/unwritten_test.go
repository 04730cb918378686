package node

import (
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/operation"
)

// The home has decided whether a key had expired. The clock of the sidecar is later, or another one.
func TestAnOperationThatHasWrittenNothingHasNotHereEither(t *testing.T) {
	const expires = 1000
	on := causal.Value{Data: []byte("v"), ExpireAtMs: expires}
	for name, c := range map[string]struct {
		conditions operation.Condition
		nowMs      int64
		exists     bool
	}{
		"it had not expired there": {operation.IfMissing, expires + 5, true},
		"it had expired there":     {operation.IfExists, expires - 5, false},
		"both agree":               {operation.IfMissing, expires - 5, true},
	} {
		o := operation.Operation{Kind: operation.Set, Conditions: c.conditions, Data: []byte("w")}
		if got := unwrittenOutcome(&o, on, c.nowMs); got.Writes || got.Exists != c.exists {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
