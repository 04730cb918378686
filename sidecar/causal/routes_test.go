package causal

import (
	"testing"
	"time"

	"github.com/causalstore/causalstore/sidecar/topology"
)

func at(d time.Duration) Now { return Now{Mono: int64(d)} }

func TestALostProbeIsForgottenOnceALaterOneIsAnswered(t *testing.T) {
	p := newProber(topology.Default(), 0)
	const far = topology.DC(3)
	p.ms[far] = 100
	p.ping(at(0), far) // lost
	second := p.ping(at(250*time.Millisecond), far)
	if got := p.latencies(at(340 * time.Millisecond))[far]; got != 340 {
		t.Errorf("before any answer: %v ms; want the age of the first probe, 340", got)
	}
	p.pong(at(350*time.Millisecond), &Message{From: topology.Node{DC: far}, ID: second})
	if got := p.latencies(at(10 * time.Second))[far]; got != 100 {
		t.Errorf("after the second was answered in 100 ms: %v ms; want 100", got)
	}
}

func TestADataCentreThatAnswersNoProbeBecomesUnreachable(t *testing.T) {
	p := newProber(topology.Default(), 0)
	const far = topology.DC(3)
	for i := range 100 {
		p.ping(at(time.Duration(i)*probeEvery), far)
	}
	if got := p.latencies(at(100 * probeEvery))[far]; got >= 0 {
		t.Errorf("%v ms; want unreachable", got)
	}
	if n := len(p.sent[far]); n > maxProbes {
		t.Errorf("%d probes are remembered; the bound is %d", n, maxProbes)
	}
	p.pong(at(25*time.Second), &Message{From: topology.Node{DC: far}, ID: p.next})
	if got := p.latencies(at(25 * time.Second))[far]; got < 0 {
		t.Error("it answers again, and yet counts as unreachable")
	}
}
