package coordinator

import (
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/operation"
	"github.com/causalstore/causalstore/topology"
)

// plusOneOn is a put that asks for a key to be counted up, with what its session has found of it elsewhere.
func plusOneOn(id uint64, found operation.Found) causal.Put {
	o := operation.Operation{Kind: operation.Add, Number: 1, Found: &found}
	return causal.Put{ID: id, Session: id, Seq: 1, Unanswered: 1, Key: "x", Value: o.Value(false)}
}

// foundFive is 5 that another data center has written, and that everything up to then includes.
func foundFive(h *harness) operation.Found {
	v := causal.Version{HLC: max(h.c.home.from, h.c.clock.Peek(h.now)), Origin: 2}
	h.show(causal.HomeRead{ID: 9, Key: "other", Shown: v}) // the ceiling is above it now
	return operation.Found{Version: v, Value: valueOf("5"), From: v.HLC}
}

func (h *harness) executed(p causal.Put) causal.PutReply {
	h.t.Helper()
	before, after := h.put(p)
	return answerTo(h.t, p.ID, append(before, after...))
}

// PROTOCOL HOO-5: the home goes on from what the session has found, if it does not know the key, and from what it knows
// that is newer.
func TestAnOperationIsExecutedOnWhatItsSessionHasFoundElsewhere(t *testing.T) {
	for _, broken := range []bool{false, true} {
		h := newHomeHarness(t, mutationIf(broken, causal.HomePrefersFound)...)
		found := foundFive(h)
		r := h.executed(plusOneOn(1, found))
		if string(r.Value.Data) != "6" || !found.Version.Less(r.Version) || r.Past != found.Version.HLC {
			t.Errorf("it answers %+v", r)
		}
		want := "7"
		if broken {
			want = "6"
		}
		if r = h.executed(plusOneOn(2, found)); string(r.Value.Data) != want {
			t.Errorf("broken %v: the second one that has found 5 answers %s, want %s", broken, r.Value.Data, want)
		}
		if broken {
			continue
		}
		if r = h.executed(plusOne(3, 3, 1, false)); string(r.Value.Data) != "8" {
			t.Errorf("the next one, which has found nothing, answers %+v", r)
		}
	}
}

// PROTOCOL HOO-5: what was found must include what the home has forgotten, or has been told that clients were shown.
func TestTheHomeRefusesAnOperationThatWasFoundTooEarly(t *testing.T) {
	for _, broken := range []bool{false, true} {
		want := causal.ErrConflict
		if broken {
			want = causal.OK
		}
		h := newHomeHarness(t, mutationIf(broken, causal.HomeTrustsFound)...)
		old := foundFive(h)
		h.c.home.noteForgotten(old.From + 1)
		if got := h.executed(plusOneOn(1, old)); got.Err != want {
			t.Errorf("broken %v: found before what was forgotten it is answered with %s", broken, got.Err)
		}
		h = newHomeHarness(t, mutationIf(broken, causal.HomeTrustsFound)...)
		found := foundFive(h)
		h.show(causal.HomeRead{ID: 1, Key: "x", Shown: causal.Version{HLC: found.Version.HLC + 1, Origin: 2}})
		if got := h.executed(plusOneOn(2, found)); got.Err != want {
			t.Errorf("broken %v: found before what was shown it is answered with %s", broken, got.Err)
		}
	}
}

// A write of this origin that the home has neither accepted nor forgotten was lost with an earlier life of it.
func TestTheHomeDoesNotGoOnFromWhatAnEarlierLifeHasLost(t *testing.T) {
	h := newHomeHarness(t)
	found := foundFive(h)
	found.Version = causal.Version{HLC: h.c.home.from + 1, Origin: h.c.origin}
	if got := h.executed(plusOneOn(1, found)); got.Err != causal.ErrConflict {
		t.Errorf("it is answered with %s", got.Err)
	}
}

// What a session has found of another data center counts as shown: also if it writes nothing.
func TestAnOperationThatWritesNothingOnWhatWasFoundIsAnsweredAtOnce(t *testing.T) {
	h := newHomeHarness(t)
	found := foundFive(h)
	o := operation.Operation{Kind: operation.Set, Conditions: operation.IfMissing, Data: []byte("6"), Found: &found}
	got := homeReplies(h.step(causal.Put{ID: 2, Session: 2, Seq: 1, Key: "x",
		Value: o.Value(false)}.Message(app, h.cfg.Self)))
	if len(got) != 1 || got[0].Record.Version != found.Version || !got[0].Complete {
		t.Fatalf("it is answered with %+v", got)
	}
	if told := h.ask(causal.HomeRead{ID: 4, Key: "x"})[0].Shown; told != found.Version {
		t.Errorf("the home has noted that %s was shown", told)
	}
	old := found
	old.Version.HLC, old.From = found.Version.HLC-1, found.Version.HLC-1
	if got := h.executed(plusOneOn(3, old)); got.Err != causal.ErrConflict {
		t.Errorf("one that has found what is older is answered with %s", got.Err)
	}
}

// A key whose tombstone was dropped is missing as of a version that no coordinator has written. The sidecar, which has
// found it, takes it back: it would cut the link for a message that must not be.
func TestAnOperationOnADroppedTombstoneIsAnsweredWithWhatASidecarAccepts(t *testing.T) {
	h := newHomeHarness(t)
	found := foundFive(h)
	missing := causal.Missing(found.Version.HLC)
	found.Version, found.Value = missing.Version, missing.Value
	o := operation.Operation{Kind: operation.Persist, Found: &found}
	answered := 0
	for _, m := range h.step(causal.Put{ID: 2, Session: 2, Seq: 1, Key: "x",
		Value: o.Value(false)}.Message(app, h.cfg.Self)) {
		if m.Kind == causal.KindHomeReply {
			answered++
		}
		if v, field := causal.Validate(&m, h.cfg.Topology); v != causal.Valid {
			t.Errorf("%s is refused for its field %s", m.Kind, field)
		}
	}
	if answered != 1 {
		t.Errorf("it is answered %d times", answered)
	}
}

func TestAnOperationIsRefusedThatNamesAWriteOfNobody(t *testing.T) {
	h := newHomeHarness(t)
	found := foundFive(h)
	found.Version.Origin = topology.Origin(h.cfg.Topology.Origins()) + 1
	if got := h.executed(plusOneOn(1, found)); got.Err != causal.ErrType {
		t.Errorf("it is answered with %s", got.Err)
	}
}

// As with reads: nothing of another data center is shown above the durable ceiling.
func TestWhatWasFoundAboveTheCeilingWaitsForIt(t *testing.T) {
	h := newHomeHarness(t)
	found := foundFive(h)
	found.Version.HLC = h.c.log.durable.Ceiling + 1
	if got := h.executed(plusOneOn(1, found)); got.Err != causal.ErrConflict {
		t.Errorf("it is answered with %s", got.Err)
	}
	found.Version.HLC = h.c.sessionLimit(h.now) + 1
	if got := h.executed(plusOneOn(2, found)); got.Err != causal.ErrClock {
		t.Errorf("far ahead of the clock it is answered with %s", got.Err)
	}
}
