package sim

import (
	"strings"
	"testing"

	"github.com/causalstore/causalstore/history"
	"github.com/causalstore/causalstore/sidecar/causal"
)

// What is said of a write, and is not so, is seen though nobody reads it.
func TestAFalseClaimIsSeenWithoutAReader(t *testing.T) {
	var checker history.Checker
	for _, tt := range []struct {
		mutation causal.Mutation
		want     string
	}{
		{causal.SVEarly, "says that ring"}, {causal.AckBeforeInvalidation, "cache-0"},
		{causal.SupersededKeepsOlder, "cache-0"}, {causal.FillAnyCache, "cache-"}, {causal.NearDropLate, "sidecar-1"},
	} {
		t.Run(tt.mutation.String(), func(t *testing.T) {
			p, err := ProfileNamed(tt.mutation.Info().Profile)
			if err != nil {
				t.Fatal(err)
			}
			for seed := range uint64(8) {
				var w *World
				runWith(p, seed, causal.MutationsOf(tt.mutation), &checker, func(world *World) {
					w = world
					w.claims.judgesBroken = true
				})
				if len(w.claims.found) > 0 {
					if !strings.Contains(w.claims.found[0], tt.want) {
						t.Errorf("seed %d: %q, want %q", seed, w.claims.found, tt.want)
					}
					return
				}
			}
			t.Error("not seen")
		})
	}
}
