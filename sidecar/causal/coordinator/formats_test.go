package coordinator

import (
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/value"
	"github.com/causalstore/causalstore/topology"
)

// leaderB leads the other data center.
var leaderB = topology.Node{DC: 1, Part: topology.Coordinator}

// newFormatsHarness returns a harness whose coordinator reads collections, and has not heard of anybody else.
func newFormatsHarness(t *testing.T, index uint64, mutations ...causal.Mutation) *harness {
	h := newHarness(t, 2, index, mutations...)
	h.cfg.Types = value.Shipped()
	h.log[0].Checkpoint.Term = 1
	h.restart(h.now)
	h.tick(0)
	return h
}

// says answers a query.
func (h *harness) says(from topology.Node, r causal.FormatReply) {
	h.step(r.Message(from, h.cfg.Self))
	h.sync()
}

// putsHash puts a hash, and returns the answer.
func (h *harness) putsHash(seq uint64) causal.PutReply {
	h.t.Helper()
	before, after := h.put(causal.Put{ID: seq, Session: 1, Seq: seq, Key: "x", Value: fieldValue("a")})
	replies := ofKind(append(before, after...), causal.KindPutReply)
	if len(replies) != 1 {
		h.t.Fatalf("%d answers to a put", len(replies))
	}
	return replies[0].PutReply()
}

var secondA = topology.Node{Part: topology.Coordinator, Index: 1}

// PROTOCOL FMT-1.
func TestAValueIsRefusedUntilAllPartsAreKnownToReadIt(t *testing.T) {
	reads := causal.FormatReply{Reads: value.FormatCollections}
	h := newFormatsHarness(t, 0)
	if got := h.putsHash(1); got.Err != causal.ErrUnavailable {
		t.Errorf("right after the start: %v", got.Err)
	}
	h.says(shardsA, reads)
	h.says(secondA, reads)
	if got := h.putsHash(2); got.Err != causal.ErrUnavailable {
		t.Errorf("before the other data center has answered: %v", got.Err)
	}
	h.says(leaderB, causal.FormatReply{Lacking: shardsB, Heard: true})
	if got := h.putsHash(3); got.Err != causal.ErrFormat || got.Lacking != shardsB {
		t.Errorf("while a shard elsewhere is of an earlier version: %v, lacking %v", got.Err, got.Lacking)
	}
	h.says(leaderB, reads)
	if got := h.putsHash(4); got.Err != causal.OK {
		t.Errorf("when all have answered: %v", got.Err)
	}
}

func TestAPartThatDoesNotAnswerIsNamed(t *testing.T) {
	h := newFormatsHarness(t, 0)
	h.says(secondA, causal.FormatReply{Reads: value.FormatCollections})
	h.says(leaderB, causal.FormatReply{Reads: value.FormatCollections})
	h.tick(formatPatience.Milliseconds())
	h.says(secondA, causal.FormatReply{Reads: value.FormatCollections})
	h.says(leaderB, causal.FormatReply{Reads: value.FormatCollections})
	if got := h.putsHash(1); got.Err != causal.ErrFormat || got.Lacking != shardsA {
		t.Errorf("%v, lacking %v", got.Err, got.Lacking)
	}
}

// PROTOCOL FMT-2.
func TestAnAnswerCountsForAWhile(t *testing.T) {
	for _, broken := range []bool{false, true} {
		h := newFormatsHarness(t, 0, mutationIf(broken, causal.FormatSaidOnce)...)
		reads := causal.FormatReply{Reads: value.FormatCollections}
		h.says(shardsA, reads)
		h.says(secondA, reads)
		h.tick(formatFreshFor.Milliseconds() + 1)
		h.says(leaderB, reads)
		if got := h.c.UsableFormat() > 0; got != broken {
			t.Errorf("broken %v: usable with answers of long ago: %v", broken, got)
		}
	}
}

// PROTOCOL FMT-4.
func TestWhatIsUsableIsSoAfterARestart(t *testing.T) {
	for _, broken := range []bool{false, true} {
		h := newFormatsHarness(t, 0, mutationIf(broken, causal.FormatForgotten)...)
		for _, n := range []topology.Node{shardsA, secondA, leaderB} {
			h.says(n, causal.FormatReply{Reads: value.FormatCollections})
		}
		h.restart(h.now)
		h.tick(0)
		if got := h.putsHash(1).Err == causal.OK; got == broken {
			t.Errorf("broken %v: accepted after a restart: %v", broken, got)
		}
		if sent := ofKind(h.tick(1000), causal.KindFormatQuery); (len(sent) > 0) != broken {
			t.Errorf("broken %v: it asks %v", broken, sent)
		}
	}
}

// PROTOCOL FMT-5.
func TestACoordinatorBelievesItsLeaderWhatIsUsable(t *testing.T) {
	h := newFormatsHarness(t, 1)
	h.says(topology.Node{Part: topology.Coordinator}, causal.FormatReply{Reads: value.FormatCollections})
	if got := h.putsHash(1); got.Err != causal.ErrUnavailable {
		t.Errorf("by what parts read: %v", got.Err)
	}
	h.says(shardsA, causal.FormatReply{Usable: value.FormatCollections})
	if got := h.putsHash(2); got.Err != causal.ErrUnavailable {
		t.Errorf("when somebody says so whom it does not ask: %v", got.Err)
	}
	h.says(topology.Node{Part: topology.Coordinator}, causal.FormatReply{Usable: value.FormatCollections})
	if got := h.putsHash(3); got.Err != causal.OK {
		t.Errorf("when the leader says so: %v", got.Err)
	}
}

func TestALeaderTellsOthersOfItsDataCenterAndItsOwnOfAll(t *testing.T) {
	h := newFormatsHarness(t, 0)
	reads := causal.FormatReply{Reads: value.FormatCollections}
	h.says(shardsA, reads)
	h.says(secondA, reads)
	ask := func(from topology.Node) causal.FormatReply {
		return h.step(causal.FormatQuery{}.Message(from, h.cfg.Self))[0].FormatReply()
	}
	if got := ask(leaderB); got.Reads != value.FormatCollections {
		t.Errorf("another leader is told %+v", got)
	}
	if got := ask(secondA); got.Reads != 0 || got.Lacking != leaderB || got.Usable != 0 {
		t.Errorf("a coordinator of the data center is told %+v", got)
	}
}
