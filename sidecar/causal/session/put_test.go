package session

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// pipeline is a session with puts in flight.
type pipeline struct {
	*rig
	first []*causal.Message // the puts as they were sent at first
}

// newPipeline starts n puts with values a, b, c, ... in a data center with that many coordinators, which is the only
// one.
func newPipeline(t *testing.T, coordinators, n int) *pipeline {
	t.Helper()
	dcs, rings := []topology.DataCenter{{Name: "a", Coordinators: coordinators, Shards: 1}},
		[]topology.Ring{{Name: "r", DCs: []topology.DC{0}}}
	topo, err := topology.New(1, dcs, rings, nil)
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, topo: topo, s: New(DefaultConfig(topo, topology.Node{Part: topology.Sidecar, Index: 1})),
		results: map[uint64]Result{}}
	r.s.Open(1)
	for i := range n {
		r.startPut("k", string(rune('a'+i)))
	}
	return &pipeline{r, r.sent(causal.KindPut)}
}

// accept answers puts with ascending versions.
func (p *pipeline) accept(puts ...*causal.Message) {
	for _, m := range puts {
		p.replyPut(m, causal.Version{HLC: causal.HLC(m.Put().Seq), Origin: topology.Origin(m.To.Index + 1)}, causal.OK)
	}
}

func (p *pipeline) refuse(puts ...*causal.Message) {
	for _, m := range puts {
		p.replyPut(m, causal.Version{}, causal.ErrUnavailable)
	}
}

// expect compares the errors of all finished operations, by their ids.
func (p *pipeline) expect(want map[uint64]causal.ErrCode) {
	p.t.Helper()
	p.result(0)
	got := map[uint64]causal.ErrCode{}
	for id, r := range p.results {
		got[id] = r.Err
	}
	if d := cmp.Diff(want, got); d != "" {
		p.t.Error("errors by operation (-want +got):\n" + d)
	}
}

func values(puts []*causal.Message) (all string) {
	for _, m := range puts {
		all += string(m.Put().Value.Data)
	}
	return all
}

func TestAPutDependsOnTheReadsSinceTheLastPutAndOnThatPut(t *testing.T) {
	r := newRig(t)
	deps := func() []causal.Dep {
		r.startPut("k", "v")
		m := r.request(causal.KindPut)
		r.replyPut(m, ownVersion(m.Put().Floor+1), causal.OK)
		return m.Put().Deps
	}
	expect := func(what string, want ...causal.Dep) {
		t.Helper()
		if d := cmp.Diff(want, deps()); d != "" {
			t.Errorf("%s (-want +got):\n%s", what, d)
		}
	}
	slot := topology.SlotOf("k")
	expect("the first put depends on nothing")
	expect("the second put depends on the first", causal.Dep{Version: ownVersion(1), Slot: slot})
	r.read("x", version(10), causal.InFlight, near)
	expect("after an in-flight read", causal.Dep{Version: version(10), Slot: topology.SlotOf("x")},
		causal.Dep{Version: ownVersion(2), Slot: slot})
	expect("the next put names the read through the put before it", causal.Dep{Version: ownVersion(11), Slot: slot})
	r.complete(ownVersion(12))
	expect("when the newest put is complete")
}

func TestAPutIsAboveEverythingThatTheSessionHasSeen(t *testing.T) {
	r := newRig(t)
	r.read("x", version(30), causal.Stable, near)
	r.startPut("k", "v")
	if f := r.request(causal.KindPut).Put().Floor; f != 30 {
		t.Errorf("floor %d, want 30", f)
	}
}

func TestPutErrors(t *testing.T) {
	for _, tt := range []struct{ reply, result causal.ErrCode }{
		{causal.ErrBusy, causal.ErrBusy},
		{causal.ErrClock, causal.ErrClock},
		{causal.ErrStale, causal.ErrUnknown}, // without a leadership it may have been accepted
		{causal.ErrUnknown, causal.ErrUnknown},
	} {
		p := newPipeline(t, 1, 1)
		p.replyPut(p.first[0], causal.Version{}, tt.reply)
		p.expect(map[uint64]causal.ErrCode{1: tt.result})
	}
}

func TestAPutThatIsNotAnsweredInTimeHasAnUnknownOutcome(t *testing.T) {
	p := newPipeline(t, 2, 2)
	p.tick(5 * time.Second)
	p.expect(map[uint64]causal.ErrCode{1: causal.ErrUnknown, 2: causal.ErrUnknown})
	p.accept(p.first...) // too late
	p.expect(map[uint64]causal.ErrCode{1: causal.ErrUnknown, 2: causal.ErrUnknown})
	p.startPut("k", "c")
	if to := p.request(causal.KindPut).To; to == p.first[0].To {
		t.Errorf("the next put went to %s, which does not answer", to)
	}
}

func TestRefusedPutsGoToAnotherCoordinatorInOrder(t *testing.T) {
	p := newPipeline(t, 2, 3)
	for _, i := range []int{1, 2, 0} { // replies may overtake each other
		if early := p.sent(causal.KindPut); len(early) > 0 {
			t.Fatalf("%q went to another coordinator while other puts were in flight", values(early))
		}
		p.refuse(p.first[i])
	}
	again := p.sent(causal.KindPut)
	if values(again) != "abc" {
		t.Fatalf("%q went to another coordinator, want abc", values(again))
	}
	for _, m := range again {
		if m.To == p.first[0].To || m.Put().Seq <= p.first[2].Put().Seq {
			t.Errorf("%s was sent to %s as put %d; it was refused by %s, and the last put was %d", m.Put().Value.Data,
				m.To, m.Put().Seq,
				p.first[0].To, p.first[2].Put().Seq)
		}
	}
	p.accept(again...)
	p.expect(map[uint64]causal.ErrCode{1: causal.OK, 2: causal.OK, 3: causal.OK})
}

// The coordinator came into use between the puts. Sent again, the refused put would take effect after one that was
// issued later.
func TestAPutThatWasRefusedFailsIfALaterOneWasAccepted(t *testing.T) {
	p := newPipeline(t, 2, 3)
	p.refuse(p.first[0], p.first[2])
	p.accept(p.first[1])
	again := p.sent(causal.KindPut)
	if values(again) != "c" {
		t.Fatalf("%q went to another coordinator, want c alone", values(again))
	}
	p.accept(again...)
	p.expect(map[uint64]causal.ErrCode{1: causal.ErrUnavailable, 2: causal.OK, 3: causal.OK})
}

func TestPutsWaitUntilACoordinatorCanBeUsed(t *testing.T) {
	p := newPipeline(t, 1, 2)
	p.refuse(p.first...)
	if again := p.sent(causal.KindPut); len(again) > 0 {
		t.Errorf("%q went to %s, which has refused", values(again), again[0].To)
	}
	p.expect(map[uint64]causal.ErrCode{})
	p.tick(refusalSuspicion)
	again := p.sent(causal.KindPut)
	if values(again) != "ab" {
		t.Fatalf("%q was sent again", values(again))
	}
	p.accept(again...)
	p.expect(map[uint64]causal.ErrCode{1: causal.OK, 2: causal.OK})
}

func TestPutsThatNoCoordinatorTakesFailAtTheirDeadline(t *testing.T) {
	p := newPipeline(t, 1, 2)
	for again := p.first; len(p.results) == 0; again = p.sent(causal.KindPut) {
		p.refuse(again...)
		p.tick(refusalSuspicion)
		p.result(0)
	}
	p.expect(map[uint64]causal.ErrCode{1: causal.ErrUnavailable, 2: causal.ErrUnavailable})
}

func TestPutsThatWereNotSentGoToAnotherCoordinator(t *testing.T) {
	p := newPipeline(t, 2, 2)
	for i := range p.first {
		p.s.Unsent(p.now, p.first[i])
	}
	p.s.LinkDown(p.now, p.first[0].To)
	again := p.sent(causal.KindPut)
	if values(again) != "ab" || again[0].To == p.first[0].To {
		t.Fatalf("%q went to another coordinator: %+v", values(again), again)
	}
	p.accept(p.first[0]) // a reply to a request that was given up
	p.s.Unsent(p.now, p.first[0])
	p.accept(again...)
	p.expect(map[uint64]causal.ErrCode{1: causal.OK, 2: causal.OK})
}

func TestPutsToACoordinatorThatHasStoppedInOrderGoToAnother(t *testing.T) {
	p := newPipeline(t, 2, 3)
	p.accept(p.first[0])
	p.s.LinkEnded(p.now, p.first[0].To)
	again := p.sent(causal.KindPut)
	if values(again) != "bc" || again[0].To == p.first[0].To {
		t.Fatalf("%q went to another coordinator: %+v", values(again), again)
	}
	p.accept(again...)
	p.expect(map[uint64]causal.ErrCode{1: causal.OK, 2: causal.OK, 3: causal.OK})
	p = newPipeline(t, 1, 2)
	p.s.LinkEnded(p.now, p.first[0].To)
	p.s.LinkUp(p.now, p.first[0].To, causal.Leadership{})
	p.tick(0)
	again = p.sent(causal.KindPut)
	if values(again) != "ab" {
		t.Fatalf("%q went to the coordinator that serves again, want ab", values(again))
	}
}

func TestAPutThatWasNotSentKeepsItsPlaceInTheSession(t *testing.T) {
	p := newPipeline(t, 2, 2)
	p.s.Unsent(p.now, p.first[1])
	if again := p.sent(causal.KindPut); len(again) > 0 {
		t.Fatalf("%q went to another coordinator before the put before it has its answer", values(again))
	}
	p.accept(p.first[0])
	again := p.sent(causal.KindPut)
	if values(again) != "b" {
		t.Fatalf("%q went to another coordinator, want b", values(again))
	}
	p.accept(again...)
	p.expect(map[uint64]causal.ErrCode{1: causal.OK, 2: causal.OK})
}

func TestACoordinatorIsUsedAgainAsSoonAsItCanBeReached(t *testing.T) {
	p := newPipeline(t, 2, 1)
	node := p.first[0].To
	p.accept(p.first...)
	p.s.LinkDown(p.now, node)
	put := func() topology.Node {
		p.startPut("k", "v")
		m := p.request(causal.KindPut)
		p.accept(m)
		return m.To
	}
	if to := put(); to == node {
		t.Errorf("a put went to %s, whose link is down", to)
	}
	p.s.LinkUp(p.now, node, causal.Leadership{})
	if to := put(); to != node {
		t.Errorf("a put went to %s, though %s can be reached again", to, node)
	}
}

func TestPutsGoToCoordinatorsThatAreInUseOrToTheNearestDataCenter(t *testing.T) {
	r := newRig(t)
	put := func() topology.Node {
		r.startPut("k", "v")
		m := r.request(causal.KindPut)
		r.replyPut(m, ownVersion(m.Put().Floor+1), causal.OK)
		return m.To
	}
	for i := range uint64(2) {
		r.step(causal.Vectors{InUse: 1 << i}.Message(r.topo.Leader(0), r.s.cfg.Self))
		if to, want := put(), (topology.Node{Part: topology.Coordinator, Index: i}); to != want {
			t.Errorf("a put went to %s, but only %s is in use", to, want)
		}
	}
	r.s.LinkDown(r.now, topology.Node{Part: topology.Coordinator, Index: 1})
	if to, want := put(), (topology.Node{DC: 1, Part: topology.Coordinator}); to != want {
		t.Errorf("a put went to %s, want %s of the nearest data center", to, want)
	}
}

func TestTheCoordinatorStaysTheSameWhilePutsAreInFlight(t *testing.T) {
	p := newPipeline(t, 2, 1)
	p.s.coordinators.suspectUntil[p.first[0].To] = 1e18
	p.startPut("k", "b")
	second := p.request(causal.KindPut)
	if second.To != p.first[0].To {
		t.Fatalf("puts in flight went to %s and %s", p.first[0].To, second.To)
	}
	p.accept(p.first[0], second)
	p.startPut("k", "c")
	if to := p.request(causal.KindPut).To; to == p.first[0].To {
		t.Errorf("a put went to %s, which does not answer", to)
	}
}

func TestAPutThatIsTooLargeIsNotSent(t *testing.T) {
	p := newPipeline(t, 1, 1)
	key := p.startPut(strings.Repeat("k", causal.MaxKeyBytes+1), "v")
	value := p.startPut("k", strings.Repeat("v", causal.MaxValueBytes+1))
	p.expect(map[uint64]causal.ErrCode{key: causal.ErrTooLarge, value: causal.ErrTooLarge})
	greatest := p.startPut(strings.Repeat("k", causal.MaxKeyBytes), strings.Repeat("v", causal.MaxValueBytes))
	sent := p.sent(causal.KindPut)
	if len(sent) != 1 || !sent[0].FitsMessage() {
		t.Fatalf("%d puts are sent", len(sent))
	}
	p.accept(p.first[0], sent[0])
	p.expect(map[uint64]causal.ErrCode{1: causal.OK, key: causal.ErrTooLarge, value: causal.ErrTooLarge,
		greatest: causal.OK})
}
