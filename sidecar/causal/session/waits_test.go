package session

import (
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
)

// So the client is told, and a report shows, why a part of the store seems to be away.
func TestAnOperationThatIsTooLateSaysWhatItWaitedFor(t *testing.T) {
	r := newLocalRig(t)
	id := r.start(Op{Kind: OpGet, Key: "x"})
	r.tick(r.s.cfg.ReadTimeout)
	got := r.mustResult(id)
	if got.Err != causal.ErrUnavailable || got.Wait.Taken < r.s.cfg.ReadTimeout || got.Wait.For != WaitsForHome ||
		got.Wait.On != r.s.homeOf(0) {
		t.Errorf("it fails with %s, and waited for %+v", got.Err, got.Wait)
	}
}
