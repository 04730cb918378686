package session

import (
	"testing"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// serving is the leadership under which a coordinator returns.
var serving = causal.Leadership{Epoch: 2, Life: 5}

// comeBack breaks the link to the coordinator of the puts, brings it up again, and returns what is sent then.
func (p *pipeline) comeBack() []*causal.Message {
	p.t.Helper()
	p.s.LinkDown(p.now, p.first[0].To)
	if early := p.sent(causal.KindPut); len(early) > 0 {
		p.t.Fatalf("%q was sent while the coordinator is away", values(early))
	}
	p.s.LinkUp(p.now, p.first[0].To, serving)
	return p.sent(causal.KindPut)
}

func TestPutsInFlightAreSentAgainToTheNextLeadershipInOrder(t *testing.T) {
	p := newPipeline(t, 2, 3)
	p.accept(p.first[0])
	p.expect(map[uint64]causal.ErrCode{1: causal.OK})
	p.completeUpTo(40)
	again := p.comeBack()
	if values(again) != "bc" {
		t.Fatalf("%q was sent again, want bc", values(again))
	}
	for i, m := range again {
		before, put := p.first[i+1], m.Put()
		if m.To != before.To || put.Seq != before.Put().Seq || put.ID == before.Put().ID || put.Leadership != serving ||
			!put.Resent || put.Since != 0 || put.Unanswered != 2 {
			t.Errorf("sent again to %s: %+v", m.To, put)
		}
	}
	for _, m := range p.first[1:] {
		if _, waits := p.s.requests.byID[m.Put().ID]; waits {
			t.Errorf("the answer of the earlier leadership to put %d counts", m.Put().Seq)
		}
	}
	p.refuse(p.first[1:]...) // what the earlier leadership has answered arrives late
	p.accept(again...)
	p.expect(map[uint64]causal.ErrCode{1: causal.OK, 2: causal.OK, 3: causal.OK})
}

func TestAPutThatIsSentAgainSaysWhatWasCompleteWhenItWasFirstSent(t *testing.T) {
	p := newPipeline(t, 1, 0)
	p.completeUpTo(30)
	p.startPut("k", "a")
	p.first = p.sent(causal.KindPut)
	p.completeUpTo(40)
	if again := p.comeBack(); len(again) != 1 || again[0].Put().Since != 30 {
		t.Errorf("sent again: %+v", again)
	}
}

func TestPutsSayWhichAnswersTheSessionHas(t *testing.T) {
	p := newPipeline(t, 1, 3)
	p.accept(p.first[1])
	unanswered := func() uint64 {
		p.startPut("k", "v")
		return p.request(causal.KindPut).Put().Unanswered
	}
	if n := unanswered(); n != 1 {
		t.Errorf("with the answer to the second: %d", n)
	}
	p.accept(p.first[0])
	if n := unanswered(); n != 3 {
		t.Errorf("with the answers to the first two: %d", n)
	}
}

func TestPutsOfACoordinatorThatDoesNotReturnHaveAnUnknownOutcome(t *testing.T) {
	p := newPipeline(t, 2, 2)
	p.s.LinkDown(p.now, p.first[0].To)
	p.startPut("k", "c") // it must not overtake them
	if to := p.putOf(3).To; to == p.first[0].To {
		t.Errorf("a put of another session went to %s, whose link is down", to)
	}
	half := p.s.cfg.PutRecovery / 2
	p.tick(half)
	p.s.LinkDown(p.now, p.first[0].To) // another attempt to reach it: the time counts from the first one
	p.tick(p.s.cfg.PutRecovery - half - time.Millisecond)
	p.expect(map[uint64]causal.ErrCode{})
	if early := p.sent(causal.KindPut); len(early) > 0 {
		t.Fatalf("%q was sent while others wait", values(early))
	}
	p.tick(time.Millisecond)
	p.expect(map[uint64]causal.ErrCode{1: causal.ErrUnknown, 2: causal.ErrUnknown})
	again := p.sent(causal.KindPut)
	if values(again) != "c" || again[0].To == p.first[0].To {
		t.Fatalf("then %q was sent: %+v", values(again), again)
	}
	p.s.LinkUp(p.now, p.first[0].To, serving)
	if late := p.sent(causal.KindPut); len(late) > 0 {
		t.Errorf("%q was sent again after it was given up", values(late))
	}
}

func TestPutsThatTheNextLeadershipRefusesGoToAnotherCoordinator(t *testing.T) {
	p := newPipeline(t, 2, 2)
	again := p.comeBack()
	p.accept(again[0])
	p.refuse(again[1])
	other := p.sent(causal.KindPut)
	if values(other) != "b" || other[0].To == p.first[0].To || other[0].Put().Resent ||
		other[0].Put().Seq <= again[1].Put().Seq {
		t.Fatalf("%q went to another coordinator: %+v", values(other), other)
	}
	p.accept(other...)
	p.expect(map[uint64]causal.ErrCode{1: causal.OK, 2: causal.OK})
}

func TestAPutThatALaterOneHasOvertakenWasNotWritten(t *testing.T) {
	p := newPipeline(t, 2, 2)
	again := p.comeBack()
	p.accept(again[1])
	p.replyPut(again[0], causal.Version{}, causal.ErrStale)
	p.expect(map[uint64]causal.ErrCode{1: causal.ErrStale, 2: causal.OK})
}

// It was accepted before, perhaps: then the process that has stopped in order has not seen it again.
func TestAPutThatWasSentTwiceWaitsForItsCoordinatorEvenIfThatStopsInOrder(t *testing.T) {
	for what, stop := range map[string]func(p *pipeline, again []*causal.Message){
		"LinkEnded": func(p *pipeline, _ []*causal.Message) { p.s.LinkEnded(p.now, p.first[0].To) },
		"Unsent":    func(p *pipeline, again []*causal.Message) { p.s.Unsent(p.now, again[0]) },
	} {
		t.Run(what, func(t *testing.T) {
			p := newPipeline(t, 2, 1)
			stop(p, p.comeBack())
			if other := p.sent(causal.KindPut); len(other) > 0 {
				t.Fatalf("it went to %s", other[0].To)
			}
			p.s.LinkUp(p.now, p.first[0].To, causal.Leadership{Epoch: 3, Life: 1})
			p.accept(p.request(causal.KindPut))
			p.expect(map[uint64]causal.ErrCode{1: causal.OK})
		})
	}
}

func TestAPutThatCouldNotBeSentAgainIsTriedAgainWhileItsCoordinatorServes(t *testing.T) {
	p := newPipeline(t, 1, 1)
	p.s.Unsent(p.now, p.comeBack()[0])
	p.tick(resendPause)
	p.accept(p.request(causal.KindPut))
	p.expect(map[uint64]causal.ErrCode{1: causal.OK})
}

func TestTheQueueOfPutsInFlightStaysShort(t *testing.T) {
	r := newRig(t)
	ss := r.s.sessions[1]
	for i := range causal.HLC(10 * maxIdlePuts) {
		r.write("k", "v", ownVersion(i+1))
	}
	if n := cap(ss.pipeline.inFlight.queue); n > 4*maxIdlePuts {
		t.Errorf("room for %d puts, of which none is in flight", n)
	}
	if to := (topology.Node{Part: topology.Coordinator}); r.s.coordinators.down[to] {
		t.Errorf("%s is away", to)
	}
}
