package coordinator

import (
	"fmt"
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// silentHarness is a leader that adopts the writes of the only coordinator of the other data center, which is silent.
func silentHarness(t *testing.T) (h *harness, silent topology.Origin) {
	t.Helper()
	h = newHarness(t, 1, 0)
	silent = h.cfg.Topology.OriginOf(topology.Node{DC: 1, Part: topology.Coordinator})
	for range 30 {
		h.tick(100)
	}
	if h.c.adopter.cases[silent] == nil {
		t.Fatal("it adopts nothing")
	}
	return h, silent
}

// held is what a shard reports of its n-th put of the silent origin.
func (h *harness) held(silent topology.Origin, incarnation, n uint64) causal.AdoptHeld {
	v := causal.Version{HLC: causal.HLCAt(h.now.WallMs) + causal.HLC(n), Origin: silent}
	return causal.AdoptHeld{ID: h.cfg.Incarnation, Origin: silent, Incarnation: incarnation, Before: n - 1, Number: n,
		Key:    fmt.Sprint("k", n),
		Record: causal.Record{Version: v, Value: causal.Value{Data: []byte("value")}}}
}

// reports makes a shard answer the adopter.
func (h *harness) reports(shard topology.Node, a causal.AdoptHeld) {
	a.Map = h.cfg.Topology.Map(h.cfg.Topology.RingOf(shard.DC))
	h.step(a.Message(shard, h.cfg.Self))
}

// asksAfter returns behind which put the adopter asks a shard next.
func (h *harness) asksAfter(shard topology.Node) uint64 {
	h.t.Helper()
	for range 20 {
		for _, m := range ofKind(h.tick(100), causal.KindAdoptQuery) {
			if m.To == shard {
				return m.AdoptQuery().After
			}
		}
	}
	h.t.Fatalf("%s is not asked", shard)
	return 0
}

// A shard numbers what it holds anew after a restart.
func TestAShardThatHasRestartedIsAskedForAllThatItHoldsOfASilentOrigin(t *testing.T) {
	h, silent := silentHarness(t)
	h.reports(shardsB, h.held(silent, 7, 1))
	h.reports(shardsB, h.held(silent, 7, 2))
	if after := h.asksAfter(shardsB); after != 2 {
		t.Fatalf("it asks for what follows %d, and has got 2", after)
	}
	none := causal.AdoptHeld{ID: h.cfg.Incarnation, Origin: silent, Incarnation: 8, None: true}
	h.reports(shardsB, none)
	if after := h.asksAfter(shardsB); after != 0 {
		t.Errorf("after a restart of the shard it asks for what follows %d", after)
	}
	h.reports(shardsB, h.held(silent, 7, 3)) // late, of the life before
	if n := len(h.c.adopter.cases[silent].order); n != 2 {
		t.Errorf("%d writes were collected, want 2", n)
	}
}

// The third of three reports was lost before the second came.
func TestALostReportOfWhatAShardHoldsIsAskedForAgain(t *testing.T) {
	h, silent := silentHarness(t)
	h.reports(shardsB, h.held(silent, 7, 1))
	h.reports(shardsB, h.held(silent, 7, 3))
	if after := h.asksAfter(shardsB); after != 1 {
		t.Errorf("it asks for what follows %d, and lacks 2", after)
	}
}

func TestWhatWasCollectedOfAnOriginThatIsBackTakesNoRoom(t *testing.T) {
	h, silent := silentHarness(t)
	h.reports(shardsB, h.held(silent, 7, 1))
	if h.c.adopter.bytes == 0 {
		t.Fatal("what was collected counts for nothing")
	}
	vectors := causal.VectorEntry{Origin: silent, RV: make([]causal.HLC, 2)}
	vectors.RV[1] = 5
	h.step(causal.Vectors{Entries: []causal.VectorEntry{vectors}}.Message(h.cfg.Topology.Leader(1), h.cfg.Self))
	h.tick(1000)
	if a := h.c.adopter; a.cases[silent] != nil || a.bytes != 0 {
		t.Errorf("the origin is back; it is adopted: %v, and %d bytes count", a.cases[silent] != nil, a.bytes)
	}
}

// A shard speaks for the slots that it owns.
func TestAShardReportsNothingOfSlotsThatAnotherOneOwns(t *testing.T) {
	h, silent := silentHarness(t)
	a := h.held(silent, 7, 1)
	stranger := topology.Node{DC: 1, Part: topology.Middleman, Index: 1}
	h.reports(stranger, a)
	if n := len(h.c.adopter.cases[silent].order); n != 0 {
		t.Errorf("%d writes were collected from a shard that owns nothing", n)
	}
	h.reports(shardsB, a)
	if n := len(h.c.adopter.cases[silent].order); n != 1 {
		t.Errorf("%d writes were collected from the owner, want 1", n)
	}
}
