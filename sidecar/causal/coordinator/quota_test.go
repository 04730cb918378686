package coordinator

import (
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// limited makes the bounds on sessions small.
func (h *harness) limited(total, each int) {
	h.c.quota = causal.Quota{Total: total, Each: each, OwnerOf: func(n topology.Node) string {
		if n.Index >= 100 {
			return "attacker"
		}
		return ""
	}}
}

func TestNewSessionsOfOneIdentityHaveABound(t *testing.T) {
	h := newHarness(t, 1, 0)
	h.tick(10)
	h.limited(12, 8)
	refused := 0
	for i := range uint64(1000) {
		reply := h.step(causal.Put{ID: 1, Session: i, Seq: 1,
			Key: "k"}.Message(topology.Node{Part: topology.Sidecar, Index: 100 + i}, h.cfg.Self))
		for _, m := range ofKind(reply, causal.KindPutReply) {
			if m.PutReply().Err == causal.ErrBusy {
				refused++
			}
		}
	}
	if len(h.c.sessions) != 8 || refused != 992 {
		t.Errorf("%d sessions are remembered, %d puts refused", len(h.c.sessions), refused)
	}
	for i := range uint64(5) { // others have room until all of it is taken
		busy := false
		for _, m := range ofKind(h.step(causal.Put{ID: 1, Session: 1, Seq: 1,
			Key: "k"}.Message(topology.Node{Part: topology.Sidecar, Index: i}, h.cfg.Self)), causal.KindPutReply) {
			busy = m.PutReply().Err == causal.ErrBusy
		}
		if busy != (i == 4) {
			t.Errorf("sidecar %d is refused: %v", i, busy)
		}
	}
	if again := h.step(causal.Put{ID: 2, Session: 3, Seq: 2,
		Key: "k"}.Message(topology.Node{Part: topology.Sidecar, Index: 103}, h.cfg.Self)); len(ofKind(again,
		causal.KindPutReply)) != 0 {
		t.Errorf("a session that is remembered is refused: %v", again)
	}
}

func TestIdleSessionsMakeRoom(t *testing.T) {
	h := newHarness(t, 1, 0)
	h.tick(10)
	h.limited(4, 4)
	for i := range uint64(4) {
		h.put(causal.Put{ID: 1, Session: i, Seq: 1, Key: "k"})
	}
	for _, tail := range h.c.sessions {
		tail.accepted = nil // they have their answers
	}
	h.now.Mono += int64(sessionIdle) + 1
	before, _ := h.put(causal.Put{ID: 1, Session: 9, Seq: 1, Key: "k"})
	if len(ofKind(before, causal.KindPutReply)) != 0 || len(h.c.sessions) != 1 || h.c.quota.Held() != 1 {
		t.Errorf("%v; %d sessions, %d counted", before, len(h.c.sessions), h.c.quota.Held())
	}
}

func TestSubscribersHaveABound(t *testing.T) {
	h := newHarness(t, 1, 0)
	for i := range uint64(maxSubscribers + 10) {
		h.step(causal.Subscribe{}.Message(topology.Node{Part: topology.Sidecar, Index: i}, h.cfg.Self))
	}
	if n := len(h.c.leader.subscribers); n != maxSubscribers {
		t.Errorf("%d subscribers", n)
	}
}
