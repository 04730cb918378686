package cache

import (
	"testing"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

var otherSidecar = topology.Node{Part: topology.Sidecar, Index: 2}

// newNearHarness returns a cache that gives near copies, with an open stream, a granted lease and a copy of x.
func newNearHarness(t *testing.T, mutations ...causal.Mutation) *harness {
	t.Helper()
	h := newHarness(t, mutations...)
	h.c.cfg.NearLease = DefaultNearLease
	h.fill(h.get(1), 10, causal.Stable)
	return h
}

// near gives a sidecar a near copy of x, and returns its place on the near stream.
func (h *harness) near(to topology.Node) causal.StreamPosition {
	h.t.Helper()
	h.send(causal.Get{ID: 2, Key: "x", NearMax: 1000}.Message(to, cacheNode))
	m := only(h.t, h.take(), causal.KindGetReply)
	if m.StreamPosition().Epoch == 0 {
		h.t.Fatal("the reply has no place on a near stream")
	}
	return m.StreamPosition()
}

// renew asks for the lease of a near stream, and returns for how long it was granted; 0: it was not.
func (h *harness) renew(from topology.Node, epoch, acked uint64) time.Duration {
	h.send(causal.LeaseRenewal{ID: 3, Epoch: epoch, AckedSeq: acked}.Message(from, cacheNode))
	for _, m := range h.take() {
		if m.Kind == causal.KindLeaseGrant && m.To == from {
			return m.LeaseGrant().Duration
		}
	}
	return 0
}

func (h *harness) invalidate(next causal.HLC) []causal.Message {
	h.onStream(causal.Invalidate{KeyHash: topology.Hash("x"), Next: next}.Message(middlemanNode, cacheNode))
	return h.take()
}

func (h *harness) ackNear(from topology.Node, at causal.StreamPosition) []causal.Message {
	h.send(causal.InvalidateAck{Epoch: at.Epoch, AckedSeq: at.Seq}.Message(from, cacheNode))
	return h.take()
}

// sentTo returns the messages of a kind to a node.
func sentTo(ms []causal.Message, kind causal.Kind, to topology.Node) (found []causal.Message) {
	for _, m := range ms {
		if m.Kind == kind && m.To == to {
			found = append(found, m)
		}
	}
	return found
}

func TestANearCopyIsGivenToWhoWantsItAndIfItIsSmall(t *testing.T) {
	size := uint64(len("x") + record(10).Value.Size())
	for _, c := range []struct {
		what  string
		most  uint64
		lease time.Duration
		from  topology.Node
		want  bool
	}{
		{"a hot key", size, DefaultNearLease, sidecarNode, true},
		{"a key that is not hot", 0, DefaultNearLease, sidecarNode, false},
		{"a large value", size - 1, DefaultNearLease, sidecarNode, false},
		{"near copies are off", size, 0, sidecarNode, false},
		{"not a sidecar", size, DefaultNearLease, cacheNode, false},
	} {
		h := newNearHarness(t)
		h.c.cfg.NearLease = c.lease
		h.send(causal.Get{ID: 2, Key: "x", NearMax: c.most}.Message(c.from, cacheNode))
		r := only(t, h.take(), causal.KindGetReply)
		if given := r.StreamPosition().Epoch != 0; given != c.want || h.c.stats.NearCopies != 0 != c.want {
			t.Errorf("%s: given %t", c.what, given)
		}
	}
}

func TestAnInvalidationIsConfirmedWhenAllSidecarsHave(t *testing.T) {
	h := newNearHarness(t)
	one, two := h.near(sidecarNode), h.near(otherSidecar)
	if one.Epoch == two.Epoch || one.Seq != 1 || two.Seq != 1 {
		t.Fatalf("near streams begin at %+v and %+v", one, two)
	}
	h.renew(sidecarNode, one.Epoch, 0)
	h.renew(otherSidecar, two.Epoch, 0)
	sent := h.invalidate(0)
	toOne, toTwo := sentTo(sent, causal.KindInvalidate, sidecarNode), sentTo(sent, causal.KindInvalidate, otherSidecar)
	if len(toOne) != 1 || len(toTwo) != 1 || h.c.order[0].acked >= h.pos.Seq {
		t.Fatalf("passed on %d and %d times, or confirmed at once", len(toOne), len(toTwo))
	}
	if acks := sentTo(h.ackNear(sidecarNode, toOne[0].StreamPosition()), causal.KindInvalidateAck,
		middlemanNode); len(acks) != 0 {
		t.Errorf("confirmed when the first sidecar had: %+v", acks)
	}
	acks := sentTo(h.ackNear(otherSidecar, toTwo[0].StreamPosition()), causal.KindInvalidateAck, middlemanNode)
	if len(acks) != 1 || acks[0].InvalidateAck().AckedSeq != h.pos.Seq {
		t.Errorf("confirmed %+v", acks)
	}
	if again := sentTo(h.invalidate(0), causal.KindInvalidate, sidecarNode); len(again) != 0 {
		t.Error("an invalidation of a copy that is gone is passed on")
	}
}

func TestAWriteWaitsForASilentSidecarAsLongAsItsLease(t *testing.T) {
	h := newNearHarness(t)
	at := h.near(sidecarNode)
	h.renew(sidecarNode, at.Epoch, 0)
	h.invalidate(0)
	h.now.Mono += int64(DefaultNearLease) - 1
	h.c.Tick(h.now)
	if len(sentTo(h.take(), causal.KindInvalidateAck, middlemanNode)) != 0 {
		t.Error("confirmed while the lease of the near copy ran")
	}
	h.now.Mono++
	h.c.Tick(h.now)
	if len(sentTo(h.take(), causal.KindInvalidateAck, middlemanNode)) != 1 || len(h.c.near.byID) != 0 {
		t.Error("not confirmed when the lease had ended")
	}
}

func TestASidecarThatRenewsAndDoesNotConfirmLosesItsLease(t *testing.T) {
	h := newNearHarness(t)
	at := h.near(sidecarNode)
	h.renew(sidecarNode, at.Epoch, 0)
	h.invalidate(0)
	waited := time.Duration(0)
	for ; h.c.order[0].acked < h.pos.Seq && waited < 10*time.Second; waited += 300 * time.Millisecond {
		h.renew(sidecarNode, at.Epoch, at.Seq)
		h.c.Tick(h.now)
		h.now.Mono += int64(300 * time.Millisecond)
	}
	if waited > 2*DefaultNearLease+2*300*time.Millisecond {
		t.Errorf("a write waited for %v", waited)
	}
}

// What it owes counts from when it began to owe something.
func TestASidecarThatConfirmsKeepsItsLease(t *testing.T) {
	h := newNearHarness(t)
	at := h.near(sidecarNode)
	h.renew(sidecarNode, at.Epoch, 0)
	at.Seq += 2 // the grant, and the invalidation
	h.invalidate(0)
	h.ackNear(sidecarNode, at)
	for waited := time.Duration(0); waited < 2*DefaultNearLease; waited += DefaultNearLease / 3 {
		h.now.Mono += int64(DefaultNearLease / 3)
		at.Seq++
		if h.renew(sidecarNode, at.Epoch, at.Seq) == 0 {
			t.Fatalf("%v after it has confirmed everything, its lease is not renewed", waited)
		}
	}
}

func TestANearLeaseEndsWithinThatOfTheStream(t *testing.T) {
	for _, broken := range []bool{false, true} {
		h := newNearHarness(t, mutationIf(broken, causal.NearLeaseLonger)...)
		at := h.near(sidecarNode)
		if d := h.renew(sidecarNode, at.Epoch, 0); d != DefaultNearLease {
			t.Errorf("granted %v", d)
		}
		rest := 200 * time.Millisecond
		h.now.Mono = h.c.order[0].leaseUntil - int64(rest)
		h.c.near.byID[nearID{sidecarNode, at.Epoch}].leaseUntil = h.now.Mono + 1
		if d := h.renew(sidecarNode, at.Epoch, 0); (d == rest) == broken {
			t.Errorf("with near-lease-longer %t: granted %v, %v before the lease of the stream ends", broken, d, rest)
		}
	}
}

func TestACopyWithANextVersionStaysRegistered(t *testing.T) {
	for _, broken := range []bool{false, true} {
		h := newNearHarness(t, mutationIf(broken, causal.NearLoserEnds)...)
		h.renew(sidecarNode, h.near(sidecarNode).Epoch, 0)
		first := sentTo(h.invalidate(20), causal.KindInvalidate, sidecarNode)
		if len(first) != 1 || first[0].Invalidate().Next != 20 {
			t.Fatalf("passed on %+v", first)
		}
		if again := len(sentTo(h.invalidate(0), causal.KindInvalidate, sidecarNode)); (again == 1) == broken {
			t.Errorf("with near-loser-ends %t: the next invalidation is passed on %d times", broken, again)
		}
	}
}

func TestANewStreamOpensAfterTheNearCopiesOfTheOldOne(t *testing.T) {
	for _, broken := range []bool{false, true} {
		h := newNearHarness(t, mutationIf(broken, causal.NearReopenEarly)...)
		at := h.near(sidecarNode)
		h.renew(sidecarNode, at.Epoch, 0)
		h.send(causal.StreamReset{MaxEpoch: h.pos.Epoch, Incarnation: 6}.Message(middlemanNode, cacheNode))
		sent := h.take()
		if opened := len(sentTo(sent, causal.KindStreamOpen, middlemanNode)) > 0; opened != broken {
			t.Errorf("with near-reopen-early %t: opened at once %t", broken, opened)
		}
		if broken {
			continue
		}
		if r := sentTo(sent, causal.KindStreamReset, sidecarNode); len(r) != 1 ||
			r[0].StreamReset().MaxEpoch != at.Epoch {
			t.Fatalf("the sidecar hears %+v", r)
		}
		h.send(causal.StreamReset{MaxEpoch: at.Epoch}.Message(sidecarNode, cacheNode))
		if len(sentTo(h.take(), causal.KindStreamOpen, middlemanNode)) != 1 {
			t.Error("not opened when the sidecar had dropped its copies")
		}
	}
}

func TestACacheThatHasStartedWaitsForEarlierNearCopies(t *testing.T) {
	topo := newHarness(t).c.cfg.Topology
	cfg := DefaultConfig(topo, cacheNode)
	cfg.NearLease = DefaultNearLease
	h := &harness{t: t, c: New(cfg), now: causal.Now{Mono: 1, WallMs: 1000}}
	h.send(causal.StreamReset{MaxEpoch: 7, Incarnation: 5}.Message(middlemanNode, cacheNode))
	if reply := only(t, h.get(1), causal.KindGetReply).GetReply(); reply.Err != causal.ErrNotFound {
		t.Errorf("the sidecar is answered %+v", reply)
	}
	h.now.Mono += int64(DefaultNearLease) - 1
	h.c.Tick(h.now)
	if len(sentTo(h.take(), causal.KindStreamOpen, middlemanNode)) != 0 {
		t.Error("a stream is opened while near copies of an earlier start may be served")
	}
	h.now.Mono++
	h.c.Tick(h.now)
	if len(sentTo(h.take(), causal.KindStreamOpen, middlemanNode)) != 1 {
		t.Error("no stream is opened afterwards")
	}
}

func TestAnExclusionEndsTheNearStreamsOfItsShards(t *testing.T) {
	h := newNearHarness(t)
	at := h.near(sidecarNode)
	h.renew(sidecarNode, at.Epoch, 0)
	h.invalidate(20) // awaited
	topo, err := topology.New(2, []topology.DataCenter{{Name: "a", Coordinators: 1, Caches: 1, Shards: 1,
		Exclusions: 1}, {Name: "b", Coordinators: 1, Shards: 1}},
		[]topology.Ring{{Name: "r", DCs: []topology.DC{0}}, {Name: "s", DCs: []topology.DC{1}}}, nil)
	if err != nil {
		t.Fatal(err)
	}

	h.c.applyExclusions(h.now, causal.ExclusionsOf(topo))
	sent := h.take()
	if r := sentTo(sent, causal.KindStreamReset, sidecarNode); len(r) != 1 || r[0].StreamReset().MaxEpoch != at.Epoch {
		t.Errorf("the sidecar hears %+v", r)
	}
	if len(sentTo(sent, causal.KindInvalidateAck, middlemanNode)) != 0 || len(h.c.order[0].nearWaits) != 0 {
		t.Error("a stream that is over is confirmed")
	}
	if h.renew(sidecarNode, at.Epoch, 0) != 0 {
		t.Error("the lease of a near stream that has ended is extended")
	}
	if _, hit := h.hit(); hit {
		t.Error("the cache serves its own copy")
	}
}

// fillUp registers as many copies for a near stream as it may have.
func (h *harness) fillUp(n *nearStream) {
	for i := uint64(0); len(n.copies) < maxNearCopies; i++ {
		if _, has := n.copies[i]; !has {
			n.copies[i] = struct{}{}
			h.c.near.quota.TakeFor(n.holder)
		}
	}
}

func TestTheKeysOfANearStreamAreBounded(t *testing.T) {
	h := newNearHarness(t)
	at := h.near(sidecarNode)
	h.renew(sidecarNode, at.Epoch, 0)
	n := h.c.near.byID[nearID{sidecarNode, at.Epoch}]
	h.fillUp(n)
	h.send(causal.Get{ID: 2, Key: "x", NearMax: 1000}.Message(sidecarNode, cacheNode))
	sent := h.take()
	if only(t, sent, causal.KindGetReply).StreamPosition().Epoch != 0 ||
		len(sentTo(sent, causal.KindStreamReset, sidecarNode)) != 1 {
		t.Error("a copy is given beyond the bound, or the stream does not end")
	}
	h.send(causal.StreamReset{MaxEpoch: at.Epoch}.Message(sidecarNode, cacheNode))
	h.take()
	if next := h.near(sidecarNode); next.Epoch <= at.Epoch || next.Seq != 1 {
		t.Errorf("the next near stream is %+v, after %+v", next, at)
	}
}
