package session

import (
	"strings"
	"testing"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// overdue is longer than a coordinator may take to answer, and much shorter than a put may take.
const overdue = 2 * time.Second

// putOf starts a put of another session, which the same coordinator would take, and returns the put as it was sent.
func (p *pipeline) putOf(session uint64) *causal.Message {
	p.t.Helper()
	p.s.Open(session)
	p.start(Op{Kind: OpPut, Session: session, Key: "other", Value: causal.Value{Data: []byte("o")}})
	return p.request(causal.KindPut)
}

func TestOtherSessionsGoRoundACoordinatorThatOwesAnAnswer(t *testing.T) {
	p := newPipeline(t, 2, 1)
	hangs := p.first[0].To
	if to := p.putOf(3).To; to != hangs {
		t.Fatalf("sessions 1 and 3 use %s and %s", hangs, to)
	}
	p.tick(overdue)
	if to := p.putOf(5).To; to == hangs {
		t.Errorf("a put went to %s, which owes an answer", to)
	}
	p.accept(p.first[0])
	if to := p.putOf(7).To; to != hangs {
		t.Errorf("a put went to %s, though %s has answered", to, hangs)
	}
}

func TestACoordinatorThatOwesAnAnswerIsUsedIfThereIsNoOther(t *testing.T) {
	p := newPipeline(t, 1, 1)
	p.tick(overdue)
	p.putOf(3)
	p.startPut("k", "b")
	if again := p.sent(causal.KindPut); values(again) != "b" {
		t.Errorf("%q was sent, want b", values(again))
	}
}

// The session changes its coordinator only when the outcome of every put in flight is known, or the later one could
// take effect without the earlier.
func TestAPutWaitsForThoseThatACoordinatorOwesAnAnswerFor(t *testing.T) {
	p := newPipeline(t, 2, 2)
	p.tick(overdue)
	p.startPut("k", "c")
	if early := p.sent(causal.KindPut); len(early) > 0 {
		t.Fatalf("%q was sent while the outcome of others is open", values(early))
	}
	p.tick(5*time.Second - overdue)
	again := p.sent(causal.KindPut)
	if values(again) != "c" || again[0].To == p.first[0].To || again[0].Put().Seq <= p.first[1].Put().Seq {
		t.Fatalf("%q was sent: %+v", values(again), again)
	}
	p.accept(p.first...) // too late
	p.accept(again...)
	p.expect(map[uint64]causal.ErrCode{1: causal.ErrUnknown, 2: causal.ErrUnknown, 3: causal.OK})
}

func TestPutsThatWaitKeepTheirOrderWhenTheCoordinatorAnswers(t *testing.T) {
	p := newPipeline(t, 2, 2)
	p.tick(overdue)
	p.startPut("k", "c")
	p.accept(p.first[0])
	p.startPut("k", "d") // the coordinator owes none any more, but c must come before
	if early := p.sent(causal.KindPut); len(early) > 0 {
		t.Fatalf("%q was sent while b is in flight", values(early))
	}
	p.accept(p.first[1])
	again := p.sent(causal.KindPut)
	if values(again) != "cd" || again[0].To != p.first[0].To {
		t.Fatalf("%q was sent, want cd to %s: %+v", values(again), p.first[0].To, again)
	}
	p.accept(again...)
	p.expect(map[uint64]causal.ErrCode{1: causal.OK, 2: causal.OK, 3: causal.OK, 4: causal.OK})
}

// A put that was never sent has had no effect.
func TestAPutThatWaitedInVainWasNotExecuted(t *testing.T) {
	p := newPipeline(t, 2, 1)
	p.tick(overdue)
	p.start(Op{Kind: OpPut, Key: "k", Value: causal.Value{Data: []byte("b")}, Timeout: time.Second})
	p.tick(time.Second)
	p.expect(map[uint64]causal.ErrCode{2: causal.ErrUnavailable})
	p.accept(p.first[0])
	p.expect(map[uint64]causal.ErrCode{1: causal.OK, 2: causal.ErrUnavailable})
}

// serve brings the link to a coordinator up, under a leadership, and has n puts of session 1 sent over it.
func (p *pipeline) serve(n int, value string) {
	p.t.Helper()
	p.s.LinkUp(p.now, topology.Node{Part: topology.Coordinator}, serving)
	for i := range n {
		p.startPut("k", string(rune('a'+i))+value)
	}
	p.first = p.sent(causal.KindPut)
	if len(p.first) != n {
		p.t.Fatalf("%d puts were sent, want %d", len(p.first), n)
	}
}

// firstBytes returns the first bytes of the values of puts.
func firstBytes(puts []*causal.Message) (all string) {
	for _, m := range puts {
		all += string(m.Put().Value.Data[:1])
	}
	return all
}

func TestPutsThatAreOverdueAreSentAgainToTheSameLeadershipInOrder(t *testing.T) {
	p := newPipeline(t, 1, 0)
	p.serve(3, "")
	p.accept(p.first[1])
	p.tick(overdue)
	again := p.sent(causal.KindPut)
	if values(again) != "ac" {
		t.Fatalf("%q was sent again, want ac", values(again))
	}
	for i, m := range again {
		first := p.first[2*i]
		if put, before := m.Put(), first.Put(); m.To != first.To || put.Seq != before.Seq || put.ID != before.ID ||
			put.Leadership != serving || put.Resent {
			t.Errorf("sent again to %s: %+v, was %+v", m.To, put, before)
		}
	}
	p.tick(overdue) // as long again: the time doubles
	if early := p.sent(causal.KindPut); values(early) != "" {
		t.Errorf("then %q was sent again", values(early))
	}
	p.accept(p.first[0], again[1])
	p.accept(again[0], p.first[2]) // the other answers
	p.expect(map[uint64]causal.ErrCode{1: causal.OK, 2: causal.OK, 3: causal.OK})
}

// Of these, the coordinator may not know which it has accepted.
func TestAnOverduePutIsNotSentAgainWithoutALeadership(t *testing.T) {
	p := newPipeline(t, 1, 2)
	p.tick(overdue)
	if again := p.sent(causal.KindPut); len(again) > 0 {
		t.Errorf("%q was sent again", values(again))
	}
}

func TestACoordinatorThatIsSlowGetsLittleAgain(t *testing.T) {
	p := newPipeline(t, 1, 0)
	const sessions = 200
	p.serve(0, "")
	for i := range uint64(sessions) {
		p.s.Open(10 + i)
		p.start(Op{Kind: OpPut, Session: 10 + i, Key: "k", Value: causal.Value{Data: make([]byte, 2000)}})
	}
	p.first = p.sent(causal.KindPut)
	copies := 0
	for range 40 { // four seconds
		p.tick(100 * time.Millisecond)
		copies += len(p.sent(causal.KindPut))
	}
	if copies == 0 || copies > 4*copiesPerWait/2000 {
		t.Errorf("%d puts of 2 KB were sent again, of %d that wait; allowed are %d bytes in a second", copies, sessions,
			copiesPerWait)
	}
}

func TestWhatWasAnsweredBeforeLetsTwiceAsMuchFollow(t *testing.T) {
	p := newPipeline(t, 1, 0)
	p.serve(26, strings.Repeat("v", 4000))
	p.tick(overdue)
	var rounds []int
	for again := p.sent(causal.KindPut); len(again) > 0 && len(rounds) < 20; again = p.sent(causal.KindPut) {
		if firstBytes(again) != firstBytes(p.first[:len(again)]) {
			t.Fatalf("%q was sent again, the oldest are %q", firstBytes(again), firstBytes(p.first))
		}
		rounds, p.first = append(rounds, len(again)), p.first[len(again):]
		for _, m := range again {
			p.step(causal.PutReply{ID: m.Put().ID, Session: 1, Version: ownVersion(causal.HLC(m.Put().Seq)),
				Repeated: true}.Message(m.To, m.From))
		}
		p.tick(10 * time.Millisecond)
	}
	if len(p.first) > 0 || len(rounds) < 3 || rounds[1] != 2*rounds[0] || rounds[2] < 2*rounds[1] {
		t.Errorf("%d, and %d puts were not sent again", rounds, len(p.first))
	}
}

// Those behind it wait for it: if neither has arrived, the coordinator would refuse the earlier one.
func TestALargePutIsOverdueLaterAndSoAreThoseBehindIt(t *testing.T) {
	p := newPipeline(t, 1, 0)
	p.s.LinkUp(p.now, topology.Node{Part: topology.Coordinator}, serving)
	p.startPut("k", strings.Repeat("a", 2<<20))
	p.startPut("k", "b")
	p.first = p.sent(causal.KindPut)
	p.tick(overdue)
	if early := p.sent(causal.KindPut); len(early) > 0 {
		t.Fatalf("%q was sent again", firstBytes(early))
	}
	p.tick(overdue)
	large := p.sent(causal.KindPut)
	if firstBytes(large) != "a" {
		t.Fatalf("%q was sent again, want a: it is more than the allowance", firstBytes(large))
	}
	p.accept(large...)
	p.tick(overdue / 2)
	if again := p.sent(causal.KindPut); firstBytes(again) != "b" && firstBytes(again) != "" {
		t.Errorf("then %q was sent again", firstBytes(again))
	}
}

// The queue of the link is full: the first copy is on its way, or its answer.
func TestACopyThatIsNotSentChangesNothing(t *testing.T) {
	p := newPipeline(t, 1, 0)
	p.serve(1, "")
	p.tick(overdue)
	again := p.request(causal.KindPut)
	p.s.Unsent(p.now, again)
	p.tick(10 * time.Millisecond)
	if more := p.sent(causal.KindPut); len(more) > 0 {
		t.Errorf("%q was sent at once", values(more))
	}
	p.accept(p.first[0])
	p.expect(map[uint64]causal.ErrCode{1: causal.OK})
}

func TestAPutThatWasSentTwiceOverOneLinkWaitsForItsCoordinator(t *testing.T) {
	p := newPipeline(t, 2, 0)
	p.s.LinkUp(p.now, topology.Node{Part: topology.Coordinator, Index: 1}, serving)
	p.serve(0, "")
	p.startPut("k", "a")
	p.first = p.sent(causal.KindPut)
	p.tick(overdue)
	p.sent(causal.KindPut)
	p.s.LinkEnded(p.now, p.first[0].To)
	p.tick(10 * time.Millisecond)
	if other := p.sent(causal.KindPut); len(other) > 0 {
		t.Fatalf("it went to %s", other[0].To)
	}
	p.s.LinkUp(p.now, p.first[0].To, causal.Leadership{Epoch: 3, Life: 1})
	if again := p.request(causal.KindPut); !again.Put().Resent {
		t.Errorf("sent again as %+v", again.Put())
	}
}
