package session

import (
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

func TestACommitIsNotSentToAHomeThatDoesNotKnowIt(t *testing.T) {
	s := newRig(t, localReads).s
	c := &call{op: Op{Kind: OpPut, Commit: []causal.CommitKey{{Key: "{a}1"}, {Key: "{a}2"}}}}
	if err := s.refusesCommit(c); err != causal.ErrNotFound {
		t.Errorf("before the home was heard: %s", err)
	}
	s.noteHome(s.homeOf(topology.SlotOf("{a}1")), causal.HomeReply{})
	if err := s.refusesCommit(c); err != causal.ErrNotFound {
		t.Errorf("with a home of an older version: %s", err)
	}
	s.noteHome(s.homeOf(topology.SlotOf("{a}1")), causal.HomeReply{Commits: true})
	if err := s.refusesCommit(c); err == causal.ErrNotFound {
		t.Errorf("with a home that knows commits: %s", err)
	}
}

func TestACommitInOrderHasOneHome(t *testing.T) {
	r, keys := newHomesRig(t)
	both := []causal.CommitKey{{Key: keys[0]}, {Key: keys[1]}}
	for _, key := range keys {
		home := r.s.homeOf(topology.SlotOf(key))
		r.s.noteHome(home, causal.HomeReply{Locks: true})
		if n := r.s.CommitsInOrder([]string{key, key}); n != 1 {
			t.Errorf("%d keys, of a home that is not known to take commits", n)
		}
		r.s.noteHome(home, causal.HomeReply{Commits: true, Locks: true})
	}
	if n := r.s.CommitsInOrder([]string{keys[0], keys[0], keys[1], keys[0]}); n != 2 {
		t.Errorf("%d keys, of which the third has another home", n)
	}
	if n := r.s.CommitsInOrder(keys[:]); n != 1 {
		t.Errorf("%d keys, of two homes", n)
	}
	if res := r.mustResult(r.start(Op{Kind: OpPut, Commit: both, InOrder: true})); res.Err != causal.ErrConflict {
		t.Errorf("a commit in order of two homes: %s", res.Err)
	}
}
