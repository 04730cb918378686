package coordinator

import (
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
)

// PROTOCOL HOS-4: after a restart, what reads elsewhere must include is ahead of the clock. What is written elsewhere
// below that is not complete when a session reads, and complete when it writes.
func TestWhatReadsMustIncludeIsNotTakenForComplete(t *testing.T) {
	for _, broken := range []bool{false, true} {
		h := newHomeHarness(t, mutationIf(broken, causal.HomeSettlesEarly)...)
		h.tick(5_000)
		h.restart(h.now)
		h.c.Take(nil)
		read := h.top("x")
		shown := fromElsewhere(causal.HLCAt(h.now.WallMs))
		if read.From <= shown.HLC || read.Knows(shown) != broken {
			t.Fatalf("broken %v: the home says %+v", broken, read)
		}
		if broken {
			continue
		}
		put := causal.Put{Seq: 1, Key: "x", Conditional: true, From: read.From}
		if !h.c.home.isNewest(&put) {
			t.Error("a session that has read all that the home has forgotten is refused")
		}
		if got := h.show(causal.HomeRead{ID: 5, Key: "x", Shown: shown}); len(got) != 1 || !got[0].Knows(shown) {
			t.Fatalf("of what is shown the home says %+v", got)
		}
		if h.c.home.isNewest(&put) {
			t.Error("a session that has not read what was shown since is accepted")
		}
		for n := 0; h.c.home.settled < shown.HLC; n++ {
			h.completeAllElsewhere(h.now.WallMs)
			if h.tick(100); n > 50 {
				t.Fatalf("what was shown is not settled: %+v", h.top("x"))
			}
			h.top("y")
		}
		if h.c.home.isNewest(&put) {
			t.Error("it is accepted when that is settled")
		}
		now := h.top("x")
		if put.From = now.From; !now.Shown.IsZero() || !now.Knows(shown) || !h.c.home.isNewest(&put) {
			t.Errorf("then the home says %+v, and refuses who has read all of it: %v", now, !h.c.home.isNewest(&put))
		}
		if v := h.write(causal.Put{Seq: 2, Key: "x"}); v.HLC <= now.From {
			t.Errorf("a write gets %s, and reads elsewhere must include all up to %d", v, now.From)
		}
	}
}

// Clients read many keys that others have written long ago, and a sidecar that hears late of cuts tells the home of them.
func TestTheHomeKeepsNothingOfWhatIsSettled(t *testing.T) {
	h := newHomeHarness(t)
	for h.c.home.settled == 0 {
		h.completeAllElsewhere(h.now.WallMs)
		h.tick(100)
		h.top("y")
	}
	before := h.c.home.bytes
	shown := causal.HomeRead{ID: 5, Key: "x", Shown: fromElsewhere(h.c.home.settled)}
	shown.More = []causal.Moved{{Key: "z", Record: causal.Record{Version: shown.Shown}}}
	if got := h.show(shown); len(got) != 2 || h.c.home.bytes != before {
		t.Errorf("%d answers, and it takes %d bytes", len(got), h.c.home.bytes-before)
	}
}

// PROTOCOL HOS-4: the home forgets what was shown because there is no room for it.
func TestWhatWasShownIsForgottenBehindWhatReadsMustInclude(t *testing.T) {
	h := newHarness(t, 1, 0)
	h.cfg.Home, h.cfg.MaxBytes = true, 16<<10
	h.tick(5_000)
	h.restart(h.now)
	h.haveHomes(1)
	read := h.top("x")
	shown := fromElsewhere(causal.HLCAt(h.now.WallMs))
	h.show(causal.HomeRead{ID: 5, Key: "x", Shown: shown})
	for i := range 100 {
		h.show(causal.HomeRead{ID: uint64(10 + i), Key: string(rune('a' + i)), Shown: fromElsewhere(shown.HLC + 1)})
	}
	now := h.top("x")
	if !now.Shown.IsZero() || now.From <= read.From {
		t.Fatalf("the home says %+v, and %+v before", now, read)
	}
	put := causal.Put{Seq: 1, Key: "x", Conditional: true, From: read.From}
	if h.c.home.isNewest(&put) {
		t.Error("a session that has not read what was shown is accepted")
	}
	if put.From = now.From; !h.c.home.isNewest(&put) {
		t.Error("one that has read all that is forgotten is refused")
	}
}
