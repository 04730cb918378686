package coordinator

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// newEmpty returns a harness whose coordinator has an empty log.
func newEmpty(t *testing.T, coordinators int, index uint64, mutations ...causal.Mutation) *harness {
	h := newHarness(t, coordinators, index, mutations...)
	h.log, h.index = nil, 0
	h.c = New(h.cfg, h.now, nil, 1)
	return h
}

func (h *harness) reply(from topology.Node, r causal.PastReply) {
	r.ID = h.cfg.Incarnation
	h.step(r.Message(from, h.cfg.Self))
	h.tick(200)
}

func TestAnEmptyLogIsUsedOnceEveryShardHasAnswered(t *testing.T) {
	h := newEmpty(t, 1, 0)
	asked := ofKind(h.tick(200), causal.KindPastQuery)
	if len(asked) != 2 || h.c.Membership() != Joining || len(h.log) > 0 {
		t.Fatalf("asked %v, is %s, log %v", asked, h.c.Membership(), h.log)
	}
	if before, after := h.put(causal.Put{ID: 1, Session: 1, Seq: 1, Key: "x"}); len(before) != 1 ||
		before[0].PutReply().Err != causal.ErrUnavailable {
		t.Fatalf("a put is taken: %v %v", before, after)
	}
	h.reply(shardsA, causal.PastReply{})
	h.reply(shardsA, causal.PastReply{})
	if h.c.Membership() != Joining {
		t.Fatalf("one shard has not answered, and it is %s", h.c.Membership())
	}
	above := causal.HLCAt(h.now.WallMs + 2000)
	h.reply(shardsB, causal.PastReply{Above: above})
	if h.c.Membership() != Serving {
		t.Fatalf("all have answered, and it is %s; unanswered %v", h.c.Membership(), h.c.Unanswered())
	}
	if h.c.clock.Peek(h.now) < above {
		t.Error("it may issue timestamps that a shard takes for processed")
	}
}

func TestALogThatOthersKnowOfIsNotStartedAnew(t *testing.T) {
	for _, broken := range []bool{false, true} {
		var mutations []causal.Mutation
		if broken {
			mutations = []causal.Mutation{causal.ReuseOrigin}
		}
		h := newEmpty(t, 2, 0, mutations...)
		h.tick(200)
		h.reply(shardsA, causal.PastReply{HadData: true})
		h.reply(shardsB, causal.PastReply{})
		if refuses := h.c.Membership() == LogLost; refuses == broken {
			t.Errorf("with reuse-origin %v: %s", broken, h.c.Membership())
		}
		if broken {
			continue
		}
		if lost := h.c.DataLost(); len(lost) != 1 || lost[0] != shardsA || len(h.log) > 0 || h.c.InUse() != 0 {
			t.Errorf("known to %v, log %v, in use %b", lost, h.log, h.c.InUse())
		}
		// What this log knew of others is lost too.
		sent := ofKind(h.step(causal.PastQuery{ID: 5}.Message(shardsA, h.cfg.Self)), causal.KindPastReply)
		if len(sent) != 1 || !sent[0].PastReply().HadData {
			t.Errorf("a shard with an empty storage is told %v", sent)
		}
		for _, lost := range []bool{false, true} { // but one that waits to hear something is not to wait for ever
			for _, slots := range []topology.MapID{h.cfg.Topology.Map(0), 77} { // 77: its ring is being resharded
				hello := causal.LaneHello{Incarnation: 2, Map: slots, Lost: lost}
				sent := h.step(hello.Message(shardsA, h.cfg.Self))
				if len(sent) > 1 || (len(sent) == 1) == lost || len(sent) == 1 && !sent[0].LaneSync().Recovering {
					t.Errorf("a shard with slot map %d, lost %v, is told that its lane is empty: %v", slots, lost, sent)
				}
			}
		}
	}
}

func TestTheLeaderKnowsWhetherAnotherCoordinatorsLogIsLost(t *testing.T) {
	leader := topology.Node{Part: topology.Coordinator}
	for _, c := range []struct {
		term   uint64
		shards bool // have answered
		is     Membership
	}{{0, false, Joining}, {0, true, Joining}, {1, true, LogLost}, {1, false, LogLost}, {2, false, Joining}} {
		h := newEmpty(t, 2, 1)
		h.tick(200)
		if c.shards {
			h.reply(shardsA, causal.PastReply{})
			h.reply(shardsB, causal.PastReply{})
		}
		h.step(causal.TermReply{ID: h.cfg.Incarnation, Term: c.term, New: true}.Message(leader, h.cfg.Self))
		h.now.Mono += 2e8
		h.c.Tick(h.now)
		for _, m := range h.c.Take(nil) {
			if m.Kind == causal.KindTerm && m.Term().Join {
				t.Errorf("term %d: it asks to join before its log says that there was a start", c.term)
			}
		}
		h.sync()
		// Shards refuse puts of a log that was given up, and perhaps one was before the coordinator left.
		if generation := h.c.log.durable.Generation; generation > 0 != (c.term == 2) {
			t.Errorf("term %d: the log begins with generation %d", c.term, generation)
		}
		sent := ofKind(h.tick(200), causal.KindTerm)
		joins := len(sent) == 1 && sent[0].Term().Join && sent[0].Term().Term == c.term
		if wants := c.term == 2 || c.term == 0 && c.shards; h.c.Membership() != c.is || joins != wants {
			t.Errorf("term %d, shards have answered %v: %s, asks to join %v (%v)", c.term, c.shards, h.c.Membership(),
				joins, sent)
		}
	}
	// What shards know of is a loss only if the leader does not know that an earlier log has left, whoever answers
	// first.
	for _, c := range []struct {
		term        uint64
		leaderFirst bool
		is          Membership
	}{{0, false, LogLost}, {0, true, LogLost}, {1, false, LogLost}, {2, false, Joining}, {2, true, Joining}} {
		h := newEmpty(t, 2, 1)
		h.tick(200)
		for _, isLeader := range []bool{c.leaderFirst, !c.leaderFirst} {
			if isLeader {
				h.step(causal.TermReply{ID: h.cfg.Incarnation, Term: c.term, New: true}.Message(leader, h.cfg.Self))
			} else {
				h.reply(shardsA, causal.PastReply{HadData: true})
				h.reply(shardsB, causal.PastReply{HadData: true})
			}
		}
		if h.c.Membership() != c.is || len(h.c.DataLost()) > 0 != (c.is == LogLost) {
			t.Errorf("term %d, leader first %v: %s, lost to %v", c.term, c.leaderFirst, h.c.Membership(),
				h.c.DataLost())
		}
	}
	h := newHarness(t, 2, 0)
	h.tick(200)
	other := topology.Node{Part: topology.Coordinator, Index: 1}
	ask := causal.Term{ID: 3, New: true}.Message(other, h.cfg.Self)
	for range 2 { // asking changes nothing
		if sent := ofKind(h.step(ask), causal.KindTermReply); len(sent) != 1 || sent[0].TermReply().Term != 0 ||
			!sent[0].TermReply().New {
			t.Fatalf("the leader answers %v", sent)
		}
		h.tick(200)
	}
}

func TestWhatIsKnownOfShardsSurvivesARestartAndTheLeavingOfACoordinator(t *testing.T) {
	h := newHarness(t, 1, 0)
	h.tick(200)
	lastID := uint64(0)
	knows := func(want causal.PastReply) {
		t.Helper()
		lastID++
		want.ID, want.Away = lastID, h.c.terms.awayBits()
		sent := ofKind(h.step(causal.PastQuery{ID: want.ID}.Message(shardsA, h.cfg.Self)), causal.KindPastReply)
		if len(sent) != 1 || !cmp.Equal(sent[0].PastReply(), want) {
			t.Errorf("a shard with an empty storage is told %+v, want %+v", sent, want)
		}
	}
	knows(causal.PastReply{})
	h.put(causal.Put{ID: 1, Session: 1, Seq: 1, Key: "x"})
	version := h.c.writes[0].rec.Version
	h.step(causal.PutAck{Versions: []causal.Version{version}, Incarnation: 3}.Message(shardsA, h.cfg.Self))
	h.tick(3000)
	knows(causal.PastReply{HadData: true, Incarnation: 3})
	h.tick(3000)
	h.restart(h.now)
	h.tick(200)
	knows(causal.PastReply{HadData: true, Incarnation: 4}) // it may have started since

	// Another coordinator leaves, and its log may be removed.
	leader := newHarness(t, 2, 0)
	leader.tick(200)
	other := topology.Node{Part: topology.Coordinator, Index: 1}
	leave := causal.Term{ID: 1, Term: 2, Shards: []causal.ShardMark{{DC: 1, Incarnation: 9, HasData: true}}}.Message(
		other, leader.cfg.Self)
	if sent := ofKind(leader.step(leave), causal.KindTermReply); len(sent) > 0 {
		t.Errorf("it may go before the leader's log has what it knew: %v", sent)
	}
	leader.tick(200)
	if sent := ofKind(leader.step(leave), causal.KindTermReply); len(sent) != 1 {
		t.Errorf("it may not go: %v", sent)
	}
	if mark := leader.c.log.durable.mark(shardsB); !mark.HasData || mark.Incarnation != 9 {
		t.Errorf("the leader knows %+v", mark)
	}
}

// It would answer for a past that it has forgotten, or never had.
func TestACoordinatorWithAnEmptyLogSaysNothingOfTheShards(t *testing.T) {
	s, log := newParts(t), &logState{}
	p := pastAnswers{shared: s, log: log, terms: &termKeeper{shared: s, log: log},
		given: map[topology.Node]pastAnswer{}}
	if p.answer(shardsA, causal.PastQuery{ID: 1}, false); len(s.Take(nil)) != 0 || len(log.pending.Shards) != 0 {
		t.Error("it answers before it knows its own past")
	}
	log.checkpointIndex = 1
	if p.answer(shardsA, causal.PastQuery{ID: 1}, false); len(s.Take(nil)) != 1 {
		t.Error("it does not answer")
	}
}
