package coordinator

import (
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/operation"
	"github.com/causalstore/causalstore/topology"
)

// PROTOCOL HOC-1, HOC-2: also over a restart.
func TestACoordinatorThatHasGivenUpSlotsServesThemAgainOnlyOnceItIsDecided(t *testing.T) {
	for _, broken := range []bool{false, true} {
		h := newHarness(t, 2, 1, mutationIf(broken, causal.HomeKeepsSlots)...)
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
		p := causal.Put{Seq: seq, Unanswered: unanswered, Key: h.keyOf(home), Value: v}
		ms := h.step(p.Message(app, h.cfg.Self))
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
		h := newLeaderOfTwo(t, mutationIf(broken, causal.HomeGivesLeased)...)
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
		h := newHarness(t, 2, 0, mutationIf(broken, causal.HomeRefusesExecuted)...)
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
