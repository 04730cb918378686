package topology_test

import (
	"testing"

	"github.com/causalstore/causalstore/topology"
)

func TestEachSlotHasOneHomeAndFewMove(t *testing.T) {
	topo, err := topology.New(1, []topology.DataCenter{{Name: "north", Shards: 1, Coordinators: 3},
		{Name: "south", Shards: 1, Coordinators: 1}}, []topology.Ring{{Name: "r", DCs: []topology.DC{0, 1}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for n := 1; n <= topology.MaxCoordinators; n++ {
		count := make([]int, n)
		for slot := range topology.Slot(topology.Slots) {
			home := topo.HomeOf(0, slot, n)
			if home.DC != 0 || home.Part != topology.Coordinator || home.Index >= uint64(n) {
				t.Fatalf("%d coordinators: the home of slot %d is %v", n, slot, home)
			}
			count[home.Index]++
			if old := topo.HomeOf(0, slot, max(n-1, 1)); old != home && home.Index != uint64(n-1) {
				t.Fatalf("coordinator %d came, and slot %d moved from %v to %v", n-1, slot, old, home)
			}
			if other := topo.HomeOf(1, slot, 1); other != (topology.Node{DC: 1, Part: topology.Coordinator}) {
				t.Fatalf("the home of slot %d in a data center with one coordinator is %v", slot, other)
			}
		}
		for i, slots := range count {
			if fair := topology.Slots / n; slots < fair*7/10 || slots > fair*14/10 {
				t.Errorf("%d coordinators: number %d is the home of %d slots; want about %d", n, i, slots, fair)
			}
		}
	}
}
