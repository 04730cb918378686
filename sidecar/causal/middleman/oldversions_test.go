package middleman

import (
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
)

func rec(hlc causal.HLC, data string) causal.Record {
	return causal.Record{Version: causal.Version{HLC: hlc, Origin: 1}, Value: causal.Value{Data: []byte(data)}}
}

func TestHistoryAnswersACutOrSaysThatItCannot(t *testing.T) {
	h := newOldVersions(nil, 1<<20)
	h.add("k", causal.Missing(0), rec(10, ""), true)
	h.add("k", rec(10, "a"), rec(30, ""), true)
	h.addSuperseded("k", rec(20, "b")) // processed after 30, and before it in order
	for cut, want := range map[causal.HLC]struct {
		data string
		next causal.HLC
	}{9: {"", 10}, 10: {"a", 20}, 19: {"a", 20}, 20: {"b", 30}, 29: {"b", 30}} {
		if r, next, ok := h.at("k", cut); !ok || string(r.Value.Data) != want.data || next != want.next {
			t.Errorf("at %d: %q until %d, %v; want %v", cut, r.Value.Data, next, ok, want)
		}
	}
	h.prune(20)
	if r, _, ok := h.at("k", 25); !ok || string(r.Value.Data) != "b" {
		t.Errorf("after pruning to 20, at 25: %q, %v; want b", r.Value.Data, ok)
	}
}

func TestHistoryNeverAnswersBelowWhatItHasForgotten(t *testing.T) {
	h := newOldVersions(nil, 1<<20)
	h.add("k", rec(10, "a"), rec(30, ""), true)
	h.add("k", rec(30, "c"), rec(50, ""), true)
	h.prune(40)
	if r, _, ok := h.at("k", 20); ok {
		t.Errorf("at 20, which was pruned: %q", r.Value.Data)
	}
	h.addSuperseded("k", rec(15, "late")) // below the lowest: what came between is not known
	if r, _, ok := h.at("k", 20); ok {
		t.Errorf("at 20: %q from a write below what is complete", r.Value.Data)
	}
}

func TestHistoryKeepsItsBound(t *testing.T) {
	h := newOldVersions(nil, 3000)
	for i := causal.HLC(1); i < 1000; i++ {
		h.add("k"+string(rune('a'+i%26)), rec(i, "0123456789"), rec(i+26, ""), true)
		if h.bytes > 3000 {
			t.Fatalf("%d bytes after %d writes, the bound is 3000", h.bytes, i)
		}
	}
}

func TestTheHistoryKeepsItsBoundWhileSVStands(t *testing.T) {
	h := newOldVersions(nil, 1<<16)
	for i := 1; i <= 200_000; i++ {
		h.add("x", causal.Record{Version: causal.Version{HLC: causal.HLC(i), Origin: 1}, Value: causal.Value{}},
			causal.Record{Version: causal.Version{HLC: causal.HLC(i + 1), Origin: 1}}, true)
	}
	if len(h.order) > 10_000 {
		t.Errorf("order has %d refs to %d versions", len(h.order), h.bytes/oldVersionOverhead)
	}
}

// Each version of a key is pruned by the insertion that has brought it.
func TestTheHistoryIsPrunedAfterItWasCompacted(t *testing.T) {
	h := newOldVersions(nil, 1<<20)
	for i := causal.HLC(1); i <= 3; i++ {
		h.add("k", rec(i, "a"), rec(i+1, ""), true)
	}
	h.prune(3)
	h.compact()
	h.prune(4)
	if len(h.keys) != 0 || h.bytes != 0 || len(h.order) != 0 {
		t.Errorf("%d keys with %d bytes are left", len(h.keys), h.bytes)
	}
}

func TestTheRecordInStorageIsKeptWithinItsShare(t *testing.T) {
	h := newOldVersions(nil, 4*(10+oldVersionOverhead)*storedShare)
	for i := causal.HLC(1); i <= 6; i++ {
		h.add(string(rune('a'+int(i))), causal.Missing(0), rec(i, "0123456789"), true)
	}
	known := 0
	for i := causal.HLC(1); i <= 6; i++ {
		if r, ok := h.stored(string(rune('a' + int(i)))); ok && r.Version == rec(i, "").Version {
			known++
		}
	}
	if known == 0 || known == 6 || h.storedBytes > h.maxBytes/storedShare {
		t.Errorf("%d of 6 records are kept, with %d bytes; their share is %d", known, h.storedBytes,
			h.maxBytes/storedShare)
	}
	h.add("b", rec(1, "0123456789"), rec(7, "x"), true)
	if r, ok := h.stored("b"); !ok || r.Version != rec(7, "").Version {
		t.Errorf("after another write the record in storage is %v, %v", r, ok)
	}
	h.noteOtherWrite("b")
	if _, ok := h.stored("b"); ok {
		t.Error("the record in storage is known after something else has written it")
	}
	h.prune(rec(100, "").Version.HLC)
	if _, ok := h.stored("c"); ok || h.storedBytes != 0 || h.bytes != 0 {
		t.Errorf("%d bytes of records in storage and %d of old versions are left when no history is",
			h.storedBytes, h.bytes)
	}
}
