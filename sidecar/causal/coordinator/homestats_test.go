package coordinator

import (
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
)

func TestAHomeCountsWhatItDoes(t *testing.T) {
	h := newHomeHarness(t)
	v := h.write(causal.Put{ID: 1, Seq: 1, Key: "x", Value: valueOf("1")})
	h.top("x")
	h.top("y")
	h.ask(causal.HomeRead{ID: 5, Key: "x", Seen: causal.HLCAt(1 << 40)})
	h.refusal(causal.Put{ID: 2, Seq: 2, Key: "x", Value: valueOf("2"), Conditional: true})
	h.step(causal.Put{ID: 3, Seq: 3, Key: "x", Value: valueOf("3")}.Message(app, h.cfg.Self))
	h.ask(causal.HomeRead{ID: 6, Key: "x", ForUpdate: true})
	s, is := h.c.Home()
	bytes := s.Bytes
	s.Bytes, s.AheadMs = 0, 0
	want := HomeStats{Answered: 1, Elsewhere: 1, Refused: 1, Waited: 1, Waiting: 1, Conflicts: 1, Keys: 1}
	if s != want || !is || bytes <= 0 {
		t.Errorf("counted %+v, %d bytes; want %+v", s, bytes, want)
	}
	h.sync()
	if s, _ = h.c.Home(); s.Waiting != 0 || s.Answered != 2 {
		t.Errorf("after the write that a read waited for: %+v", s)
	}
	h.c.home.from = v.HLC + causal.HLCAt(1500)
	if s, _ = h.c.Home(); s.AheadMs < 1500 {
		t.Errorf("from is %d ms above the cut", s.AheadMs)
	}
	if _, is := newHarness(t, 1, 0).c.Home(); is {
		t.Error("a coordinator of a store without homes says that it is one")
	}
}
