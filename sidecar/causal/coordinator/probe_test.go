package coordinator

import (
	"testing"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

func at(d time.Duration) causal.Now { return causal.Now{Mono: int64(d)} }

func TestALostProbeIsForgottenOnceALaterOneIsAnswered(t *testing.T) {
	p := newProber(topology.Default(), 0)
	const far = topology.DC(3)
	p.ms[far] = 100
	p.start(at(0), far) // lost
	second := p.start(at(250*time.Millisecond), far)
	if got := p.latencies(at(340 * time.Millisecond))[far]; got != 340 {
		t.Errorf("before any answer: %v ms; want the age of the first probe, 340", got)
	}
	p.finish(at(350*time.Millisecond), far, second)
	if got := p.latencies(at(10 * time.Second))[far]; got != 100 {
		t.Errorf("after the second was answered in 100 ms: %v ms; want 100", got)
	}
}

func TestOnlyRoundTripsThatWereProbedAreShown(t *testing.T) {
	const silent, near = topology.DC(3), topology.DC(1)
	l := newLeader(DefaultConfig(topology.Default(), topology.Node{Part: topology.Coordinator}),
		causal.NewStability(topology.Default()), causal.Now{})
	shown := func() map[topology.DC]float64 {
		all := map[topology.DC]float64{}
		l.forEachRoundTrip(func(dc topology.DC, ms float64) { all[dc] = ms })
		return all
	}
	l.probeAll(at(0))
	if got := shown(); len(got) > 0 {
		t.Errorf("nobody has answered, and yet there are %v", got)
	}
	l.probe.finish(at(60*time.Millisecond), near, 2)
	l.probeAll(at(250 * time.Millisecond))
	if got := shown(); len(got) != 1 || got[near] <= 0 {
		t.Errorf("one has answered: %v", got)
	}
	l.probeAll(at(unreachableAfter))
	if got, ok := shown()[silent]; !ok || got >= 0 {
		t.Errorf("one that never answers: %v ms, %v; want unreachable", got, ok)
	}
}

func TestTheAgeOfAProbeThatWasLostIsNoRoundTrip(t *testing.T) {
	const near = topology.DC(1)
	l := newLeader(DefaultConfig(topology.Default(), topology.Node{Part: topology.Coordinator}),
		causal.NewStability(topology.Default()), causal.Now{})
	shown := func() (found float64) {
		l.forEachRoundTrip(func(dc topology.DC, ms float64) {
			if dc == near {
				found = ms
			}
		})
		return found
	}
	l.probe.ms[near] = 60
	l.probeAll(at(0))
	l.probe.finish(at(60*time.Millisecond), near, l.probe.nextID-uint64(len(l.topo.DCs))+uint64(near)+1)
	for after := probeInterval; after < unreachableAfter; after += probeInterval { // an outage begins and ends
		l.probeAll(at(after))
		if got := shown(); got != 60 {
			t.Fatalf("after %s without an answer: %v ms; want what answers took, 60", after, got)
		}
	}
	if l.latencies[near] < 2000 {
		t.Errorf("routes are chosen as if it took %v ms; want the age of the lost probe", l.latencies[near])
	}
	l.probeAll(at(unreachableAfter + probeInterval))
	if got := shown(); got >= 0 {
		t.Errorf("%v ms; want unreachable", got)
	}
}

// Who waits for a data center should not wait the longer the longer it has been silent.
func TestNodesAreToldInWhatTimeToExpectAnAnswerBesideTheAgeOfALateProbe(t *testing.T) {
	const far = topology.DC(3)
	l := newLeader(DefaultConfig(topology.Default(), topology.Node{Part: topology.Coordinator}),
		causal.NewStability(topology.Default()), causal.Now{})
	l.probe.ms[far] = 100
	l.probeAll(at(0))
	for after, want := range map[time.Duration]causal.RoundTrip{
		50 * time.Millisecond: {Ms: 100, ExpectedMs: 100}, 300 * time.Millisecond: {Ms: 300, ExpectedMs: 300},
		2 * time.Second: {Ms: 2000, ExpectedMs: maxLateMs}, unreachableAfter: {Ms: -1, ExpectedMs: 100},
	} {
		l.latencies, l.expected = l.probe.latencies(at(after)), l.probe.expected(at(after))
		m := l.allLatencies().Message(l.self, topology.Node{})
		if got := m.Latencies().RoundTrips[far]; got != want {
			t.Errorf("after %s: %+v; want %+v", after, got, want)
		}
	}
}

func TestADataCenterThatAnswersNoProbeBecomesUnreachable(t *testing.T) {
	p := newProber(topology.Default(), 0)
	const far = topology.DC(3)
	for i := range 100 {
		p.start(at(time.Duration(i)*probeInterval), far)
	}
	if got := p.latencies(at(100 * probeInterval))[far]; got >= 0 {
		t.Errorf("%v ms; want unreachable", got)
	}
	if n := len(p.pending[far]); n > maxProbes {
		t.Errorf("%d probes are remembered; the bound is %d", n, maxProbes)
	}
	p.finish(at(25*time.Second), far, p.nextID)
	if got := p.latencies(at(25 * time.Second))[far]; got < 0 {
		t.Error("it answers again, and yet counts as unreachable")
	}
}

// The first shard of a data center does not answer. The data center is there anyway if another one does.
func TestADataCenterIsReachableWhileOneOfItsShardsAnswers(t *testing.T) {
	topo, err := topology.New(1, []topology.DataCenter{{Name: "a", Coordinators: 1, Shards: 1},
		{Name: "b", Coordinators: 1, Shards: 2}},
		[]topology.Ring{{Name: "r", DCs: []topology.DC{0}}, {Name: "q", DCs: []topology.DC{1}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	self := topology.Node{Part: topology.Coordinator}
	for _, answers := range []bool{true, false} {
		l := newLeader(DefaultConfig(topo, self), causal.NewStability(topo), causal.Now{})
		for d := time.Duration(0); d < 10*time.Second; d += probeInterval {
			l.probeAll(at(d))
			for _, m := range l.Take(nil) {
				if m.Kind == causal.KindPing && m.To.Index == 1 && answers {
					pong := causal.Pong{ID: m.Ping().ID}.Message(m.To, self)
					l.step(at(d+time.Millisecond), &pong)
				}
			}
		}
		if ms := l.probe.latencies(at(10 * time.Second))[1]; (ms >= 0) != answers {
			t.Errorf("the second shard answers: %v; the round trip is %v ms", answers, ms)
		}
	}
}
