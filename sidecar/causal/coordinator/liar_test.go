package coordinator

import (
	"fmt"
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// What a part with a certificate of its own may say, and cannot know.

// twoShards is a data center with two shards in a ring, and one in another ring.
func twoShards(t *testing.T) *topology.Topology {
	t.Helper()
	topo, err := topology.New(1, []topology.DataCenter{{Name: "a", Coordinators: 2, Shards: 2},
		{Name: "b", Ring: 1, Coordinators: 1, Shards: 1}},
		[]topology.Ring{{Name: "r", DCs: []topology.DC{0}}, {Name: "s", DCs: []topology.DC{1}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return topo
}

func newHarnessOf(t *testing.T, topo *topology.Topology) *harness {
	cfg := DefaultConfig(topo, topology.Node{Part: topology.Coordinator})
	cfg.Incarnation = 1
	h := &harness{t: t, cfg: cfg, now: causal.Now{Mono: 1, WallMs: 100_000},
		log: []LogRecord{{Checkpoint: &Checkpoint{State: State{Term: 1}}}}, index: 1}
	h.c = New(cfg, h.now, logged(h.log), 2)
	return h
}

func TestOnlyTheOwnerOfASlotAcknowledgesAWrite(t *testing.T) {
	h := newHarnessOf(t, twoShards(t))
	key := ""
	for i := 0; h.cfg.Topology.Owner(0, topology.SlotOf(key)) != shardsA; i++ {
		key = fmt.Sprint("k", i)
	}
	_, after := h.put(causal.Put{ID: 1, Session: 1, Seq: 1, Key: key})
	v := reply(t, after).Version
	h.ack(shardsB, v)
	liar := topology.Node{Part: topology.Middleman, Index: 1}
	if done := ofKind(h.ack(liar, v), causal.KindComplete); len(done) > 0 {
		t.Error("a write is complete by the word of a shard that has nothing to do with it")
	}
	if done := ofKind(h.ack(shardsA, v), causal.KindComplete); len(done) != 1 {
		t.Error("the word of the owner did not count")
	}
}
