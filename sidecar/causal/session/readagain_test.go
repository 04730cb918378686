package session

import (
	"testing"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// bindTo binds the session to one ring, so that no other one can be asked.
func (r *rig) bindTo(ring topology.RingID) {
	r.read("bound", version(10), causal.InFlight, ring)
	r.s.Take(nil)
}

func TestAReadThatOnlyOneShardMayAnswerIsSentAgainWhenAnotherMemberServesIt(t *testing.T) {
	r := newRig(t)
	r.bindTo(middle)
	shard := r.shard(middle)
	id := r.startGet("y")
	first := *r.request(causal.KindGet)
	r.s.LinkDown(r.now, shard)
	r.tick(0)
	r.sent(causal.KindGet) // nobody serves: it is lost
	r.s.LinkUp(r.now, shard, causal.Leadership{Epoch: 2, Life: 1})
	again := r.request(causal.KindGet)
	if again.To != shard {
		t.Fatalf("%s was asked", again.To)
	}
	r.replyGet(&first, causal.GetReply{Record: record(version(3)), Ring: middle})
	r.mustBeUnfinished(id)
	r.replyGet(again, causal.GetReply{Record: record(version(20)), Ring: middle, Status: causal.Stable})
	if res := r.mustResult(id); res.Record.Version != version(20) {
		t.Errorf("read %+v", res)
	}
}

func TestALeadershipThatMovesWithoutALinkEndingMakesReadsGoAgain(t *testing.T) {
	for _, op := range []Op{{Kind: OpGet, Key: "y"}, {Kind: OpMGet, Keys: []string{"y", "z"}},
		{Kind: OpScan, Limit: 10}, {Kind: OpCount}} {
		r := newRig(t)
		r.bindTo(middle)
		r.start(op)
		before := r.s.Take(nil)
		r.s.LinkUp(r.now, before[0].To, causal.Leadership{Epoch: 2, Life: 1})
		if after := r.s.Take(nil); len(after) != len(before) || len(before) == 0 {
			t.Errorf("%+v: sent %d messages, and then %d", op, len(before), len(after))
		}
		other := r.shard(near)
		if other == before[0].To {
			other = r.shard(middle)
		}
		r.s.LinkUp(r.now, other, causal.Leadership{Epoch: 2, Life: 1})
		if after := r.s.Take(nil); len(after) > 0 {
			t.Errorf("%+v: %+v was sent when another shard got a new leadership", op, after)
		}
	}
}

func TestAnMGetGoesElsewhereAtOnceWhenTheLinkToAShardEnds(t *testing.T) {
	r := newRig(t)
	r.start(Op{Kind: OpMGet, Keys: []string{"x", "y"}})
	if m := r.request2(t); m[0].To != r.shard(near) {
		t.Fatalf("asked %+v", m)
	}
	r.s.LinkDown(r.now, r.shard(near))
	if m := r.request2(t); m[0].To != r.shard(middle) || m[1].To != r.shard(middle) {
		t.Errorf("asked %+v", m)
	}
}

func TestAnMGetAtACutAsksAnotherShardWhenTheLinkToOneEnds(t *testing.T) {
	r := newRig(t, snapshotReads, noCache)
	r.completeUpTo(causal.HLCAt(5000))
	r.tick(time.Millisecond)
	r.s.Take(nil)
	r.start(Op{Kind: OpMGet, Keys: []string{"x", "y"}})
	before := r.request2(t)
	r.s.LinkDown(r.now, before[0].To)
	if m := r.request2(t); m[0].To != r.shard(middle) || m[0].Get().Cut != before[0].Get().Cut {
		t.Errorf("asked %+v", m)
	}
}

// TestTheAnswerToAGetThatWasSentAgainAnswersNoPut has a get that is sent again since the link to the shard is up again,
// and once more since the home knows more. What arrives later for the second one finds the put that has taken the place
// of the get. PROTOCOL SES-6.
func TestTheAnswerToAGetThatWasSentAgainAnswersNoPut(t *testing.T) {
	showsFault(t, causal.RequestKept, func(r *rig) string {
		r.completeUpTo(at(1000))
		r.s.Take(nil)
		get := r.startGet("x")
		home, first := r.asked()
		found := causal.GetReply{Record: record(homeVersion(400)), Status: causal.Stable, Ring: near}
		r.replyGet(first, found)
		r.s.LinkUp(r.now, first.To, causal.Leadership{Epoch: 2, Life: 1})
		second := *r.request(causal.KindGet)
		r.replyHome(home, causal.HomeReply{From: at(1100)})
		third := *r.request(causal.KindGet)
		r.completeUpTo(at(1200))
		for range 3 {
			if _, done := r.result(get); done {
				break
			}
			r.replyGet(&third, found)
			if again := r.sent(causal.KindGet); len(again) > 0 {
				third = *again[0]
			}
		}
		r.mustResult(get)
		put := r.startPut("y", "1")
		r.replyGet(&second, found)
		if res, done := r.result(put); done {
			return "the put was acknowledged: " + res.Record.Version.String()
		}
		return ""
	}, localReads, oneHome, noCache)
}
