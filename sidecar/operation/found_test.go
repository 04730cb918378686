package operation

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/causalstore/causalstore/sidecar/causal"
)

func TestWhatWasFoundIsReadBackAsItWasSent(t *testing.T) {
	for _, found := range []Found{
		{Version: causal.Version{HLC: 1 << 60, Origin: 3}, From: 1 << 61,
			Value: causal.Value{Data: []byte("old"), ExpireAtMs: 5}},
		{Version: causal.Version{HLC: 7, Origin: 1}, Value: causal.Value{Data: []byte{}}},
		{From: 9, Value: causal.Value{Tombstone: true}},
	} {
		o := Operation{Kind: Append, Data: []byte("new"), Limit: 9, Sums: true, Found: &found}
		v := o.Value(false)
		got, _, ok := Parse(v)
		if diff := cmp.Diff(o, got); diff != "" || !ok || !HasFound(v) {
			t.Errorf("known %v: %s", ok, diff)
		}
		for n := range v.Data[:len(v.Data)-len(o.Data)] {
			if _, _, ok = Parse(causal.Value{Type: causal.Operation, Data: v.Data[:n]}); ok {
				t.Errorf("the first %d of %d bytes are taken for all", n, len(v.Data))
			}
		}
	}
	o := Operation{Kind: Add, Number: 1}
	if HasFound(o.Value(false)) {
		t.Error("nothing was found")
	}
	o.Found = &Found{Value: causal.Value{Data: make([]byte, MaxFoundBytes+1)}}
	if _, _, ok := Parse(o.Value(false)); ok {
		t.Error("a value that is too large is taken")
	}
}
