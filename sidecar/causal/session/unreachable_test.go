package session

import (
	"testing"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
)

// latencies returns what a leader tells of data centers whose round trips were once those of newRig.
func latencies(ms ...float64) causal.Latencies {
	all := causal.Latencies{RoundTrips: []causal.RoundTrip{{ExpectedMs: 0}, {ExpectedMs: 10}, {ExpectedMs: 50}}}
	for i := range ms {
		all.RoundTrips[i].Ms = ms[i]
	}
	return all
}

// A session that may read from one ring alone asks there although its data center does not answer. It goes elsewhere soon after
// another ring has what it saw.
func TestABoundReadDoesNotWaitForAnUnreachableDataCenter(t *testing.T) {
	for what, late := range map[string]float64{"unreachable": -1, "late for seconds": 2900} {
		t.Run(what, func(t *testing.T) {
			r := newRig(t, noCache)
			r.read("x", version(10), causal.InFlight, near)
			r.step(latencies(late, 10, 50).Message(r.topo.Leader(0), r.s.cfg.Self))
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
		})
	}
}

// A data center that is cut off knows by the probes of its leader. Its reads still ask once: the cut may have healed.
func TestReadsInADataCenterThatIsCutOffAreRefusedAfterOneAttempt(t *testing.T) {
	const attempt = 500 * time.Millisecond
	for what, read := range map[string]func(*rig) uint64{
		"GET":  func(r *rig) uint64 { return r.startGet("x") },
		"MGET": func(r *rig) uint64 { return r.start(Op{Kind: OpMGet, Keys: []string{"x", "y"}}) },
	} {
		t.Run(what, func(t *testing.T) {
			r := newRig(t, noCache)
			probes := func(ms ...float64) {
				r.step(latencies(ms...).Message(r.topo.Leader(0), r.s.cfg.Self))
			}
			probes(0, -1, -1)
			first := read(r)
			r.tick(attempt) // the own shard, as if it had no part of the slot
			r.mustBeUnfinished(first)
			r.tick(attempt)
			r.tick(attempt)
			if err := r.mustResult(first).Err; err != causal.ErrUnavailable {
				t.Errorf("the first one: %s", err)
			}
			second := read(r)
			if asked := r.sent(causal.KindGet); len(asked) == 0 {
				t.Error("nobody was asked")
			}
			r.tick(attempt)
			if err := r.mustResult(second).Err; err != causal.ErrUnavailable {
				t.Errorf("the second one: %s", err)
			}
			probes(0, -1, 50)
			third := read(r)
			r.tick(attempt)
			r.tick(attempt)
			r.mustBeUnfinished(third) // one that answers may answer soon
		})
	}
}
