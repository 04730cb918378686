package cache

import (
	"fmt"
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

func TestReadsThatWaitForMissesHaveABoundForEachIdentity(t *testing.T) {
	h := newHarness(t)
	const each = waiterBytes + 3 // with its key
	h.c.flights.quota = causal.Quota{Total: 10 * each, Each: 6 * each, OwnerOf: func(n topology.Node) string {
		return map[bool]string{true: "attacker"}[n.Index >= 100]
	}}
	for i := range uint64(1000) {
		h.send(causal.Get{ID: 1 + i, Key: fmt.Sprintf("%03d", i)}.Message(topology.Node{Part: topology.Sidecar,
			Index: 100 + i}, cacheNode))
	}
	refused := 0
	for _, m := range h.take() {
		if m.Kind == causal.KindGetReply && m.GetReply().Err == causal.ErrNotFound {
			refused++
		}
	}
	if len(h.c.flights.byKey) != 6 || refused != 994 {
		t.Errorf("%d misses are under way, %d reads were sent elsewhere", len(h.c.flights.byKey), refused)
	}
	h.send(causal.Get{ID: 1, Key: "other"}.Message(sidecarNode, cacheNode))
	fill := only(t, h.take(), causal.KindFill).Fill()
	if fill.Key != "other" {
		t.Errorf("another sidecar's miss: %+v", fill)
	}
	for range 100 { // all of them fail in the end
		h.now.Mono += int64(leaseTerm)
		h.c.Tick(h.now)
	}
	if n := h.c.flights.quota.Held(); n != 0 || len(h.c.flights.byKey) != 0 {
		t.Errorf("%d are counted when none is under way, of %d", n, len(h.c.flights.byKey))
	}
}

// A key may have 64 KiB: a bound on the number of reads alone would let one identity take a gigabyte.
func TestReadsThatWaitForMissesCountByTheirKeys(t *testing.T) {
	h := newHarness(t)
	bytes := 0
	for i := range uint64(1000) {
		key := fmt.Sprintf("%064000d", i)
		h.send(causal.Get{ID: 1 + i, Key: key}.Message(sidecarNode, cacheNode))
		if h.c.flights.byKey[flightKey{key: key}] != nil {
			bytes += len(key)
		}
	}
	if bytes > maxWaitersOfOne || bytes < maxWaitersOfOne/2 {
		t.Errorf("the keys of one identity that are being fetched take %d bytes", bytes)
	}
}

func TestAShardThatDoesNotExistOpensNoStream(t *testing.T) {
	h := newHarness(t)
	for i := range uint64(1000) {
		h.send(causal.StreamReset{MaxEpoch: 7, Incarnation: 5}.Message(topology.Node{Part: topology.Middleman,
			Index: 100 + i}, cacheNode))
	}
	if n := len(h.c.streams); n != 1 {
		t.Errorf("%d streams", n)
	}
}

func TestNearCopiesHaveABoundForEachIdentity(t *testing.T) {
	h := newNearHarness(t)
	h.c.near.quota = causal.Quota{Total: 100, Each: 1, OwnerOf: func(n topology.Node) string {
		return map[bool]string{true: "attacker"}[n.Index >= 100]
	}}
	at := h.near(topology.Node{Part: topology.Sidecar, Index: 100})
	for i := range uint64(10) {
		h.send(causal.Get{ID: 2, Key: "x", NearMax: 1000}.Message(topology.Node{Part: topology.Sidecar, Index: 101 + i},
			cacheNode))
		if r := only(t, h.take(), causal.KindGetReply); r.StreamPosition().Epoch != 0 || r.GetReply().Err != causal.OK {
			t.Errorf("sidecar %d of the identity gets %+v", i, r.GetReply())
		}
	}
	h.near(sidecarNode)
	h.invalidate(0)
	if n := h.c.near.quota.Held(); n != 0 {
		t.Errorf("%d are counted after the invalidation", n)
	}
	h.ackNear(topology.Node{Part: topology.Sidecar, Index: 100}, at)
}

func TestTheNearCopiesOfAStreamThatHasEndedAreNotCounted(t *testing.T) {
	h := newNearHarness(t)
	at := h.near(sidecarNode)
	if n := h.c.near.quota.Held(); n != 1 {
		t.Fatalf("%d are counted", n)
	}
	h.send(causal.StreamReset{MaxEpoch: at.Epoch}.Message(sidecarNode, cacheNode))
	if n := h.c.near.quota.Held(); n != 0 {
		t.Errorf("%d are counted after the end of the stream", n)
	}
}

// The first copy is void, and still there.
func TestACopyThatIsReplacedTakesNoMemory(t *testing.T) {
	h := newHarness(t)
	h.fill(h.get(1), 10, causal.Stable)
	_, want := h.c.Size()
	h.send(causal.StreamReset{MaxEpoch: 9, Incarnation: 6}.Message(middlemanNode, cacheNode))
	sent := h.take()
	h.pos = causal.StreamPosition{Epoch: only(t, sent, causal.KindStreamOpen).StreamOpen().Epoch}
	h.lease = only(t, sent, causal.KindLease).LeaseRenewal().ID
	h.grant()
	h.fill(h.get(2), 10, causal.Stable)
	if n, bytes := h.c.Size(); n != 1 || bytes != want || want == 0 {
		t.Errorf("%d copies take %d bytes, one takes %d", n, bytes, want)
	}
}
