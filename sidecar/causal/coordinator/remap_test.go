package coordinator

import (
	"fmt"
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
)

// A coordinator that has not heard of the change while it was under way gets the maps of both rings at once.
func TestTheMapsOfTwoRingsChangeAtOnce(t *testing.T) {
	h := newHarness(t, 1, 0)
	const writes = 50
	for i := range uint64(writes) {
		h.put(causal.Put{ID: i + 1, Session: 1, Seq: i + 1, Key: fmt.Sprint("k", i)})
	}
	h.c.SetTopology(h.now, twoRingsOf(t, 1, 2))
	sent := map[int]int{}
	for _, m := range ofKind(h.c.Take(nil), causal.KindPutAfter) {
		sent[int(m.To.DC)*2+int(m.To.Index)]++
	}
	if sent[0]+sent[1] != writes || sent[2]+sent[3] != writes || sent[1] == 0 || sent[3] == 0 {
		t.Errorf("by data center and shard, %v of %d writes are sent again", sent, writes)
	}
}
