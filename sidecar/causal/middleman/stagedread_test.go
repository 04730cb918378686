package middleman

import (
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
)

// A put whose dependency is missing is here, and what a bound reader has seen may depend on it.
func TestBoundReaderWaitsForAStagedPutThatItMayHaveToSee(t *testing.T) {
	ruleHolds(t, causal.ReadPastStaged, func(r *rig) string {
		key := r.key(self, 0)
		r.put(key, record(version(10)), after(version(5), r.key(peer, 0)))
		if reply, ok := r.get(causal.Get{Key: key, Seen: 10}); ok {
			return "the read was answered with " + reply.Record.Version.String()
		}
		parked := r.lastID
		r.step(causal.DepStatus{Version: version(5)}.Message(peer, self))
		if reply, ok := r.reply(parked); !ok || reply.Record.Version != version(10) {
			return "the read was not answered with the put once that was written"
		}
		return ""
	})
}

func TestReaderIsNotHeldUpByStagedPutsThatItNeedNotSee(t *testing.T) {
	key := newRig(t).key(self, 0)
	for name, g := range map[string]causal.Get{
		"unbound":                     {Key: key},
		"has seen less":               {Key: key, Seen: 9},
		"at a cut that is complete":   {Key: key, Seen: 10, Cut: 5},
		"of another key of the shard": {Key: newRig(t).key(self, 1), Seen: 10},
	} {
		r := newRig(t)
		r.put(key, record(version(10)), after(version(5), r.key(peer, 0)))
		if _, ok := r.get(g); !ok {
			t.Errorf("a reader that is %s waits", name)
		}
	}
}

func TestSnapshotReaderWaitsForAStagedPutThatItHasSeen(t *testing.T) {
	r := newRig(t)
	key := r.key(self, 0)
	r.put(key, record(version(10)), after(version(5), r.key(peer, 0)))
	if _, ok := r.get(causal.Get{Key: key, Cut: 4, Seen: 10, Snapshot: true}); ok {
		t.Error("the read was answered")
	}
}

func TestParkedReadIsDroppedAfterItsTimeAndReadsBeyondTheBoundAreRefused(t *testing.T) {
	r := newRig(t)
	key := r.key(self, 0)
	r.put(key, record(version(10)), after(version(5), r.key(peer, 0)))
	others := r.m.staged.parked.Holder(peer)
	for range maxParkedQuestions - 1 {
		r.m.staged.parked.Must(peer)
	}
	if _, ok := r.get(causal.Get{Key: key, Seen: 10}); ok {
		t.Fatal("the read was answered")
	}
	if reply := r.mustGet(causal.Get{Key: key, Seen: 10}); reply.Err != causal.ErrBusy {
		t.Errorf("a read beyond the bound: %v, want busy", reply.Err)
	}
	r.wait(parkedTTL + 1)
	if r.m.staged.parked.Release(others, maxParkedQuestions-1); r.m.staged.parked.Held() != 0 {
		t.Error("the parked read still counts")
	}
	r.inbox = nil
	r.step(causal.DepStatus{Version: version(5)}.Message(peer, self))
	if replies := r.received(causal.KindGetReply, sidecar); len(replies) > 0 {
		t.Errorf("a dropped read was answered: %v", replies)
	}
}
