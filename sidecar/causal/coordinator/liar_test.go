package coordinator

import (
	"fmt"
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// What a part with a certificate of its own may say, and cannot know.

// twoShards is a data center with two shards in a ring and two coordinators, and one with one shard in another ring.
func twoShards(t *testing.T) *topology.Topology { return twoShardsOf(t, 2) }

func twoShardsOf(t *testing.T, coordinators int) *topology.Topology {
	t.Helper()
	topo, err := topology.New(1, []topology.DataCenter{{Name: "a", Coordinators: coordinators, Shards: 2},
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

func TestATermFromTheEndOfAllNumbersIsNotKept(t *testing.T) {
	h := newHarnessOf(t, twoShards(t))
	second := topology.Node{Part: topology.Coordinator, Index: 1}
	h.step(causal.Term{ID: 1, Term: causal.MaxCounter, UpTo: 5, Join: true}.Message(second, h.cfg.Self))
	h.sync()
	if term, _ := h.c.TermOf(second); term > maxTermsAhead {
		t.Errorf("the leader keeps term %d", term)
	}
	joins := func() []causal.Message {
		h.step(causal.Term{ID: 2, Term: 2, UpTo: 5, Join: true}.Message(second, h.cfg.Self))
		h.sync()
		return ofKind(h.step(causal.Term{ID: 2, Term: 2, UpTo: 5, Join: true}.Message(second, h.cfg.Self)),
			causal.KindTermReply)
	}
	if replies := joins(); len(replies) != 1 || replies[0].TermReply().Term != 3 {
		t.Errorf("the coordinator cannot join any more: %v", replies)
	}
}

// Else: no shard's acknowledgement would count for the leader any more, also after a restart.
func TestWhatAnotherCoordinatorTellsOfShardsPutsNoneOutOfUse(t *testing.T) {
	h := newHarnessOf(t, twoShards(t))
	second := topology.Node{Part: topology.Coordinator, Index: 1}
	plausible := uint64(h.now.WallMs) << causal.IncarnationBits
	for _, lost := range []uint64{causal.MaxCounter, plausible} {
		var told []causal.ShardMark
		for _, n := range []topology.Node{shardsA, {Part: topology.Middleman, Index: 1}, shardsB} {
			told = append(told, causal.ShardMark{DC: n.DC, Index: n.Index, HasData: true, Incarnation: lost,
				Lost: lost})
		}
		for range 2 {
			h.step(causal.Term{ID: 1, Term: 2, UpTo: 5, Shards: told}.Message(second, h.cfg.Self))
			h.sync()
		}
	}
	h.restart(h.now)
	_, after := h.put(causal.Put{ID: 1, Session: 1, Seq: 1, Key: "k"})
	v := reply(t, after).Version
	h.ack(h.cfg.Topology.Owner(0, topology.SlotOf("k")), v)
	if done := ofKind(h.ack(shardsB, v), causal.KindComplete); len(done) != 1 {
		t.Error("the acknowledgements of shards do not count any more")
	}
	if mark := h.c.log.pending.mark(shardsB); mark.Incarnation > plausible {
		t.Errorf("incarnation %d is kept", mark.Incarnation)
	}
}

func TestAnIncarnationFromTheEndOfAllNumbersIsNotKept(t *testing.T) {
	h := newHarnessOf(t, twoShards(t))
	h.step(causal.PutAck{Incarnation: causal.MaxCounter}.Message(shardsB, h.cfg.Self))
	h.step(causal.LaneHello{Incarnation: causal.MaxCounter, Lost: true, Map: h.cfg.Topology.Map(1)}.Message(shardsB,
		h.cfg.Self))
	if mark := h.c.log.pending.mark(shardsB); mark.Incarnation != 0 || mark.Lost != 0 {
		t.Errorf("kept: %+v", mark)
	}
}
