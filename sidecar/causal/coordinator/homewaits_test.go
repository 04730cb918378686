package coordinator

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
)

// waitFor sends what a sidecar says of a wait, and returns what the home says.
func (h *harness) waitFor(w causal.HomeWait) string {
	return wakes(h.step(w.Message(app, h.cfg.Self)))
}

// wakes returns the ids of the waits to which some messages give a turn, and the errors of others.
func wakes(ms []causal.Message) string {
	var said []string
	for _, m := range ofKind(ms, causal.KindHomeWake) {
		switch w := m.HomeWake(); {
		case w.Err != causal.OK:
			said = append(said, fmt.Sprintf("%d: %s", w.ID, w.Err))
		case w.News != 0:
			said = append(said, fmt.Sprint(w.ID))
		}
	}
	return strings.Join(said, " ")
}

// lookedAt says that a client has found nothing after the newest that was told.
func (h *harness) lookedAt(id uint64, key string) string {
	return h.waitFor(causal.HomeWait{ID: id, Key: key, Looked: h.c.home.waiters.queues[key].news})
}

// push writes a key and returns to which waits the home gives a turn.
func (h *harness) push(seq uint64, key string) string {
	h.step(causal.Put{Seq: seq, Key: key, Value: valueOf("1")}.Message(app, h.cfg.Self))
	h.sync()
	return wakes(h.c.Take(nil))
}

func expectSaid(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: the turn is given to %q, not to %q", what, got, want)
	}
}

func TestTheFirstWhoWaitsHasTheTurn(t *testing.T) {
	h := newHomeHarness(t)
	expectSaid(t, "who comes first looks once more", h.waitFor(causal.HomeWait{ID: 1, Key: "x"}), "1")
	expectSaid(t, "the second one", h.waitFor(causal.HomeWait{ID: 2, Key: "x"}), "")
	expectSaid(t, "one that has waited for longest", h.waitFor(causal.HomeWait{ID: 3, Key: "x", AgeMs: 5000}), "3")
	expectSaid(t, "after nothing was found", h.lookedAt(3, "x"), "")
	expectSaid(t, "at a write", h.push(1, "x"), "3")
	expectSaid(t, "at a write while the first one looks", h.push(2, "x"), "")
	expectSaid(t, "at a write of another key", h.push(3, "y"), "")
	expectSaid(t, "when the first one is gone", h.waitFor(causal.HomeWait{ID: 3, Key: "x", Ended: true}), "")
	expectSaid(t, "the next one looks still", h.lookedAt(1, "x"), "")
	expectSaid(t, "when that is gone", h.waitFor(causal.HomeWait{ID: 1, Key: "x", Ended: true}), "2")
}

func TestAWriteIsToldToWhoWaits(t *testing.T) {
	for _, broken := range []bool{false, true} {
		h := newHomeHarness(t, mutationIf(broken, causal.WaitUntold)...)
		h.waitFor(causal.HomeWait{ID: 1, Key: "x"})
		h.lookedAt(1, "x")
		if told := h.push(1, "x") == "1"; told == broken {
			t.Errorf("broken %v: told is %v", broken, told)
		}
	}
}

// What is published while a client looks is told when it has looked.
func TestWhatIsPublishedMeanwhileIsTold(t *testing.T) {
	h := newHomeHarness(t)
	h.waitFor(causal.HomeWait{ID: 1, Key: "x"})
	news := h.c.home.waiters.queues["x"].news
	expectSaid(t, "while it looks", h.push(1, "x"), "")
	expectSaid(t, "when it has looked", h.waitFor(causal.HomeWait{ID: 1, Key: "x", Looked: news}), "1")
}

func TestTheTurnOfWhoIsGoneIsThatOfTheNext(t *testing.T) {
	for _, broken := range []bool{false, true} {
		h := newHomeHarness(t, mutationIf(broken, causal.WaitTurnLost)...)
		h.waitFor(causal.HomeWait{ID: 1, Key: "x"})
		h.waitFor(causal.HomeWait{ID: 2, Key: "x"})
		h.push(1, "x")
		if told := h.waitFor(causal.HomeWait{ID: 1, Key: "x", Ended: true}) == "2"; told == broken {
			t.Errorf("broken %v: told is %v", broken, told)
		}
	}
}

func TestATurnEnds(t *testing.T) {
	for _, broken := range []bool{false, true} {
		h := newHomeHarness(t, mutationIf(broken, causal.WaitTurnKept)...)
		h.waitFor(causal.HomeWait{ID: 1, Key: "x"})
		h.waitFor(causal.HomeWait{ID: 2, Key: "x"})
		if told := wakes(h.tick(waitTurn.Milliseconds())) == "2"; told == broken {
			t.Errorf("broken %v: told is %v", broken, told)
		}
		if broken {
			continue
		}
		expectSaid(t, "one that is heard of again", h.waitFor(causal.HomeWait{ID: 1, Key: "x"}), "1")
		expectSaid(t, "when both are gone", wakes(h.tick(waitKept.Milliseconds())), "")
		if h.c.home.waiters.clients() != 0 || h.c.home.waiters.quota.Held() != 0 {
			t.Error("they are kept")
		}
	}
}

// A home that has started again does not know who waits, and what was told.
func TestAfterARestartWhoWaitsIsToldAgain(t *testing.T) {
	h := newHomeHarness(t)
	h.waitFor(causal.HomeWait{ID: 1, Key: "x"})
	h.push(1, "x")
	looked := h.c.home.waiters.queues["x"].news
	h.restart(h.now)
	h.haveHomes(1)
	again := causal.HomeWait{ID: 1, Key: "x", Looked: looked}
	expectSaid(t, "after the restart", h.waitFor(again), "1")
	expectSaid(t, "what was found before it", h.waitFor(again), "")
	expectSaid(t, "after nothing was found", h.lookedAt(1, "x"), "")
	expectSaid(t, "at a write", h.push(2, "x"), "1")
}

func TestWaitsAreRefused(t *testing.T) {
	h := newHomeHarness(t)
	long := strings.Repeat("k", causal.MaxKeyBytes)
	for i := range uint64(maxWaitBytes / 4 / waitSize(long)) {
		h.waitFor(causal.HomeWait{ID: i, Key: long})
	}
	expectSaid(t, "too many", h.waitFor(causal.HomeWait{ID: 1 << 40, Key: long}), fmt.Sprintf("%d: busy", 1<<40))
	expectSaid(t, "a key that is too long", h.waitFor(causal.HomeWait{ID: 1, Key: long + "k"}), "1: too large")
	expectSaid(t, "a time that is far ahead", h.waitFor(causal.HomeWait{ID: 1, Key: "x", Looked: causal.NoLimit}),
		"1: clock")
	two := newHarnessOfHomes(t, 2)
	i := slices.IndexFunc([]string{"a", "b", "c", "d", "e", "f"}, func(key string) bool {
		return strings.Contains(two.waitFor(causal.HomeWait{ID: 1, Key: key}), "unavailable")
	})
	if i < 0 {
		t.Error("a home takes waits for keys of another one")
	}
}
