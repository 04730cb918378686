package session

import (
	"testing"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
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

// The session changes its coordinator only when the outcome of every put in flight is known, or the later one could take effect without the earlier.
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
