package session

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// latencies returns what a leader tells of data centers whose round trips were once those of newRig.
func latencies(ms ...float64) causal.Latencies {
	all := causal.Latencies{RoundTrips: []causal.RoundTrip{{ExpectedMs: 0}, {ExpectedMs: 10}, {ExpectedMs: 50}}}
	for len(all.RoundTrips) < len(ms) {
		all.RoundTrips = append(all.RoundTrips, causal.RoundTrip{ExpectedMs: 20})
	}
	for i := range ms {
		all.RoundTrips[i].Ms = ms[i]
	}
	return all
}

// A session that may read from one ring alone asks there although its data center does not answer. It goes elsewhere
// soon after another ring has what it saw.
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
			r.replyGet(m, causal.GetReply{Record: causal.Record{Version: version(5)}, Status: causal.Stable,
				Ring: middle})
			r.mustResult(id)
		})
	}
}

// neighbor adds a data center to the ring of the sidecar's own one. keysThere are keys that are in it.
func neighbor(c *Config) {
	t := c.Topology
	dcs := append(slices.Clone(t.DCs), topology.DataCenter{Name: "d", Coordinators: 1, Shards: 1})
	rings := slices.Clone(t.Rings)
	rings[near].DCs = []topology.DC{0, 3}
	var err error
	if c.Topology, err = topology.New(1, dcs, rings,
		[][]float64{{0, 10, 50, 20}, {10, 0, 50, 20}, {50, 50, 0, 20}, {20, 20, 20, 0}}); err != nil {
		panic(err)
	}
}

func keysThere(t *topology.Topology, n int) (keys []string) {
	for i := 0; len(keys) < n; i++ {
		if key := fmt.Sprint("k", i); t.Owner(near, topology.SlotOf(key)).DC == 3 {
			keys = append(keys, key)
		}
	}
	return keys
}

// A data center that is cut off knows by the probes of its leader. Its reads of what is elsewhere still ask once: the
// cut may have healed.
func TestReadsInADataCenterThatIsCutOffAreRefusedAfterOneAttempt(t *testing.T) {
	const attempt = 500 * time.Millisecond
	for what, read := range map[string]func(*rig, []string) uint64{
		"GET":  func(r *rig, keys []string) uint64 { return r.startGet(keys[0]) },
		"MGET": func(r *rig, keys []string) uint64 { return r.start(Op{Kind: OpMGet, Keys: keys}) },
	} {
		t.Run(what, func(t *testing.T) {
			r := newRig(t, noCache, neighbor)
			keys := keysThere(r.s.cfg.Topology, 2)
			probes := func(ms ...float64) {
				r.step(latencies(ms...).Message(r.topo.Leader(0), r.s.cfg.Self))
			}
			probes(0, -1, -1, -1)
			first := read(r, keys)
			r.tick(attempt)
			r.mustBeUnfinished(first)
			r.tick(attempt)
			r.tick(attempt)
			if err := r.mustResult(first).Err; err != causal.ErrUnavailable {
				t.Errorf("the first one: %s", err)
			}
			second := read(r, keys)
			if asked := r.sent(causal.KindGet); len(asked) == 0 {
				t.Error("nobody was asked")
			}
			r.tick(attempt)
			if err := r.mustResult(second).Err; err != causal.ErrUnavailable {
				t.Errorf("the second one: %s", err)
			}
			probes(0, -1, 50, -1)
			third := read(r, keys)
			r.tick(attempt)
			r.tick(attempt)
			r.mustBeUnfinished(third) // one that answers may answer soon
		})
	}
}

// The shard of the own data center is on this side of the cut: that it is slow for a moment, or restarts, fails no
// read.
func TestReadsOfTheOwnShardOfADataCenterThatIsCutOffWaitForIt(t *testing.T) {
	const attempt = 500 * time.Millisecond
	for what, op := range map[string]Op{"GET": {Kind: OpGet, Key: "x"},
		"MGET": {Kind: OpMGet, Keys: []string{"x", "y"}}} {
		t.Run(what, func(t *testing.T) {
			r := newRig(t, noCache)
			r.step(latencies(0, -1, -1).Message(r.topo.Leader(0), r.s.cfg.Self))
			id := r.start(op)
			for range 4 {
				r.tick(attempt)
				r.mustBeUnfinished(id)
			}
			again := 0
			for _, m := range r.sent(causal.KindGet) {
				if m.To == r.shard(near) {
					again++
				}
			}
			if again < 2 {
				t.Errorf("the own shard was asked %d times", again)
			}
		})
	}
}
