package session

import (
	"testing"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// leaseMs is how long the leases of these tests last.
const leaseMs = 500

// newLeasedRig returns a rig at level Local with a near copy of x, whose version is 10, and a lease of its home, which
// has heard of what clients are shown up to 500 ms.
func newLeasedRig(t *testing.T, configure ...func(*Config)) *rig {
	r := newRig(t, append(configure, localReads, oneHome, nearCopies)...)
	r.completeUpTo(at(1000))
	r.giveNearCopies([]string{"x"}, 10)
	for range r.s.cfg.NearHotReads { // until it is hot
		r.s.near.Wanted(r.now, "x")
	}
	r.sent(causal.KindNone)
	r.leaseX(at(500))
	return r
}

// leaseX reads x, and gets a lease. The home has heard of what is shown up to from.
func (r *rig) leaseX(from causal.HLC) {
	r.t.Helper()
	id := r.startGet("x")
	home, _ := r.asked()
	if home == nil || !home.HomeRead().Lease {
		r.t.Fatalf("no lease is asked for: %+v", home)
	}
	r.replyHome(home, causal.HomeReply{From: from, LeaseMs: leaseMs, Grant: 3})
	r.mustResult(id)
}

func (r *rig) withdraws(id uint64) {
	home := r.s.homeOf(0)
	r.step(causal.HomeReply{Key: "x", Withdrawn: id}.Message(home, r.s.cfg.Self))
}

// none is no fault.
const none causal.Mutation = 255

func TestALeaseOfTheHomeLetsTheNearCopyAnswerUntilItEnds(t *testing.T) {
	r := newLeasedRig(t)
	before := r.s.Stats()
	id := r.startGet("x")
	res := r.mustResult(id)
	if res.Outcome.Source != SourceNear || res.Record.Version != version(10) || res.From != at(500) {
		t.Errorf("the answer is %+v", res)
	}
	if home, elsewhere := r.asked(); home != nil || elsewhere != nil || r.s.Stats().NearHits != before.NearHits+1 {
		t.Error("something is asked for")
	}
	if r.getNear("y") {
		t.Error("another key is answered")
	}
	r.now.Mono += int64(leaseMs*98/100) * int64(time.Millisecond)
	if r.getNear("x") {
		t.Error("it answers when the clock, which may be slow, says that the lease is nearly over")
	}
	id = r.startGet("x")
	if home, _ := r.asked(); home == nil || !home.HomeRead().Lease {
		t.Error("no further lease is asked for")
	}
	r.mustBeUnfinished(id)
}

func TestAWithdrawnLeaseIsNotUsedAndTheHomeHearsSo(t *testing.T) {
	for _, f := range []causal.Mutation{none, causal.LocalNearKept} {
		r := newLeasedRig(t, withFault(f))
		r.withdraws(3)
		home, _ := r.asked()
		if home == nil || home.HomeRead().Withdrawn != 3 || home.HomeRead().Key != "x" || home.To != r.s.homeOf(0) {
			t.Errorf("it says %+v", home)
		}
		if used := r.getNear("x"); used != (f != none) {
			t.Errorf("mutation %s: it is used: %v", f, used)
		}
	}
}

// PROTOCOL HON-3
func TestALeaseThatCameAfterItsWithdrawalIsNotUsed(t *testing.T) {
	r := newLeasedRig(t)
	r.withdraws(3)
	r.asked()
	id := r.startGet("x")
	home, _ := r.asked()
	r.now.Mono += int64(time.Millisecond)
	r.withdraws(4)
	r.asked()
	r.replyHome(home, causal.HomeReply{From: at(500), LeaseMs: leaseMs, Grant: 4})
	r.mustResult(id)
	if r.getNear("x") {
		t.Error("it is used")
	}
	r.now.Mono += int64(time.Millisecond)
	r.leaseX(at(500))
	if !r.getNear("x") {
		t.Error("one that was asked for since is not used")
	}
}

// PROTOCOL HON-3
func TestALeaseIsCountedFromWhenItWasAskedFor(t *testing.T) {
	for _, f := range []causal.Mutation{none, causal.LocalNearFromReceipt} {
		r := newLeasedRig(t, withFault(f))
		r.withdraws(3)
		r.asked()
		r.now.Mono += int64(time.Millisecond)
		id := r.startGet("x")
		home, _ := r.asked()
		r.now.Mono += int64(400 * time.Millisecond)
		r.replyHome(home, causal.HomeReply{From: at(500), LeaseMs: leaseMs, Grant: 4})
		r.mustResult(id)
		r.now.Mono += int64(100 * time.Millisecond)
		if used := r.getNear("x"); used != (f != none) {
			t.Errorf("mutation %s: it is used: %v", f, used)
		}
	}
}

// PROTOCOL HON-5
func TestANearCopyThatTheHomeHasNotHeardOfIsNotUsed(t *testing.T) {
	for _, f := range []causal.Mutation{none, causal.LocalNearUnheard} {
		r := newLeasedRig(t, withFault(f))
		r.giveNewer("x", version(at(900)))
		if used := r.getNear("x"); used != (f != none) {
			t.Errorf("mutation %s: it is used: %v", f, used)
		}
		if f != none {
			continue
		}
		id := r.startGet("x")
		home, _ := r.asked()
		r.replyHome(home, causal.HomeReply{From: at(500), LeaseMs: leaseMs, Grant: 4})
		told, _ := r.asked()
		if told == nil || told.HomeRead().Shown != version(at(900)) {
			t.Fatalf("the home hears of %+v", told)
		}
		r.replyHome(told, causal.HomeReply{From: at(900), LeaseMs: leaseMs, Grant: 5})
		r.mustResult(id)
		if !r.getNear("x") {
			t.Error("it is not used when the home has heard of it")
		}
	}
}

// giveNewer gives a near copy on the stream of giveNearCopies.
func (r *rig) giveNewer(key string, v causal.Version) {
	m := causal.GetReply{ID: 1, Key: key, Record: record(v), Status: causal.Stable}.Message(cacheNode, r.s.cfg.Self)
	m.SetStreamPosition(causal.StreamPosition{Epoch: 7, Seq: 3})
	r.step(m)
}

// PROTOCOL HON-6
func TestANearCopyThatIsGoodForAnOlderCutIsNotUsedAtLevelLocal(t *testing.T) {
	for _, f := range []causal.Mutation{none, causal.LocalNearOlder} {
		r := newLeasedRig(t, withFault(f))
		m := causal.Invalidate{KeyHash: topology.Hash("x"), Next: at(1200)}.Message(cacheNode, r.s.cfg.Self)
		m.SetStreamPosition(causal.StreamPosition{Epoch: 7, Seq: 3})
		r.step(m)
		if used := r.getNear("x"); used != (f != none) {
			t.Errorf("mutation %s: it is used: %v", f, used)
		}
		if _, ok := r.s.GetNear(r.now, 1, []byte("x"), causal.Snapshot); !ok {
			t.Error("at another level it is not used at the cut")
		}
	}
}

// PROTOCOL HON-7
func TestABoundSessionUsesNoNearCopyAtLevelLocal(t *testing.T) {
	for _, f := range []causal.Mutation{none, causal.LocalNearBound} {
		r := newLeasedRig(t, withFault(f))
		r.receivedUpTo(at(1450), near)
		r.sent(causal.KindNone)
		r.readAtHome("z", causal.HomeReply{Record: record(homeVersion(1500)),
			Deps: []causal.Dep{{Version: version(at(1400))}}})
		if bound, _ := r.bound(); !bound {
			t.Fatal("the session is not bound")
		}
		if used := r.getNear("x"); used != (f != none) {
			t.Errorf("mutation %s: it is used: %v", f, used)
		}
	}
}

func TestASessionWithAnOwnWriteOfTheKeyUsesNoNearCopyAtLevelLocal(t *testing.T) {
	r := newLeasedRig(t)
	r.write("x", "1", homeVersion(1500))
	if r.getNear("x") {
		t.Error("it is used")
	}
}

// A read for update, and one without near copies, ask for no lease.
func TestWhichReadsAskForALease(t *testing.T) {
	r := newLeasedRig(t)
	r.start(Op{Kind: OpGet, Key: "x", ForUpdate: true})
	if home, _ := r.asked(); home == nil || home.HomeRead().Lease {
		t.Errorf("a read for update asks %+v", home)
	}
	r.startGet("cold")
	if home, _ := r.asked(); home == nil || home.HomeRead().Lease {
		t.Errorf("a read of a key that is not hot asks %+v", home)
	}
	r.start(Op{Kind: OpMGet, Keys: []string{"x", "y"}})
	if home, _ := r.asked(); home == nil || home.HomeRead().Lease {
		t.Errorf("an MGET asks %+v", home)
	}
	r.withdraws(3)
	r.s.DoGets(r.now, []Op{{ID: 90, Session: 1, Key: "x"}, {ID: 91, Session: 1, Key: "y"}})
	if home, _ := r.asked(); home == nil || !home.HomeRead().Lease {
		t.Errorf("pipelined gets, one of a hot key, ask %+v", home)
	}
}

func withFault(f causal.Mutation) func(*Config) {
	return func(c *Config) {
		if f != none {
			c.Broken = causal.MutationsOf(f)
		}
	}
}
