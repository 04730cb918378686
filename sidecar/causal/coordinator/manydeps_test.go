package coordinator

import (
	"slices"
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
)

// A put that names as much as it may, all of it twice, depends on each once. To look for each in the list of the others
// would take a coordinator milliseconds.
func TestAPutWithManyDependenciesHasEachOnce(t *testing.T) {
	for _, n := range []int{1, manyDeps - 1, manyDeps, manyDeps + 1, causal.MaxPutDeps / 2} {
		h := newHarness(t, 1, 0)
		h.tick(10)
		deps := h.elsewhere(n)
		h.put(causal.Put{ID: 1, Session: 1, Seq: 1, Key: "k", Deps: append(slices.Clone(deps), deps...)})
		if got := h.c.writes[0].deps; !slices.Equal(got, deps) {
			t.Errorf("of %d dependencies, the write has %d", n, len(got))
		}
		h.put(causal.Put{ID: 2, Session: 2, Seq: 1, Key: "k", Deps: deps})
		if got := h.c.writes[1].deps; !slices.Equal(got, deps) {
			t.Errorf("of %d dependencies, the next write has %d", n, len(got))
		}
	}
}

func BenchmarkPutWithManyDependencies(b *testing.B) {
	h := newHarness(&testing.T{}, 1, 0)
	h.tick(10)
	deps := h.elsewhere(causal.MaxPutDeps)
	for i := range uint64(b.N) {
		h.put(causal.Put{ID: i, Session: i, Seq: 1, Key: "k", Deps: deps})
	}
}
