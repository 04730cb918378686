package session

import (
	"fmt"
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// newOwnWrites returns own writes of n keys, acknowledged in order, with versions 1 to n.
func newOwnWrites(n int) (*ownWrites, []*ownWrite) {
	o := &newSession(1).own
	var all []*ownWrite
	for i := range n {
		w := &ownWrite{version: ownVersion(causal.HLC(i + 1)), key: fmt.Sprint("k", i),
			value: causal.Value{Data: make([]byte, 100)}}
		o.add(nil, w, topology.SlotOf(w.key))
		o.addIncomplete(w)
		all = append(all, w)
	}
	return o, all
}

func TestOwnWritesAreEvictedOldestFirst(t *testing.T) {
	o, all := newOwnWrites(4)
	size := all[0].size()
	o.evict(2 * size)
	for i, w := range all {
		if w.evicted != (i < 2) || w.evicted != (w.value.Data == nil) {
			t.Errorf("write %d: evicted %t, %d bytes", i, w.evicted, len(w.value.Data))
		}
	}
	if o.bytes != 2*size || len(o.newest) != 4 {
		t.Errorf("%d bytes of %d writes are left, want %d of 4: evicted ones are known by their version", o.bytes,
			len(o.newest), 2*size)
	}
	for _, w := range all {
		o.markComplete(w.version)
		o.forget(w)
	}
	if o.bytes != 0 || len(o.newest) > 0 || o.oldestIncomplete() != nil {
		t.Errorf("%d bytes are left of no writes", o.bytes)
	}
}

func TestCompleteOwnWritesAreEvictedBeforeIncompleteOnes(t *testing.T) {
	o, all := newOwnWrites(3)
	o.markComplete(all[2].version)
	o.overlay = append(o.overlay, all[2])
	if h := o.evict(2 * all[0].size()); h != 3 || all[0].evicted || o.newest["k2"] != nil {
		t.Errorf("the greatest forgotten HLC is %d, want 3; oldest write evicted: %t", h, all[0].evicted)
	}
}

func TestCompletedOwnWritesLeaveTheOrder(t *testing.T) {
	o, all := newOwnWrites(200)
	for _, w := range all[1:] {
		o.markComplete(w.version)
		o.forget(w)
	}
	if o.compact(); len(o.order) != 1 || o.oldestIncomplete() != all[0] {
		t.Errorf("%d writes are in the order, want the incomplete one alone", len(o.order))
	}
}

func TestOnlyTheNewestOwnWriteOfAKeyIsRead(t *testing.T) {
	o := &newSession(1).own
	newer, older := &ownWrite{version: ownVersion(2), key: "k"}, &ownWrite{version: ownVersion(1), key: "k"}
	o.add(nil, newer, 7)
	o.add(nil, older, 7) // replies may overtake each other
	if o.newest["k"] != newer || o.last.Version != ownVersion(2) {
		t.Errorf("newest %v, last %v", o.newest["k"].version, o.last.Version)
	}
	if o.forget(older); o.newest["k"] != newer {
		t.Error("forgetting the older write has removed the newer")
	}
}

func TestAWriteBelowACompleteOneIsComplete(t *testing.T) {
	r := newRig(t)
	first, second := r.startPut("x", "1"), r.startPut("y", "2")
	puts := r.sent(causal.KindPut)
	r.replyPut(puts[1], ownVersion(2), causal.OK)
	r.complete(ownVersion(2))
	r.replyPut(puts[0], ownVersion(1), causal.OK) // after the notice, so no other one comes for it
	r.mustResult(first)
	r.mustResult(second)
	if st := r.s.Status(1); st.IncompleteWrites != 0 {
		t.Errorf("%d writes are incomplete", st.IncompleteWrites)
	}
}
