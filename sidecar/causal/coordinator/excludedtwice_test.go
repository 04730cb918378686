package coordinator

import (
	"slices"
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// exclude makes the coordinator apply the n-th exclusion of the data center of shardsB.
func (h *harness) exclude(n uint32) {
	h.t.Helper()
	x := causal.Exclusions{0, n}
	h.c.exclusion.learn(h.now, x)
	h.c.exclusion.exclude(h.now, x)
	h.tick(10)
	if h.c.exclusion.active.Of(1) != n || !h.c.lanes[shardsB].excluded {
		h.t.Fatalf("it applies %v; the lane is without its shard: %v", h.c.exclusion.active,
			h.c.lanes[shardsB].excluded)
	}
}

// lost says that shardsB has begun again with nothing, by the n-th exclusion of its data center.
func (h *harness) lost(incarnation uint64, n uint32) {
	var out causal.Outbox
	out.SetExclusions(causal.Exclusions{0, n})
	out.Send(causal.LaneHello{Incarnation: incarnation, Lost: true, Map: h.cfg.Topology.Map(1)}.Message(shardsB,
		h.cfg.Self))
	for _, m := range out.Take(nil) {
		h.step(m)
		h.sync() // it is durable that the acknowledgements count no more
		h.step(m)
	}
	h.tick(10)
}

// ackUnder acknowledges a write by a shard that applies the n-th exclusion of the data center of shardsB.
func (h *harness) ackUnder(n uint32, v causal.Version) {
	var out causal.Outbox
	out.SetExclusions(causal.Exclusions{0, n})
	out.Send(causal.PutAck{Incarnation: 1, Versions: []causal.Version{v}}.Message(shardsA, h.cfg.Self))
	for _, m := range out.Take(nil) {
		h.step(m)
	}
}

// A data center is excluded, comes back, and is excluded again. What its shards have said after the first time says
// nothing of the second.
func TestADataCenterIsExcludedTwice(t *testing.T) {
	h := newHarness(t, 1, 0)
	h.tick(10)
	h.exclude(1)
	if h.lost(8, 1); h.c.lanes[shardsB].excluded {
		t.Fatal("the shard is back, and writes do not wait for it")
	}
	h.exclude(2)
	_, after := h.put(causal.Put{ID: 1, Session: 1, Seq: 1, Key: "k"})
	v := reply(t, after).Version
	if h.ackUnder(1, v); h.c.isComplete(v) {
		t.Error("a write is complete without a shard, and no other one that has it knows that")
	}
	h.ackUnder(2, v)
	if h.tick(1000); !h.c.isComplete(v) {
		t.Error("a write waits for a shard that is excluded for the second time")
	}
	h.lost(8, 1) // late
	h.c.exclusion.noteRejoined(shardsB, causal.Exclusions{0, 1})
	h.c.writeCheckpoint(h.now)
	h.tick(10)
	if !h.c.lanes[shardsB].excluded || !h.c.log.durable.isExcluded(shardsB) {
		t.Error("the shard is back by what it said after the first exclusion")
	}
	if h.lost(9, 2); h.c.lanes[shardsB].excluded {
		t.Error("the shard is back again, and writes do not wait for it")
	}
	x := h.c.log.durable.ShardExclusions
	if i := slices.IndexFunc(x, func(x ShardExclusion) bool {
		return x.Shard == shardsB
	}); i < 0 || x[i] != (ShardExclusion{shardsB, 2, 2}) {
		t.Errorf("noted %v", x)
	}
}

// Only the word that it is complete counts: that a shard has it says nothing of others.
func TestAForeignWriteIsCompleteWhenAShardSaysSo(t *testing.T) {
	s := newParts(t)
	lanes := newLaneTable(s)
	l := &lane{mm: shardsA}
	lanes.lanes[shardsA], lanes.laneOrder = l, append(lanes.laneOrder, l)
	v := causal.Version{HLC: 5, Origin: 2}
	f := newForeignWrites(s, &lanes, &buffer{})
	f.asked = map[causal.Version]topology.Slot{v: 0}
	for _, isComplete := range []bool{false, true} {
		f.takeStatus(shardsA, causal.DepStatus{Version: v, Clean: true, Complete: isComplete})
		if _, complete := f.complete[v]; complete != isComplete {
			t.Errorf("a shard says %v, and the write counts as complete: %v", isComplete, complete)
		}
	}
}
