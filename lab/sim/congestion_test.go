package sim

import (
	"testing"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/session"
	"github.com/causalstore/causalstore/topology"
)

// When all that goes to one of eight regions is late, every write takes seconds until it is complete: some of its key's
// shards are there. Sessions of the other regions still read in their own data centers, and older versions. In virtual
// time, so it is the same on every machine.
func TestACongestedRegionDoesNotBindTheSessionsOfOthers(t *testing.T) {
	for _, tt := range []struct {
		name      string
		addedMs   int64
		settle    time.Duration
		nearBytes int
	}{{"300 ms, with near copies", 300, 6 * time.Second, 4 << 20}, {"1200 ms", 1200, 12 * time.Second, 0}} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			topo := topology.Default()
			congested, found := topo.ByName("eu-west-1")
			if !found {
				t.Fatal("no region eu-west-1")
			}
			w, c := startRegions(topo, time.Second, tt.nearBytes)
			measure := func() (sum session.Stats) {
				for i, id := range c.sidecars {
					if topology.DC(i) == congested {
						continue
					}
					withMachine(w, id, func(m *session.Sidecar, _ causal.Now) {
						st := m.Stats()
						sum.Gets, sum.BoundGets, sum.RemoteReads = sum.Gets+st.Gets, sum.BoundGets+st.BoundGets,
							sum.RemoteReads+st.RemoteReads
					})
				}
				return sum
			}
			during := func(d time.Duration) session.Stats {
				before := measure()
				w.Run(d, nil)
				after := measure()
				return session.Stats{Gets: after.Gets - before.Gets, BoundGets: after.BoundGets - before.BoundGets,
					RemoteReads: after.RemoteReads - before.RemoteReads}
			}
			w.Run(6*time.Second, nil)
			before := during(4 * time.Second)
			w.net.congestionMs[congested] = tt.addedMs
			w.Run(tt.settle, nil)
			after := during(4 * time.Second)
			share := func(n, of uint64) float64 { return float64(n) / float64(of) }
			t.Logf("%d gets, then %d; bound %.3f, then %.3f; remote %.3f, then %.3f", before.Gets, after.Gets,
				share(before.BoundGets, before.Gets), share(after.BoundGets, after.Gets),
				share(before.RemoteReads, before.Gets), share(after.RemoteReads, after.Gets))
			if kept := share(after.Gets, before.Gets); kept < 0.8 {
				t.Errorf("%.2f of the gets are left, want 0.8", kept)
			}
			if bound := share(after.BoundGets, after.Gets); bound > 0.1 {
				t.Errorf("%.3f of the gets are bound, want at most 0.1", bound)
			}
		})
	}
}
