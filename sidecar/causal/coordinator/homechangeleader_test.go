package coordinator

import (
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// second is the coordinator beside the leader.
var second = topology.Node{Part: topology.Coordinator, Index: 1}

// newLeaderOfTwo returns a leader that has admitted another coordinator, whose data center has one home.
func newLeaderOfTwo(t *testing.T, mutations ...causal.Mutation) *harness {
	h := newHarness(t, 2, 0, mutations...)
	h.cfg.Home = true
	h.restart(h.now)
	h.c.log.pending.Terms[1] = 1
	h.haveHomes(1)
	return h
}

// changes returns what is said to the other coordinator.
func changes(ms []causal.Message) (cs []causal.HomeChange) {
	for _, m := range ofKind(ms, causal.KindHomeChange) {
		cs = append(cs, m.HomeChange())
	}
	return cs
}

// vote sends the answer of the other coordinator, and returns what is said to it then.
func (h *harness) vote(v causal.HomeVote) []causal.HomeChange {
	h.step(v.Message(second, h.cfg.Self))
	got := changes(h.tick(60))
	return append(got, changes(h.tick(60))...)
}

// PROTOCOL HOC-2, HOC-3.
func TestALeaderChangesTheNumberOfHomesWhenAllHaveGivenUpTheirSlots(t *testing.T) {
	for _, broken := range []bool{false, true} {
		h := newLeaderOfTwo(t, mutationIf(broken, causal.HomeChangeUnasked)...)
		key := h.keyOf(1) // which the other one is to get
		v := h.write(causal.Put{Seq: 1, Key: key})
		if got := changes(h.tick(1)); len(got) != 1 || got[0] != (causal.HomeChange{Number: 1, Count: 1}) {
			t.Fatalf("first the leader says %+v", got)
		}
		got := h.vote(causal.HomeVote{Number: 1, Ready: true})
		if broken {
			h.ack(shardsA, v)
			h.ack(shardsB, v)
			if h.tick(60); h.c.homeChange.count() != 2 {
				t.Error("broken: it waits for the vote")
			}
			continue
		}
		if len(got) == 0 || got[len(got)-1] != (causal.HomeChange{Number: 1, Next: 2}) {
			t.Fatalf("then it proposes %+v", got)
		}
		if err := h.refusal(causal.Put{Seq: 2, Key: key}); err != causal.ErrUnavailable {
			t.Errorf("a put of a slot that was given up gets %s", err)
		}
		if err := h.refusal(causal.Put{Seq: 3, Session: 2, Key: h.keyOf(0)}); err != causal.OK {
			t.Errorf("a put of a slot that stays gets %s", err)
		}
		upTo := causal.HLCAt(h.now.WallMs + 5_000)
		h.vote(causal.HomeVote{Number: 1, Next: 2, UpTo: upTo})
		if n := h.c.homeChange.count(); n != 1 {
			t.Fatalf("with an incomplete write of a slot that moves there are %d homes", n)
		}
		h.ack(shardsA, v)
		h.ack(shardsB, v)
		got = append(changes(h.tick(60)), changes(h.tick(60))...)
		if len(got) == 0 || got[len(got)-1].Number != 2 || got[len(got)-1].Count != 2 || got[len(got)-1].UpTo < upTo {
			t.Fatalf("it announces %+v", got)
		}
		if r := h.top(h.keyOf(0)); r.From < upTo {
			t.Errorf("reads elsewhere must include up to %d, and homes have shown up to %d", r.From, upTo)
		}
		if h.vote(causal.HomeVote{Number: 2}); !h.c.homeChange.isSettled() {
			t.Error("it goes on")
		}
	}
}

// PROTOCOL HOC-2.
func TestALeaderGivesAChangeUpThatTakesTooLong(t *testing.T) {
	h := newLeaderOfTwo(t)
	h.vote(causal.HomeVote{Number: 1, Ready: true})
	if h.c.log.durable.Homes.Next != 2 {
		t.Fatal("it has proposed nothing")
	}
	for range 50 {
		h.tick(100)
	}
	if d := h.c.log.durable.Homes; d.Number != 2 || d.Count != 1 || d.Next != 0 {
		t.Errorf("after a while it has %+v", d)
	}
	if err := h.refusal(causal.Put{Seq: 1, Key: h.keyOf(1)}); err != causal.OK {
		t.Errorf("a put of a slot that was given up before gets %s", err)
	}
}

// PROTOCOL HOC-3
func TestALeaderDecidesAgainForACoordinatorThatKnowsNoDecision(t *testing.T) {
	h := newHarness(t, 2, 0)
	h.cfg.Home = true
	h.restart(h.now)
	h.c.log.pending.Terms[1] = 1
	h.haveHomes(2)
	if h.vote(causal.HomeVote{Number: 1, Ready: true}); !h.c.homeChange.isSettled() {
		t.Fatal("it is not settled at first")
	}
	upTo := causal.HLCAt(h.now.WallMs)
	got := h.vote(causal.HomeVote{Ready: true, UpTo: upTo})
	if want := (causal.HomeChange{Number: 2, Count: 2, UpTo: upTo}); len(got) == 0 || got[len(got)-1] != want {
		t.Errorf("it says %+v, want %+v", got, want)
	}
	if r := h.top(h.keyOf(0)); r.From < upTo {
		t.Errorf("reads elsewhere must include up to %d, and the other one has accepted up to %d", r.From, upTo)
	}
}

// PROTOCOL HOC-2: sidecars go by the decision with the greatest number that they have heard of, though the log of the
// leader that has decided it was lost.
func TestTheNumberOfADecisionIsGreaterThanThoseOfALostLog(t *testing.T) {
	h := newLeaderOfTwo(t)
	log := recoveredLog{generation: uint64(h.now.WallMs), above: h.c.clock.Peek(h.now),
		homes: causal.Homes{Number: 5, Count: 2}}
	h.c.beginRecoveredLog(h.now, log)
	h.sync()
	if is := h.c.log.durable.Homes; is.Number < log.generation || is.Count != 2 || is.UpTo < log.above {
		t.Errorf("it begins with %+v", is)
	}
}

// PROTOCOL HOC-3: a coordinator that has left took writes of all keys at another scope. It does not vote.
func TestTheFirstDecisionIncludesWhatCoordinatorsThatHaveLeftHaveAccepted(t *testing.T) {
	h := newHarness(t, 1, 0)
	h.cfg.Home = true
	h.restart(h.now)
	sv := causal.HLCAt(h.now.WallMs + 100)
	h.c.known.Merge([]causal.VectorEntry{{Origin: h.cfg.Topology.OriginOf(second), SV: sv}}, causal.NoLimit)
	for range 3 {
		h.tick(60)
	}
	if is := h.c.log.durable.Homes; is.Count != 1 || is.UpTo < sv {
		t.Errorf("it has decided %+v", is)
	}
}
