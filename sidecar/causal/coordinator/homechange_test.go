package coordinator

import (
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/operation"
	"github.com/causalstore/causalstore/topology"
)

// second is the coordinator beside the leader.
var second = topology.Node{Part: topology.Coordinator, Index: 1}

// newLeaderOfTwo returns a leader that has admitted another coordinator, whose data center has one home.
func newLeaderOfTwo(t *testing.T, faults ...causal.Fault) *harness {
	h := newHarness(t, 2, 0, faults...)
	h.cfg.Home = true
	h.restart(h.now)
	h.c.log.pending.Terms[1] = 1
	h.haveHomes(1)
	return h
}

// changes returns what is said to the other coordinator.
func changes(ms []causal.Message) (cs []causal.HomeChange) {
	for _, m := range ofKind(ms, causal.KindHomeChange) {
		cs = append(cs, m.HomeChange())
	}
	return cs
}

// vote sends the answer of the other coordinator, and returns what is said to it then.
func (h *harness) vote(v causal.HomeVote) []causal.HomeChange {
	h.step(v.Message(second, h.cfg.Self))
	got := changes(h.tick(60))
	return append(got, changes(h.tick(60))...)
}

// PROTOCOL HOC-2, HOC-3.
func TestALeaderChangesTheNumberOfHomesWhenAllHaveGivenUpTheirSlots(t *testing.T) {
	for _, broken := range []bool{false, true} {
		h := newLeaderOfTwo(t, faultIf(broken, causal.HomeChangeUnasked)...)
		key := h.keyOf(1) // which the other one is to get
		v := h.write(causal.Put{Seq: 1, Key: key})
		if got := changes(h.tick(1)); len(got) != 1 || got[0] != (causal.HomeChange{Number: 1, Count: 1}) {
			t.Fatalf("first the leader says %+v", got)
		}
		got := h.vote(causal.HomeVote{Number: 1, Ready: true})
		if broken {
			h.ack(shardsA, v)
			h.ack(shardsB, v)
			if h.tick(60); h.c.homeChange.count() != 2 {
				t.Error("broken: it waits for the vote")
			}
			continue
		}
		if len(got) == 0 || got[len(got)-1] != (causal.HomeChange{Number: 1, Next: 2}) {
			t.Fatalf("then it proposes %+v", got)
		}
		if err := h.refusal(causal.Put{Seq: 2, Key: key}); err != causal.ErrUnavailable {
			t.Errorf("a put of a slot that was given up gets %s", err)
		}
		if err := h.refusal(causal.Put{Seq: 3, Session: 2, Key: h.keyOf(0)}); err != causal.OK {
			t.Errorf("a put of a slot that stays gets %s", err)
		}
		upTo := causal.HLCAt(h.now.WallMs + 5_000)
		h.vote(causal.HomeVote{Number: 1, Next: 2, UpTo: upTo})
		if n := h.c.homeChange.count(); n != 1 {
			t.Fatalf("with an incomplete write of a slot that moves there are %d homes", n)
		}
		h.ack(shardsA, v)
		h.ack(shardsB, v)
		got = append(changes(h.tick(60)), changes(h.tick(60))...)
		if len(got) == 0 || got[len(got)-1].Number != 2 || got[len(got)-1].Count != 2 || got[len(got)-1].UpTo < upTo {
			t.Fatalf("it announces %+v", got)
		}
		if r := h.top(h.keyOf(0)); r.From < upTo {
			t.Errorf("reads elsewhere must include up to %d, and homes have shown up to %d", r.From, upTo)
		}
		if h.vote(causal.HomeVote{Number: 2}); !h.c.homeChange.isSettled() {
			t.Error("it goes on")
		}
	}
}

// PROTOCOL HOC-2.
func TestALeaderGivesAChangeUpThatTakesTooLong(t *testing.T) {
	h := newLeaderOfTwo(t)
	h.vote(causal.HomeVote{Number: 1, Ready: true})
	if h.c.log.durable.Homes.Next != 2 {
		t.Fatal("it has proposed nothing")
	}
	for range 50 {
		h.tick(100)
	}
	if d := h.c.log.durable.Homes; d.Number != 2 || d.Count != 1 || d.Next != 0 {
		t.Errorf("after a while it has %+v", d)
	}
	if err := h.refusal(causal.Put{Seq: 1, Key: h.keyOf(1)}); err != causal.OK {
		t.Errorf("a put of a slot that was given up before gets %s", err)
	}
}

// PROTOCOL HOC-1, HOC-2: also over a restart.
func TestACoordinatorThatHasGivenUpSlotsServesThemAgainOnlyOnceItIsDecided(t *testing.T) {
	for _, broken := range []bool{false, true} {
		h := newHarness(t, 2, 1, faultIf(broken, causal.HomeKeepsSlots)...)
		h.cfg.Home = true
		h.restart(h.now)
		h.c.log.pending.Term = 1
		h.haveHomes(2)
		key, leader := h.keyOf(1), topology.Node{Part: topology.Coordinator}
		propose := func() []causal.HomeVote {
			h.step(causal.HomeChange{Number: 1, Next: 1}.Message(leader, h.cfg.Self))
			h.sync()
			var votes []causal.HomeVote
			for _, m := range ofKind(h.step(causal.HomeChange{Number: 1, Next: 1}.Message(leader, h.cfg.Self)),
				causal.KindHomeVote) {
				votes = append(votes, m.HomeVote())
			}
			return votes
		}
		v := h.write(causal.Put{Seq: 1, Key: key})
		if votes := propose(); len(votes) != 1 || votes[0].Next != 0 {
			t.Fatalf("with an incomplete write it votes %+v", votes)
		}
		h.ack(shardsA, v)
		h.ack(shardsB, v)
		if votes := propose(); len(votes) != 1 || votes[0].Next != 1 || votes[0].UpTo < v.HLC {
			t.Fatalf("it votes %+v", votes)
		}
		h.restart(h.now)
		if err := h.refusal(causal.Put{Seq: 2, Session: 2, Key: key}); (err == causal.OK) != broken {
			t.Errorf("broken %v: a put of a slot that was given up gets %s", broken, err)
		}
		h.step(causal.HomeChange{Number: 2, Count: 2, UpTo: v.HLC}.Message(leader, h.cfg.Self))
		h.sync()
		if err := h.refusal(causal.Put{Seq: 3, Session: 3, Key: key}); err != causal.OK {
			t.Errorf("when the change was given up it gets %s", err)
		}
	}
}

func TestTheLogKeepsHowManyHomesThereAre(t *testing.T) {
	want := Homes{Number: 7, Count: 3, Next: 4, UpTo: 9}
	r := LogRecord{Checkpoint: &Checkpoint{State: State{Homes: want, Ceiling: 5}}}
	got, err := ParseLogRecord(r.AppendTo(nil))
	if err != nil || got.Checkpoint.Homes != want || got.Checkpoint.Ceiling != 5 {
		t.Errorf("%+v, %v", got.Checkpoint, err)
	}
}

// A session whose put is refused sends it again, with those after it.
func TestPutsThatWereSentBeforeARefusalWasHeardAreRefusedToo(t *testing.T) {
	h := newHomesHarness(t)
	put := func(seq, unanswered uint64, home uint64) causal.ErrCode {
		return h.refusal(causal.Put{Seq: seq, Unanswered: unanswered, Key: h.keyOf(home)})
	}
	for i, tt := range []struct {
		seq, unanswered, home uint64
		want                  causal.ErrCode
	}{{1, 1, 0, causal.OK}, {2, 1, 1, causal.ErrUnavailable}, {3, 1, 0, causal.ErrUnavailable},
		{4, 2, 0, causal.ErrUnavailable}, {5, 5, 0, causal.OK}, {6, 5, 0, causal.OK}} {
		if got := put(tt.seq, tt.unanswered, tt.home); got != tt.want {
			t.Errorf("put %d, the %dth, gets %s; want %s", tt.seq, i, got, tt.want)
		}
	}
}

// The same of operations, which are puts. The sidecar is told how many homes there are.
func TestOperationsThatWereSentBeforeARefusalWasHeardAreRefusedToo(t *testing.T) {
	h := newHomesHarness(t)
	h.write(causal.Put{Seq: 1, Unanswered: 1, Key: h.keyOf(0), Value: valueOf("1")})
	o := operation.Operation{Kind: operation.Add, Number: 1}
	put := func(seq, unanswered uint64, home uint64, v causal.Value) (err causal.ErrCode, told int) {
		ms := h.step(causal.Put{Seq: seq, Unanswered: unanswered, Key: h.keyOf(home), Value: v}.Message(app, h.cfg.Self))
		for _, m := range ofKind(ms, causal.KindPutReply) {
			err = m.PutReply().Err
		}
		return err, len(ofKind(ms, causal.KindHomes))
	}
	for i, tt := range []struct {
		seq, unanswered, home uint64
		value                 causal.Value
		want                  causal.ErrCode
	}{{2, 2, 1, o.Value(false), causal.ErrUnavailable}, {3, 2, 0, o.Value(false), causal.ErrUnavailable},
		{4, 2, 0, o.Value(true), causal.ErrUnavailable}, {5, 2, 0, valueOf("9"), causal.ErrUnavailable},
		{6, 6, 0, o.Value(false), causal.OK}} {
		got, told := put(tt.seq, tt.unanswered, tt.home, tt.value)
		if got != tt.want || (told > 0) != (tt.want == causal.ErrUnavailable) {
			t.Errorf("the %dth gets %s, and is told %d times; want %s", i, got, told, tt.want)
		}
	}
	h.sync()
	if top := h.top(h.keyOf(0)); string(top.Record.Value.Data) != "2" {
		t.Errorf("the key is %q", top.Record.Value.Data)
	}
}

// The clock of a coordinator that has just started may be in the future: reads of all keys would wait for it.
func TestAVoteIsNotBeyondWhatWasAcceptedOrShown(t *testing.T) {
	h := newHomeHarness(t)
	h.c.clock.Raise(h.c.clock.Peek(h.now) + causal.HLCAt(2000))
	if got, want := h.c.homeChange.bound(h.now), h.c.clock.Peek(h.now); got != want {
		t.Errorf("of a home, which may have been told as much: %v, want %v", got, want)
	}
	h.haveHomes(0)
	h.c.home.newest, h.c.home.published = 5, 6
	if got := h.c.homeChange.bound(h.now); got != 6 {
		t.Errorf("of a coordinator that is no home: %v, want 6", got)
	}
	h.c.log.durable.LostUpTo = 7
	if got := h.c.homeChange.bound(h.now); got != 7 {
		t.Errorf("after its log was given up: %v, want 7", got)
	}
}

// At another scope every coordinator takes writes of all keys, so what homes know counts for nothing afterwards.
func TestACoordinatorThatHasServedAnotherScopeIsNoHomeUntilThatIsDecided(t *testing.T) {
	h := newHomesHarness(t)
	slot := topology.Slot(0)
	for h.c.homeChange.homeOf(slot, 2) != h.cfg.Self {
		slot++
	}
	if !h.c.home.isOf(slot) {
		t.Fatal("it is no home at first")
	}
	ceiling := h.c.log.durable.Ceiling
	h.cfg.Home = false
	h.restart(h.now)
	h.sync()
	h.cfg.Home = true
	h.restart(h.now)
	is := h.c.log.durable.Homes
	if is.Number != 1 || is.Count != 0 || is.UpTo < ceiling {
		t.Errorf("it knows %+v", is)
	}
	if h.c.home.isOf(slot) {
		t.Error("it is the home of a slot again at once")
	}
	if h.c.homeChange.bound(h.now) < ceiling {
		t.Error("reads need not include what was shown before")
	}
}

// PROTOCOL HOC-5
func TestSlotsAreGivenUpWhenNoLeaseOfBeforeRuns(t *testing.T) {
	for _, broken := range []bool{false, true} {
		h := newLeaderOfTwo(t, faultIf(broken, causal.HomeGivesLeased)...)
		key := h.keyOf(1)
		h.lease(holder, key)
		h.sync()
		if h.lease(holder, key).Grant == 0 {
			t.Fatal("no lease is given")
		}
		h.vote(causal.HomeVote{Number: 1, Ready: true})
		h.vote(causal.HomeVote{Number: 1, Next: 2, UpTo: 1})
		if n := h.c.homeChange.count(); (n == 2) != broken {
			t.Errorf("broken %v: while a lease runs there are %d homes", broken, n)
		}
		h.tick(500)
		if h.tick(60); h.c.homeChange.count() != 2 {
			t.Errorf("broken %v: when it is over, the change is not decided", broken)
		}
	}
}

// PROTOCOL HOC-6
func TestAnOperationIsAnsweredThoughItsSlotWasGivenUp(t *testing.T) {
	for _, broken := range []bool{false, true} {
		h := newHarness(t, 2, 0, faultIf(broken, causal.HomeRefusesExecuted)...)
		h.cfg.Home = true
		h.restart(h.now)
		h.haveHomes(1)
		key := h.keyOf(1)
		h.write(causal.Put{Seq: 1, Key: key, Value: valueOf("1")})
		o := operation.Operation{Kind: operation.Add, Number: 1}
		add := o.Value(false)
		v := h.write(causal.Put{Seq: 2, Key: key, Value: add})
		h.haveHomes(2)
		again := h.step(causal.Put{ID: 9, Seq: 2, Key: key, Value: add}.Message(app, h.cfg.Self))
		replies := ofKind(again, causal.KindPutReply)
		if len(replies) != 1 {
			t.Fatalf("sent again, it gets %+v", again)
		}
		if r := replies[0].PutReply(); (r.Version == v && string(r.Value.Data) == "2") == broken {
			t.Errorf("broken %v: sent again, it gets %+v", broken, r)
		}
		if err := h.refusal(causal.Put{Seq: 3, Key: key, Value: add}); err != causal.ErrUnavailable {
			t.Errorf("the next one gets %s", err)
		}
	}
}

// PROTOCOL HOC-3: it alone was started at another scope, and back.
func TestACoordinatorThatHasServedAnotherScopeTakesOnlyADecisionThatIncludesIt(t *testing.T) {
	h := newHarness(t, 2, 1)
	h.cfg.Home = true
	h.restart(h.now)
	h.c.log.pending.Term = 1
	h.haveHomes(2)
	h.cfg.Home = false
	h.restart(h.now)
	h.sync()
	v := h.write(causal.Put{Seq: 1, Key: h.keyOf(0)})
	h.cfg.Home = true
	h.restart(h.now)
	leader := topology.Node{Part: topology.Coordinator}
	hear := func(c causal.HomeChange) (votes []causal.HomeVote) {
		ms := append(h.step(c.Message(leader, h.cfg.Self)), h.tick(60)...)
		for _, m := range ofKind(ms, causal.KindHomeVote) {
			votes = append(votes, m.HomeVote())
		}
		h.sync()
		return votes
	}
	old := causal.HomeChange{Number: 1, Count: 2, UpTo: v.HLC - 1}
	for _, vote := range hear(old) {
		if vote.UpTo != 0 {
			t.Errorf("with an incomplete write it votes %+v", vote)
		}
	}
	h.ack(shardsA, v)
	h.ack(shardsB, v)
	votes := hear(old)
	if len(votes) == 0 || votes[0].Number != 0 || votes[0].UpTo < v.HLC || h.c.homeChange.count() != 0 {
		t.Fatalf("of the old decision it says %+v, and there are %d homes", votes, h.c.homeChange.count())
	}
	hear(causal.HomeChange{Number: 2, Count: 2, UpTo: votes[0].UpTo})
	if h.c.homeChange.count() != 2 {
		t.Error("it does not take one that includes what it has accepted")
	}
}

// PROTOCOL HOC-3
func TestALeaderDecidesAgainForACoordinatorThatKnowsNoDecision(t *testing.T) {
	h := newHarness(t, 2, 0)
	h.cfg.Home = true
	h.restart(h.now)
	h.c.log.pending.Terms[1] = 1
	h.haveHomes(2)
	if h.vote(causal.HomeVote{Number: 1, Ready: true}); !h.c.homeChange.isSettled() {
		t.Fatal("it is not settled at first")
	}
	upTo := causal.HLCAt(h.now.WallMs)
	got := h.vote(causal.HomeVote{Ready: true, UpTo: upTo})
	if want := (causal.HomeChange{Number: 2, Count: 2, UpTo: upTo}); len(got) == 0 || got[len(got)-1] != want {
		t.Errorf("it says %+v, want %+v", got, want)
	}
	if r := h.top(h.keyOf(0)); r.From < upTo {
		t.Errorf("reads elsewhere must include up to %d, and the other one has accepted up to %d", r.From, upTo)
	}
}

// PROTOCOL HOC-2: sidecars go by the decision with the greatest number that they have heard of, though the log of the
// leader that has decided it was lost.
func TestTheNumberOfADecisionIsGreaterThanThoseOfALostLog(t *testing.T) {
	h := newLeaderOfTwo(t)
	log := recoveredLog{generation: uint64(h.now.WallMs), above: h.c.clock.Peek(h.now),
		homes: causal.Homes{Number: 5, Count: 2}}
	h.c.beginRecoveredLog(h.now, log)
	h.sync()
	if is := h.c.log.durable.Homes; is.Number < log.generation || is.Count != 2 || is.UpTo < log.above {
		t.Errorf("it begins with %+v", is)
	}
}

// PROTOCOL HOC-3: a coordinator that has left took writes of all keys at another scope. It does not vote.
func TestTheFirstDecisionIncludesWhatCoordinatorsThatHaveLeftHaveAccepted(t *testing.T) {
	h := newHarness(t, 1, 0)
	h.cfg.Home = true
	h.restart(h.now)
	sv := causal.HLCAt(h.now.WallMs + 100)
	h.c.known.Merge([]causal.VectorEntry{{Origin: h.cfg.Topology.OriginOf(second), SV: sv}}, causal.NoLimit)
	for range 3 {
		h.tick(60)
	}
	if is := h.c.log.durable.Homes; is.Count != 1 || is.UpTo < sv {
		t.Errorf("it has decided %+v", is)
	}
}
