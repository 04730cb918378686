package coordinator

import (
	"fmt"
	"slices"
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
)

// scan asks the home for keys.
func (h *harness) scan(s causal.Scan) causal.ScanReply {
	h.t.Helper()
	s.ID = 99
	replies := ofKind(h.step(s.Message(app, h.cfg.Self)), causal.KindScanReply)
	if len(replies) != 1 || replies[0].ScanReply().ID != 99 {
		h.t.Fatalf("a scan is answered by %v", replies)
	}
	return replies[0].ScanReply()
}

// PROTOCOL HOM-9.
func TestAScanAtTheHomeNamesWhatIsIncompleteUpToWhenItBegan(t *testing.T) {
	h := newHomeHarness(t)
	var versions []causal.Version
	for i := range 5 {
		versions = append(versions, h.write(causal.Put{ID: uint64(i), Seq: uint64(i) + 1, Key: fmt.Sprint("k", i),
			Value: valueOf("v")}))
	}
	h.write(causal.Put{ID: 5, Seq: 6, Key: "k0", Value: causal.Value{Tombstone: true}})
	first := h.scan(causal.Scan{Limit: 2})
	if !slices.Equal(first.Keys, []string{"k0", "k1"}) || first.Next == "" || first.Place == 0 {
		t.Fatalf("first page: %+v", first)
	}
	h.write(causal.Put{ID: 6, Seq: 7, Key: "later", Value: valueOf("v")})
	h.ack(shardsA, versions[2])
	h.ack(shardsB, versions[2])
	for name, s := range map[string]causal.Scan{"after": {After: first.Next, Limit: 9}, "place": {Place: first.Place, Limit: 9}} {
		if r := h.scan(s); !slices.Equal(r.Keys, []string{"k3", "k4"}) || r.Next != "" {
			t.Errorf("by %s: %+v", name, r)
		}
	}
	if r := h.scan(causal.Scan{Place: first.Place + 1, Limit: 9}); r.Err != causal.ErrNotFound {
		t.Errorf("a place that it does not know: %+v", r)
	}
	if r := h.scan(causal.Scan{Seen: causal.HLCAt(1 << 40), Limit: 9}); r.Err != causal.ErrUnavailable {
		t.Errorf("who has seen more than the home has: %+v", r)
	}
	h.restart(h.now)
	h.c.Take(nil)
	if r := h.scan(causal.Scan{Place: first.Place, Limit: 9}); r.Err != causal.ErrNotFound {
		t.Errorf("a place of an earlier life: %+v", r)
	}
}
