package session

import (
	"testing"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
)

// A session that may read from one ring alone asks there although its data center does not answer. It goes elsewhere soon after
// another ring has what it saw.
func TestABoundReadDoesNotWaitForAnUnreachableDataCenter(t *testing.T) {
	r := newRig(t, noCache)
	r.read("x", version(10), causal.InFlight, near)
	r.step(causal.Latencies{Ms: []float64{-1, 10, 50}}.Message(r.topo.Leader(0), r.s.cfg.Self))
	id := r.startGet("y")
	if m := r.request(causal.KindGet); m.To != r.shard(near) {
		t.Fatalf("asked %v", m.To)
	}
	r.receivedUpTo(version(10).HLC, middle)
	r.tick(time.Second)
	m := r.request(causal.KindGet)
	if m.To != r.shard(middle) {
		t.Errorf("then asked %v", m.To)
	}
	r.replyGet(m, causal.GetReply{Record: causal.Record{Version: version(5)}, Status: causal.Stable, Ring: middle})
	r.mustResult(id)
}
