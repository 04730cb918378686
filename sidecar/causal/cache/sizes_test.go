package cache

import (
	"strings"
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
)

func TestAReadOfANameThatNoKeyHasTakesNoMemory(t *testing.T) {
	h := newHarness(t)
	h.send(causal.Get{ID: 1, Key: strings.Repeat("k", causal.MaxKeyBytes+1)}.Message(sidecarNode, cacheNode))
	sent := h.take()
	if r := only(t, sent, causal.KindGetReply).GetReply(); len(sent) != 1 || r.Err != causal.ErrTooLarge || r.ID != 1 ||
		len(h.c.flights.byKey) > 0 {
		t.Errorf("answered %+v", r)
	}
	h.send(causal.Get{ID: 2, Key: strings.Repeat("k", causal.MaxKeyBytes)}.Message(sidecarNode, cacheNode))
	only(t, h.take(), causal.KindFill)
}
