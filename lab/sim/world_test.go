package sim

import (
	"testing"
	"time"

	"github.com/causalstore/causalstore/topology"
)

// A machine that kept a time of an earlier life would compare it with one that means nothing to it.
func TestTheMonotonicClockBeginsWithEachLifeOfANode(t *testing.T) {
	topo := threeRegions(t)
	w := NewWorld(topo, Settings{Seed: 1, Cache: true, Lease: time.Second, KeepMs: 1000})
	w.Run(10*time.Second, nil)
	for _, id := range []topology.Node{topo.Leader(0), topo.Owner(0, 0), {Part: topology.Cache}} {
		n := w.process(id)
		if at := w.clock(n).Mono; at < int64(9*time.Second) {
			t.Errorf("after 10 s the clock of %v is at %v", id, time.Duration(at))
		}
		w.crash(n)
		w.restart(n)
		if at := w.clock(n).Mono; at != 1 {
			t.Errorf("a process of %v begins with its clock at %v", id, time.Duration(at))
		}
		w.Run(time.Second, nil)
		if at := time.Duration(w.clock(n).Mono); at < 900*time.Millisecond || at > 1100*time.Millisecond {
			t.Errorf("one second after its start the clock of %v is at %v", id, at)
		}
	}
}
