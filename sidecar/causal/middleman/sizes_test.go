package middleman

import (
	"strings"
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
)

func TestAReadOfANameThatNoKeyHasIsRefused(t *testing.T) {
	r := newRig(t)
	for n, want := range map[int]causal.ErrCode{causal.MaxKeyBytes: causal.OK,
		causal.MaxKeyBytes + 1: causal.ErrTooLarge} {
		got, ok := r.get(causal.Get{Key: strings.Repeat("k", n)})
		if !ok || got.Err != want || want != causal.OK && got.Key != "" {
			t.Errorf("%d bytes: answered %v: %s, with a name of %d", n, ok, got.Err, len(got.Key))
		}
	}
	// A shard that gets its data back may ask for what an earlier version has accepted.
	r.step(causal.Get{ID: 99, Key: strings.Repeat("k", causal.MaxKeyBytes+1)}.Message(peer, self))
	for _, m := range r.received(causal.KindGetReply, peer) {
		if got := m.GetReply(); got.Err == causal.ErrTooLarge {
			t.Errorf("a shard is answered %s", got.Err)
		}
	}
}
