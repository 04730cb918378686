package causal

import (
	"testing"

	"github.com/causalstore/causalstore/topology"
)

func TestAQuotaBoundsEachIdentityOverAllItsNodes(t *testing.T) {
	q := Quota{Total: 5, Each: 3, OwnerOf: func(n topology.Node) string {
		return map[uint64]string{1: "shop", 2: "shop"}[n.Index]
	}}
	node := func(i uint64) topology.Node { return topology.Node{Part: topology.Sidecar, Index: i} }
	var held []Holder
	for _, c := range []struct {
		index uint64
		room  bool
	}{{1, true}, {2, true}, {1, true}, {2, false}, {1, false}, {3, true}, {4, true}, {5, false}} {
		h, ok := q.Take(node(c.index))
		if ok != c.room {
			t.Errorf("node %d, with %d held: room %v", c.index, q.Held(), ok)
		}
		if ok {
			held = append(held, h)
		}
	}
	q.Must(node(9))
	for _, h := range held {
		q.Release(h, 1)
	}
	if q.Held() != 1 || len(q.byHolder) != 1 {
		t.Errorf("%d are held by %d after all but one were released", q.Held(), len(q.byHolder))
	}
}
