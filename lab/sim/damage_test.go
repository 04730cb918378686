package sim

import (
	"testing"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal/shard"
	"github.com/causalstore/causalstore/topology"
)

// A person acts some time after a damage. If that damage is over by then, and the shards were damaged anew, it could be
// another one that still has the data: accepting the loss of the first one would lose them.
func TestAPersonActsOnlyOnTheDamageThatWasSeen(t *testing.T) {
	topo, err := topology.New(1, []topology.DataCenter{{Name: "a", Coordinators: 1, Shards: 1},
		{Name: "b", Coordinators: 1, Shards: 1}}, []topology.Ring{{Name: "one", DCs: []topology.DC{0}},
		{Name: "two", DCs: []topology.DC{1}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, isSeen := range []bool{true, false} {
		waiting := 0 // seeds in which the shard waits for a person when that would act
		for seed := range uint64(12) {
			w := NewWorld(topo, Settings{Seed: seed, KeepMs: 1000})
			c := newFaultInjector(w, 0, faultWeights{})
			n, acts, want := w.process(topo.Owner(0, 0)), 0, 0
			see := func() { c.afterDamage(n, 0, func(*disk) { acts++ }) }
			w.Run(2*time.Second, nil)
			if !isSeen {
				see()
				w.Run(time.Second, nil)
			}
			was := n.disk
			c.damageShards(int64(time.Second))
			if isSeen {
				see()
				w.Run(time.Second, nil)
			}
			w.Run(990*time.Millisecond, nil)
			if l := n.disk.Loss; n.disk == was && (l == shard.LossFound || l == shard.LossPartial) &&
				(!n.isUp() || n.hasWithdrawn()) {
				waiting++
				if isSeen {
					want = 1
				}
			}
			if w.Run(100*time.Millisecond, nil); acts != want {
				t.Errorf("damage was seen: %v, seed %d: a person acts %d times, want %d", isSeen, seed, acts, want)
			}
		}
		if waiting == 0 {
			t.Errorf("damage was seen: %v: no shard waits for a person", isSeen)
		}
	}
}
