package session

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// turns returns whose turn it is since the last call: "told 1", "looks 1", or with an error.
func (r *rig) turns() string {
	var all []string
	for _, t := range r.s.TakeTurns(nil) {
		what := "looks"
		switch {
		case t.Err != causal.OK:
			what = t.Err.String()
		case t.Told:
			what = "told"
		}
		all = append(all, fmt.Sprint(what, " ", t.ID))
	}
	return strings.Join(all, ", ")
}

func (r *rig) expectTurns(what, want string) {
	r.t.Helper()
	if got := r.turns(); got != want {
		r.t.Errorf("%s: %q, want %q", what, got, want)
	}
}

// expectWaits checks what homes are told since the last call: the keys, with ! for those that are waited for no more,
// and what was looked after.
func (r *rig) expectWaits(what, want string) {
	r.t.Helper()
	var all []string
	for _, m := range r.sent(causal.KindHomeWait) {
		w := m.HomeWait()
		one := w.Key
		if w.Looked != 0 {
			one += fmt.Sprint("@", uint64(w.Looked))
		}
		if w.Ended {
			one += "!"
		}
		all = append(all, one)
	}
	if got := strings.Join(all, " "); got != want {
		r.t.Errorf("%s: the home is told %q, want %q", what, got, want)
	}
}

func (r *rig) wake(w causal.HomeWake) {
	r.step(w.Message(r.s.homeOf(topology.SlotOf(w.Key)), r.s.cfg.Self))
}

func TestAClientIsToldWhatItsHomeTells(t *testing.T) {
	r := newRig(t, localReads)
	r.s.Await(r.now, 1, []string{"y", "x", "y"}, true)
	r.expectWaits("at first", "x y")
	r.wake(causal.HomeWake{ID: 1, Key: "x"})
	r.wake(causal.HomeWake{ID: 1, Key: "y"})
	r.expectTurns("while there is nothing", "")
	r.wake(causal.HomeWake{ID: 1, Key: "x", News: 7})
	r.expectTurns("when it is told", "told 1")
	r.wake(causal.HomeWake{ID: 1, Key: "y", News: 8})
	r.expectTurns("while it looks", "")
	r.s.Looked(r.now, 1, false)
	r.expectWaits("when it has looked", "x@7")
	r.expectTurns("since it was told more", "told 1")
	r.s.Looked(r.now, 1, false)
	r.expectWaits("when it has looked again", "y@8")
	r.expectTurns("then", "")
	r.s.EndAwait(r.now, 1)
	r.expectWaits("at the end", "x! y!")
	r.wake(causal.HomeWake{ID: 1, Key: "x", News: 9})
	r.expectWaits("if it is told afterwards", "x!")
	if r.s.Awaiting() != 0 {
		t.Error("it waits")
	}
}

func TestAWaitIsRenewed(t *testing.T) {
	showsFault(t, causal.WaitNotRenewed, func(r *rig) string {
		r.s.Await(r.now, 1, []string{"x"}, true)
		r.wake(causal.HomeWake{ID: 1, Key: "x"})
		r.sent(causal.KindHomeWait)
		r.tick(causal.WaitRenewal)
		if ms := r.sent(causal.KindHomeWait); len(ms) != 1 || ms[0].HomeWait().AgeMs != 2000 {
			return "not after a while"
		}
		r.s.LinkUp(r.now, r.s.homeOf(topology.SlotOf("x")), causal.Leadership{})
		r.tick(time.Millisecond)
		if len(r.sent(causal.KindHomeWait)) != 1 {
			return "not when the home has started again"
		}
		return ""
	}, localReads)
}

func TestWhoIsNotToldLooks(t *testing.T) {
	r := newRig(t, localReads)
	r.s.Await(r.now, 1, []string{"x"}, true)
	r.tick(lookInterval)
	r.expectTurns("while the home has not answered", "looks 1")
	r.s.Looked(r.now, 1, false)
	r.wake(causal.HomeWake{ID: 1, Key: "x"})
	r.tick(lookInterval)
	r.expectTurns("when it has", "")
	r.wake(causal.HomeWake{ID: 1, Key: "x", News: 5})
	r.expectTurns("when it is the first one", "told 1")
	r.s.Looked(r.now, 1, true)
	r.tick(lookInterval)
	r.expectTurns("after it could not look", "told 1")
	r.s.Looked(r.now, 1, false)
	r.tick(lookInterval)
	r.expectTurns("for what other data centers write", "looks 1")
	r.s.Looked(r.now, 1, false)
	r.s.EndAwait(r.now, 1)

	r.s.Await(r.now, 2, []string{"x"}, false)
	r.sent(causal.KindHomeWait)
	r.tick(lookInterval)
	r.expectTurns("of a session that does not ask homes", "looks 2")
	r.expectWaits("of that", "")
}

func TestAWaitThatIsRefusedEnds(t *testing.T) {
	r := newRig(t, localReads)
	r.s.Await(r.now, 1, []string{"x"}, true)
	r.wake(causal.HomeWake{ID: 1, Key: "x", Err: causal.ErrUnavailable})
	r.expectTurns("while the home does not serve", "")
	r.wake(causal.HomeWake{ID: 1, Key: "x", Err: causal.ErrBusy})
	r.expectTurns("without room", "busy 1")
}
