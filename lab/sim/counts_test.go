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
	for _, broken := range []causal.Faults{{}, causal.FaultsOf(causal.SkipDeps)} {
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
