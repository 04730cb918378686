package sim

import (
	"strings"
	"testing"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/session"
)

// What a sidecar has given back twice lets in more than its bound.
func TestACountThatIsWrongIsAViolation(t *testing.T) {
	topo := threeRegions(t)
	for _, broken := range []causal.Mutations{{}, causal.MutationsOf(causal.SkipDeps)} {
		w := NewWorld(topo, Settings{Seed: 1, Cache: true, Lease: time.Second, KeepMs: 1000, Broken: broken})
		sidecar := w.AddSidecar(0, 1, func([]session.Result) {})
		w.Run(time.Second, nil)
		if wrong := w.checkCounts(); len(wrong) > 0 {
			t.Fatal(wrong)
		}
		withMachine(w, sidecar, func(m *session.Sidecar, _ causal.Now) { m.ReleaseAhead(1) })
		wrong := w.checkCounts()
		if found := len(wrong) == 1 && strings.Contains(wrong[0], "-1 are counted, and there are 0"); found ==
			broken.Any() {
			t.Errorf("with rules broken %v: %q", broken.Any(), wrong)
		}
	}
}

// An operation that nobody answers is left when the deployment should be at rest.
func TestWhatIsLeftOfThePastIsAViolation(t *testing.T) {
	topo := threeRegions(t)
	for _, broken := range []causal.Mutations{{}, causal.MutationsOf(causal.SkipDeps)} {
		w := NewWorld(topo, Settings{Seed: 1, Cache: true, Lease: time.Second, KeepMs: 1000, Broken: broken})
		sidecar := w.AddSidecar(0, 1, func([]session.Result) {})
		w.Run(2*time.Second, nil)
		if left := w.checkRest(); len(left) > 0 {
			t.Fatal(left)
		}
		withMachine(w, sidecar, func(m *session.Sidecar, now causal.Now) {
			m.Open(1)
			m.Do(now, session.Op{ID: 7, Kind: session.OpGet, Session: 1, Key: "x"})
		})
		left := w.checkRest()
		if found := len(left) == 1 && strings.Contains(left[0], "operation 7: 1 are left"); found == broken.Any() {
			t.Errorf("with rules broken %v: %q", broken.Any(), left)
		}
	}
}
