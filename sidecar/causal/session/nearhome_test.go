package session

import (
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// Near copies beside a home: what a session has read at the home is newer than what near copies know.

// newNearHomeRig returns a rig with one home and near copies of some keys, whose versions are 10, 11, and so on.
func newNearHomeRig(t *testing.T, keys ...string) *rig {
	r := newRig(t, localReads, oneHome, nearCopies)
	r.completeUpTo(at(1000))
	r.giveNearCopies(keys, 10)
	r.sent(causal.KindNone)
	return r
}

// x was written and read at the home by somebody who then reads it at another level.
func TestANearCopyAtAnotherLevelIsNotReadBehindWhatWasReadAtTheHome(t *testing.T) {
	r := newNearHomeRig(t, "x")
	r.readAtHome("x", causal.HomeReply{Record: record(homeVersion(1500))})
	for _, l := range []causal.Level{causal.Snapshot, causal.Latest} {
		if _, ok := r.s.GetNear(r.now, 1, []byte("x"), l); ok {
			t.Errorf("%s: the older near copy is read", l)
		}
	}
}

// An MGET may be bound by what the home says of its first key, and is then not answered by the near copies of all.
func TestAnMGetThatTheHomeHasBoundUsesNoNearCopies(t *testing.T) {
	r := newNearHomeRig(t, "x", "y")
	r.receivedUpTo(at(1450), near)
	r.sent(causal.KindNone)
	id := r.start(Op{Kind: OpMGet, Keys: []string{"x", "y"}})
	home, _ := r.asked()
	r.replyHomeOfAll(home, at(500), map[string]causal.HomeReply{
		"x": {Record: record(homeVersion(1500)), Deps: []causal.Dep{{Version: version(at(1400))}}}})
	r.mustBeUnfinished(id)
	for _, m := range r.sent(causal.KindGet) {
		if m.To != r.shard(near) {
			t.Errorf("%v is asked", m.To)
		}
	}
}

// An MGET that has read at a cut begins again, and reads the newest: a copy that is good at that cut is not used.
func TestAnMGetThatReadsTheNewestUsesNoNearCopiesOfACutBefore(t *testing.T) {
	r := newNearHomeRig(t, "x")
	pos := causal.StreamPosition{Epoch: 7, Seq: 2} // after giveNearCopies
	onStream := func(m causal.Message) {
		pos.Seq++
		m.SetStreamPosition(pos)
		r.step(m)
	}
	onStream(causal.Invalidate{KeyHash: topology.Hash("x"), Next: at(1200)}.Message(cacheNode, r.s.cfg.Self))
	id := r.start(Op{Kind: OpMGet, Keys: []string{"x", "y"}})
	home, _ := r.asked()
	r.replyHomeOfAll(home, at(500), nil)
	_, elsewhere := r.asked()
	if elsewhere == nil || elsewhere.Get().Key != "y" || elsewhere.Get().Cut == 0 {
		t.Fatalf("elsewhere is asked for %+v", elsewhere)
	}
	onStream(causal.GetReply{ID: 1, Key: "y", Record: record(version(11)),
		Status: causal.Stable}.Message(cacheNode, r.s.cfg.Self))
	latest{}.startMGet(r.s, r.now, r.s.calls[0])
	r.mustBeUnfinished(id)
}

// A ring has dropped the tombstone of a key: what it says of it is as new as its horizon. A count that has read
// something older is then not accepted any more.
func TestTheHomeHearsOfADeleteThatIsShown(t *testing.T) {
	r := newLocalRig(t)
	id := r.startGet("x")
	home, elsewhere := r.asked()
	r.replyHome(home, causal.HomeReply{From: at(500)})
	r.replyGet(elsewhere, causal.GetReply{Record: causal.Missing(at(900)), Status: causal.Stable})
	r.mustBeUnfinished(id)
	if home, _ = r.asked(); home == nil || home.HomeRead().Shown.HLC != at(900) {
		t.Errorf("the home hears %+v", home)
	}
}

func TestTheHomeHearsOfADeleteThatAnMGetShows(t *testing.T) {
	r := newLocalRig(t)
	id := r.start(Op{Kind: OpMGet, Keys: []string{"x", "y"}})
	home, _ := r.askedForAll()
	r.replyHomeOfAll(home[0], at(500), nil)
	_, elsewhere := r.askedForAll()
	for _, m := range elsewhere {
		r.replyGet(m, causal.GetReply{Record: causal.Missing(at(900)), Status: causal.Stable})
	}
	r.mustBeUnfinished(id)
	home, _ = r.askedForAll()
	if len(home) != 1 || home[0].HomeRead().Shown.HLC != at(900) {
		t.Errorf("the home hears %+v", home)
	}
}
