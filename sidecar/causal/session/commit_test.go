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
