package middleman

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

func TestStreamIsOpenedOnlyByItsIncarnationAndAGreaterEpoch(t *testing.T) {
	for _, c := range []struct {
		name  string
		open  causal.StreamOpen
		opens bool
	}{
		{"greater epoch", causal.StreamOpen{Epoch: 6, Incarnation: 1}, true},
		{"lower epoch", causal.StreamOpen{Epoch: 4, Incarnation: 1}, false},
		{"other incarnation", causal.StreamOpen{Epoch: 6, Incarnation: 2}, false},
		{"unknown incarnation", causal.StreamOpen{Epoch: 6}, false},
	} {
		r := newRig(t)
		r.openStream(cacheA, 5)
		r.step(c.open.Message(cacheA, self))
		resets := r.received(causal.KindStreamReset, cacheA)
		if opened := r.m.streams.byCache[cacheA].epoch == c.open.Epoch; opened != c.opens ||
			(len(resets) == 0) != c.opens {
			t.Errorf("%s: opened %v, %d resets", c.name, opened, len(resets))
		}
		if !c.opens && len(resets) == 1 && resets[0].StreamReset() != (causal.StreamReset{MaxEpoch: 5,
			Incarnation: 1}) {
			t.Errorf("%s: the cache was told %+v", c.name, resets[0].StreamReset())
		}
	}
}

func TestRepeatedOpenOfALivingStreamChangesNothing(t *testing.T) {
	r := newRig(t)
	r.openStream(cacheA, 5)
	before := *r.m.streams.byCache[cacheA]
	r.step(causal.StreamOpen{Epoch: 5, Incarnation: 1}.Message(cacheA, self))
	if after := *r.m.streams.byCache[cacheA]; after.seq != before.seq || after.leaseUntil != before.leaseUntil ||
		len(r.inbox) > 0 {
		t.Errorf("the stream was %+v and is %+v; sent %v", before, after, r.inbox)
	}
}

func TestMessagesOnAStreamAreNumberedWithoutGaps(t *testing.T) {
	r := newRig(t)
	key := r.fillCopy()
	r.inbox = nil
	seq := r.m.streams.byCache[cacheA].seq
	r.fill(cacheA, causal.Fill{Key: key})
	r.put(key, record(version(20)))
	r.step(causal.LeaseRenewal{Epoch: 1, ID: 3}.Message(cacheA, self))
	sent := append(r.received(causal.KindInvalidate, cacheA), r.received(causal.KindLeaseGrant, cacheA)...)
	for i, m := range sent {
		if want := (causal.StreamPosition{Epoch: 1, Seq: seq + 2 + uint64(i)}); m.StreamPosition() != want {
			// the fill came first
			t.Errorf("%v has position %+v, want %+v", m.Kind, m.StreamPosition(), want)
		}
	}
	if len(sent) != 2 || sent[1].LeaseGrant() != (causal.LeaseGrant{ID: 3, Duration: lease}) {
		t.Errorf("sent %v, want an invalidation and a grant", sent)
	}
}

func TestMessagesOfAnotherEpochAreRefused(t *testing.T) {
	for name, msg := range map[string]causal.Message{
		"lease renewal": causal.LeaseRenewal{Epoch: 6}.Message(cacheA, self),
		"fill":          causal.Fill{Epoch: 6, Key: "k"}.Message(cacheA, self),
		"confirmation":  causal.InvalidateAck{Epoch: 6, AckedSeq: 1}.Message(cacheA, self),
	} {
		r := newRig(t)
		r.openStream(cacheA, 5)
		r.step(msg)
		if len(r.inbox) != 1 || r.inbox[0].Kind != causal.KindStreamReset {
			t.Errorf("%s: sent %v, want a reset", name, r.inbox)
		}
	}
}

func TestLateMessageOfAnEarlierEpochIsIgnored(t *testing.T) {
	r := newRig(t)
	r.openStream(cacheA, 5)
	r.step(causal.LeaseRenewal{Epoch: 4}.Message(cacheA, self))
	if len(r.inbox) > 0 {
		t.Errorf("sent %v", r.inbox)
	}
}

func TestExpiredLeaseIsNotRenewed(t *testing.T) {
	r := newRig(t)
	r.openStream(cacheA, 1)
	r.now.Mono += int64(lease)
	r.step(causal.LeaseRenewal{Epoch: 1}.Message(cacheA, self))
	if grants := r.received(causal.KindLeaseGrant, cacheA); len(grants) > 0 {
		t.Error("copies may not have been invalidated since the lease expired, and it was renewed")
	}
	if resets := r.received(causal.KindStreamReset, cacheA); len(resets) != 1 {
		t.Error("the cache is not told to open a new stream")
	}
}

func TestCacheThatSendsAndDoesNotReceiveGetsNoGrantAfterALease(t *testing.T) {
	r := newRig(t)
	r.put(r.fillCopy(), record(version(20)))
	granted := 0
	for range 8 { // it renews without confirming the invalidation
		r.wait(lease / 2)
		r.step(causal.LeaseRenewal{Epoch: 1}.Message(cacheA, self))
		granted += len(r.received(causal.KindLeaseGrant, cacheA))
	}
	if granted != 2 {
		t.Errorf("%d grants, want those within one lease", granted)
	}
	if len(r.acked(coordinator)) != 1 {
		t.Error("the put waits for ever")
	}
}

func TestRenewalConfirmsTheStream(t *testing.T) {
	r := newRig(t)
	r.put(r.fillCopy(), record(version(20)))
	r.step(causal.LeaseRenewal{Epoch: 1, AckedSeq: r.m.streams.byCache[cacheA].seq}.Message(cacheA, self))
	if len(r.acked(coordinator)) != 1 {
		t.Error("the put still waits for the cache")
	}
}

func TestUnknownCacheIsIgnored(t *testing.T) {
	r := newRig(t)
	stranger := topology.Node{Part: topology.Cache, Index: 9}
	r.step(causal.StreamOpen{Epoch: 1, Incarnation: 1}.Message(stranger, self))
	r.step(causal.Fill{Epoch: 1, Key: r.key(self, 0)}.Message(stranger, self))
	if len(r.inbox) > 0 {
		t.Errorf("sent %v", r.inbox)
	}
}

// A put never waits for a later message than its own, and every wait up to a confirmed message ends.
func TestConfirmingAStreamEndsExactlyTheWaitsUpToThere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s stream
		seqs := rapid.SliceOf(rapid.Uint64Range(1, 20)).Draw(t, "waits")
		for _, seq := range seqs {
			s.await(pendingInvalidation{seq: seq})
		}
		upTo := rapid.Uint64Range(0, 21).Draw(t, "confirmed")
		var want, got, left []uint64
		for _, seq := range slices.Sorted(slices.Values(seqs)) {
			if seq <= upTo {
				want = append(want, seq)
			}
		}
		for _, w := range s.confirmUpTo(upTo) {
			got = append(got, w.seq)
		}
		for _, w := range s.pending {
			left = append(left, w.seq)
		}
		if !slices.Equal(got, want) || len(got)+len(left) != len(seqs) || !slices.IsSorted(left) {
			t.Fatalf("of %v up to %d: ended %v, left %v", seqs, upTo, got, left)
		}
	})
}

// It never confirms, while others write again and again: each put waits for at most a lease.
func TestNewerInvalidationsDoNotKeepALeaseThatAnOlderOneEnds(t *testing.T) {
	r := newRig(t)
	r.openStream(cacheA, 1)
	const keys = 12
	for i := range keys {
		r.put(r.key(self, i), record(version(causal.HLC(10+i))))
	}
	r.raiseSV(10 + keys)
	for i := range keys {
		r.fill(cacheA, causal.Fill{Key: r.key(self, i)})
	}
	r.acked(coordinator)
	for i := range keys {
		r.put(r.key(self, i), record(version(causal.HLC(100+i))))
		r.wait(lease / 3)
		r.step(causal.LeaseRenewal{Epoch: 1}.Message(cacheA, self))
	}
	if acked := r.acked(coordinator); !slices.Contains(acked, 100) {
		t.Errorf("the first put waits for ever; acknowledged: %v", acked)
	}
}
