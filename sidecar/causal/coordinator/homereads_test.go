package coordinator

import (
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
)

// PROTOCOL HOS-2: the commit has not seen what is shown, and whoever is shown it may see what the commit has put as it
// was before.
func TestWhatIsShownWaitsForACommitThatHasReadIt(t *testing.T) {
	for _, broken := range []bool{false, true} {
		h := newHomeHarness(t, mutationIf(broken, causal.CommitReadsUnheld)...)
		h.tick(5_000) // it has a durable ceiling
		v := h.write(causal.Put{Seq: 1, Key: "x", Value: valueOf("1")})
		shown := h.c.clock.Peek(h.now) + 1
		commit := causal.HomeCommit{ID: 9, Seq: 2, Keys: append(puts("2", "y"), read("x", v), read("z", causal.Version{}))}
		h.step(commit.Message(app, h.cfg.Self))
		if got := h.ask(causal.HomeRead{ID: 5, Key: "y0", Shown: fromElsewhere(shown)}); len(got) != 1 {
			t.Errorf("what is shown of another key is answered with %+v", got)
		}
		if got := h.ask(causal.HomeRead{ID: 6, Key: "x", ForUpdate: true}); len(got) != 1 {
			t.Errorf("a read for update of a key that is not written is answered with %+v", got)
		}
		for i, r := range []causal.HomeRead{{Key: "x", Shown: fromElsewhere(shown)}, {Key: "z", Shown: fromElsewhere(shown)},
			{Key: "y0", More: []causal.Moved{{Key: "x", Record: causal.Record{Version: causal.Version{HLC: shown + 1,
				Origin: originB}}}}}} {
			r.ID = uint64(10 * (i + 1))
			if waits := len(h.ask(r)) == 0; waits == broken {
				t.Errorf("broken %v: %+v waits: %v", broken, r, waits)
			}
		}
		h.sync()
		if got := homeReplies(h.c.Take(nil)); len(got) != 4 && !broken {
			t.Errorf("when the log holds the commit they are answered with %+v", got)
		}
		if got := h.ask(causal.HomeRead{ID: 50, Key: "x", Shown: fromElsewhere(shown + 2)}); len(got) != 1 {
			t.Errorf("afterwards what is shown is answered with %+v", got)
		}
	}
}

func TestTheHomeForgetsWhatACommitHasRead(t *testing.T) {
	h := newHomeHarness(t)
	last := h.commit(causal.HomeCommit{Seq: 1, Keys: append(puts("1", "x"), read("z", causal.Version{}))}).Version
	h.forgetAll(last)
	if n := len(h.c.home.keys); n > 0 {
		t.Errorf("it keeps %d keys", n)
	}
}
