package cache

import (
	"testing"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// The middleman counts the lease from when the renewal arrives, on a clock of its own.
func TestACopyIsServedUpToTwoPercentBeforeItsLeaseEnds(t *testing.T) {
	h := newHarness(t)
	askedAt := h.now.Mono
	h.fill(h.get(1), 10, causal.Stable)
	serves := func() bool {
		for _, m := range h.get(2) {
			if m.Kind == causal.KindGetReply && m.GetReply().Hit {
				return true
			}
		}
		return false
	}
	end := askedAt + int64(leaseTerm)/100*98
	if h.now.Mono = end - 1; !serves() {
		t.Error("not served before 98 % of the lease")
	}
	if h.now.Mono = end; serves() {
		t.Error("served after 98 % of the lease")
	}
}

// Otherwise confirmations of the new stream would come with renewals only, until it has as many messages as the one
// before had.
func TestAnInvalidationOnAReopenedStreamIsConfirmedAtOnce(t *testing.T) {
	h := newHarness(t)
	h.fill(h.get(1), 10, causal.Stable)
	for range 3 {
		h.onStream(causal.Invalidate{KeyHash: topology.Hash("x")}.Message(middlemanNode, cacheNode))
	}
	h.take()
	h.now.Mono += int64(2 * reopenInterval)
	h.send(causal.StreamReset{MaxEpoch: h.pos.Epoch, Incarnation: 6}.Message(middlemanNode, cacheNode))
	h.pos = causal.StreamPosition{Epoch: only(t, h.take(), causal.KindStreamOpen).StreamOpen().Epoch}
	h.onStream(causal.Invalidate{KeyHash: topology.Hash("x")}.Message(middlemanNode, cacheNode))
	ack := only(t, h.take(), causal.KindInvalidateAck).InvalidateAck()
	if ack.Epoch != h.pos.Epoch || ack.AckedSeq != h.pos.Seq {
		t.Errorf("confirmed %+v, want up to %d of %d", ack, h.pos.Seq, h.pos.Epoch)
	}
}

// The near stream has as many copies as it may have, so the sidecar is to begin with another one. It does not hear of
// it, and asks for a lease: copies that it gets from now on are not on that stream, so it must not serve for longer.
func TestANearStreamThatIsToEndGetsNoLease(t *testing.T) {
	h := newNearHarness(t)
	at := h.near(sidecarNode)
	if d := h.renew(sidecarNode, at.Epoch, 0); d == 0 {
		t.Fatal("no lease")
	}
	n := h.c.near.byID[nearID{sidecarNode, at.Epoch}]
	h.fillUp(n)
	h.send(causal.Get{ID: 4, Key: "x", NearMax: 1000}.Message(sidecarNode, cacheNode))
	if resets := sentTo(h.take(), causal.KindStreamReset, sidecarNode); len(resets) != 1 || !n.ending { // it is lost
		t.Fatalf("%d resets", len(resets))
	}
	until := n.leaseUntil
	h.now.Mono += int64(100 * time.Millisecond)
	if d := h.renew(sidecarNode, at.Epoch, 0); d != 0 || n.leaseUntil != until {
		t.Errorf("granted for %s", d)
	}
}

// The middleman registers no copy for a cache without a lease, so a fill that it has sent before it granted one must
// not be kept: nobody would invalidate it.
func TestWhatComesBeforeTheLeaseIsNotKept(t *testing.T) {
	h := newHarness(t)
	h.send(causal.StreamReset{MaxEpoch: 9, Incarnation: 6}.Message(middlemanNode, cacheNode))
	sent := h.take()
	h.pos = causal.StreamPosition{Epoch: only(t, sent, causal.KindStreamOpen).StreamOpen().Epoch}
	h.lease = only(t, sent, causal.KindLease).LeaseRenewal().ID
	reply := only(t, h.fill(h.get(1), 10, causal.Stable), causal.KindGetReply).GetReply()
	if reply.ID != 1 || reply.Record.Version.HLC != 10 {
		t.Errorf("the reader got %+v", reply)
	}
	h.grant()
	if hlc, hit := h.hit(); hit {
		t.Errorf("version %d is served, which the middleman has not registered", hlc)
	}
}
