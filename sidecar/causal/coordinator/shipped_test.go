package coordinator

import (
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/operation"
	"github.com/causalstore/causalstore/sidecar/value"
)

// plusOne is a put that asks for a key to be counted up.
func plusOne(id, session, seq uint64, follows bool) causal.Put {
	o := operation.Operation{Kind: operation.Add, Number: 1}
	return causal.Put{ID: id, Session: session, Seq: seq, Unanswered: 1, Key: "x", Value: o.Value(follows)}
}

// answerTo returns the answer to the put with an id.
func answerTo(t *testing.T, id uint64, ms []causal.Message) causal.PutReply {
	t.Helper()
	for _, m := range ofKind(ms, causal.KindPutReply) {
		if r := m.PutReply(); r.ID == id {
			return r
		}
	}
	t.Fatalf("put %d is not answered by %v", id, ms)
	return causal.PutReply{}
}

// PROTOCOL HOO-1, HOO-2: operations go on from what was accepted, and are answered once the log holds the result.
func TestAnOperationIsExecutedOnTheNewestWriteThatWasAccepted(t *testing.T) {
	for name, mutation := range map[string]causal.Mutation{"": 0, "on published": causal.HomeExecutesOnPublished,
		"early": causal.HomeAnswersEarly} {
		h := newHomeHarness(t, mutationIf(name != "", mutation)...)
		h.write(causal.Put{Seq: 1, Key: "x", Value: valueOf("5")})
		before := h.step(plusOne(2, 2, 1, false).Message(app, h.cfg.Self))
		if isEarly := len(ofKind(before, causal.KindPutReply)) > 0; isEarly != (name == "early") {
			t.Errorf("%q: answered before the log holds it: %v", name, isEarly)
		}
		h.step(plusOne(3, 3, 1, false).Message(app, h.cfg.Self))
		h.sync()
		ms := h.c.Take(nil)
		got, want := string(answerTo(t, 3, ms).Value.Data), "7"
		if name == "on published" {
			want = "6"
		}
		if got != want {
			t.Errorf("%q: the second one answers %s, want %s", name, got, want)
		}
	}
}

// PROTOCOL HOO-1: the home is not certain of what it has forgotten, and of what clients were shown from elsewhere.
func TestTheHomeRefusesAnOperationIfSomethingNewerMayBeElsewhere(t *testing.T) {
	h := newHomeHarness(t)
	if got := h.refusal(plusOne(1, 2, 1, false)); got != causal.ErrConflict {
		t.Errorf("of a key that the home does not know: %s", got)
	}
	v := h.write(causal.Put{Seq: 1, Key: "x", Value: valueOf("5")})
	h.show(causal.HomeRead{ID: 1, Key: "x", Shown: causal.Version{HLC: v.HLC + 1, Origin: 2}})
	if got := h.refusal(plusOne(2, 2, 2, false)); got != causal.ErrConflict {
		t.Errorf("of a key of which something newer was shown: %s", got)
	}
}

// PROTOCOL HOO-2: one that is sent again is answered as before, and is not executed again, also after a restart.
func TestAnOperationThatIsSentAgainIsNotExecutedAgain(t *testing.T) {
	for _, broken := range []bool{false, true} {
		h := newHomeHarness(t, mutationIf(broken, causal.HomeExecutesTwice)...)
		h.write(causal.Put{Seq: 1, Key: "x", Value: valueOf("5")})
		h.put(plusOne(2, 2, 1, false))
		again := plusOne(3, 2, 1, false)
		before, after := h.put(again)
		want := "6"
		if broken {
			want = "7"
		}
		if got := answerTo(t, 3, append(before, after...)); string(got.Value.Data) != want {
			t.Errorf("broken %v: sent again it answers %q (%s), want %s", broken, got.Value.Data, got.Err, want)
		}
		if broken {
			continue
		}
		h.restart(h.now)
		h.c.Take(nil)
		again = plusOne(4, 2, 1, false)
		again.Resent, again.Leadership = true, h.cfg.Leadership
		before, after = h.put(again)
		if got := answerTo(t, 4, append(before, after...)); string(got.Value.Data) != "6" {
			t.Errorf("after a restart it answers %q (%s), want 6", got.Value.Data, got.Err)
		}
	}
}

// PROTOCOL HOO-3: what follows an operation in a pipeline does not take effect without it.
func TestAnOperationIsNotExecutedIfTheOneThatItFollowsWasNot(t *testing.T) {
	h := newHomeHarness(t)
	h.write(causal.Put{Seq: 1, Key: "x", Value: valueOf("5")})
	other := plusOne(2, 2, 1, false)
	other.Key = "unknown"
	h.step(other.Message(app, h.cfg.Self))
	if got := h.refusal(plusOne(3, 2, 2, true)); got != causal.ErrConflict {
		t.Errorf("it is answered with %s", got)
	}
	if got := h.refusal(plusOne(4, 2, 4, true)); got != causal.ErrConflict {
		t.Errorf("after one that has not arrived it is answered with %s", got)
	}
	if got := h.refusal(plusOne(5, 2, 5, false)); got != causal.OK {
		t.Errorf("one that follows nothing is answered with %s", got)
	}
}

// An operation that writes nothing is answered by what it was executed on, once that is published.
func TestAnOperationThatWritesNothingIsAnsweredOnceItsBaseIsPublished(t *testing.T) {
	h := newHomeHarness(t)
	h.step(causal.Put{ID: 1, Session: 1, Seq: 1, Key: "x", Value: valueOf("5")}.Message(app, h.cfg.Self))
	o := operation.Operation{Kind: operation.Set, Conditions: operation.IfMissing, Data: []byte("6")}
	ask := causal.Put{ID: 2, Session: 2, Seq: 1, Key: "x", Value: o.Value(false)}
	if got := h.step(ask.Message(app, h.cfg.Self)); len(got) > 0 {
		t.Errorf("before it is published: %v", got)
	}
	// published in the same step, and not what it was executed on
	h.step(plusOne(3, 3, 1, false).Message(app, h.cfg.Self))
	h.sync()
	if got := homeReplies(h.c.Take(nil)); len(got) != 1 || got[0].ID != 2 || string(got[0].Record.Value.Data) != "5" {
		t.Errorf("it is answered with %+v", got)
	}
}

// PROTOCOL HOO-4: operations that follow one another all the time let others have their turn.
func TestOperationsPauseForReadsForUpdateAndForOtherDataCenters(t *testing.T) {
	h := newHomeHarness(t)
	h.write(causal.Put{Seq: 1, Key: "x", Value: valueOf("5")})
	executed := func(id uint64) bool {
		h.step(plusOne(id, id, 1, false).Message(app, h.cfg.Self))
		for _, w := range h.c.writes {
			if w.putID == id {
				return true
			}
		}
		return false
	}
	if !executed(2) {
		t.Fatal("an operation is refused")
	}
	if got := h.ask(causal.HomeRead{ID: 7, Key: "x", ForUpdate: true}); len(got) > 0 {
		t.Fatalf("a read for update is answered while a write is under way: %v", got)
	}
	if !executed(3) {
		t.Error("an operation is refused as soon as a read for update waits")
	}
	h.now.Mono += int64(maxOvertaken) + 1
	if executed(4) {
		t.Error("an operation is executed while a read for update has waited for long")
	}
	h.sync()
	if got := homeReplies(h.c.Take(nil)); len(got) != 1 || string(got[0].Record.Value.Data) != "7" {
		t.Errorf("the read for update is answered with %+v", got)
	}
	if !executed(5) {
		t.Error("an operation is refused though nothing waits")
	}
	h.sync()
	h.now.Mono += int64(maxUncompared)
	if executed(6) {
		t.Error("operations go on from one another for longer than maxUncompared")
	}
}

// PROTOCOL HOO-2: what an operation has written is told again when it is complete and overwritten, also after a restart
// with a log that holds it.
func TestAnOperationThatIsOverwrittenIsAnsweredAgain(t *testing.T) {
	h := newHomeHarness(t)
	h.write(causal.Put{Seq: 1, Key: "x", Value: valueOf("5")})
	_, after := h.put(plusOne(2, 2, 1, false))
	v := answerTo(t, 2, after).Version
	_, after = h.put(plusOne(3, 3, 1, false))
	for _, v := range []causal.Version{v, answerTo(t, 3, after).Version} {
		h.ack(shardsA, v)
		h.ack(shardsB, v)
	}
	for _, restarted := range []bool{false, true} {
		again := plusOne(4, 2, 1, false)
		if restarted {
			h.restart(h.now)
			h.c.Take(nil)
			again.Resent, again.Leadership = true, h.cfg.Leadership
		}
		before, after := h.put(again)
		if r := answerTo(t, 4, append(before, after...)); string(r.Value.Data) != "6" || r.Version != v || !r.Repeated {
			t.Errorf("restarted %v: it is answered with %+v", restarted, r)
		}
	}
}

// PROTOCOL HOO-2: checkpoints have the outcome when the log has dropped the write.
func TestTheOutcomeOfAnOperationSurvivesTheRotationOfTheLog(t *testing.T) {
	assertOutcomeSurvives(t, newHomeHarness(t))
	h := newRowsHarness(t)
	h.tick(1500)
	assertOutcomeSurvives(t, h)
	if !h.c.home.takesMerging() {
		t.Error("the home does not accept values that merge")
	}
}

func assertOutcomeSurvives(t *testing.T, h *harness) {
	t.Helper()
	first := h.write(causal.Put{Seq: 1, Key: "x", Value: valueOf("5")})
	_, after := h.put(plusOne(2, 2, 1, false))
	v := answerTo(t, 2, after).Version
	_, after = h.put(plusOne(3, 3, 1, false))
	last := answerTo(t, 3, after).Version
	h.ack(shardsA, first, v, last)
	h.ack(shardsB, first, v, last)
	h.tick(1500) // a checkpoint
	h.truncate()
	if n := h.writes(); n != 0 {
		t.Fatalf("the log holds %d writes, all of which are complete", n)
	}
	for range 3 { // of the checkpoint, and then of one that a restarted coordinator has written
		h.restart(h.now)
		h.c.Take(nil)
		again := plusOne(4, 2, 1, false)
		again.Resent, again.Leadership = true, h.cfg.Leadership
		before, after := h.put(again)
		r := answerTo(t, 4, append(before, after...))
		if string(value.WrittenText(r.Value).Data) != "6" || r.Version != v || !r.Repeated {
			t.Errorf("it is answered with %+v", r)
		}
		h.tick(1500)
		h.truncate()
	}
}

// PROTOCOL HOO-2: the outcome is unknown if nobody has it: the operation is not executed again.
func TestAnOperationWhoseOutcomeIsTooLargeToBeKeptIsNotExecutedAgain(t *testing.T) {
	h := newHomeHarness(t)
	o := operation.Operation{Kind: operation.Append, Data: make([]byte, maxKeptOutcome), Limit: 1 << 10}
	ask := causal.Put{ID: 2, Session: 2, Seq: 1, Unanswered: 1, Key: "x", Value: o.Value(false)}
	first := h.write(causal.Put{Seq: 1, Key: "x", Value: valueOf("5")})
	_, after := h.put(ask)
	v := answerTo(t, 2, after).Version
	last := h.write(causal.Put{Seq: 2, Key: "x", Value: valueOf("7")})
	h.ack(shardsA, first, v, last)
	h.ack(shardsB, first, v, last)
	h.tick(1500)
	h.truncate()
	h.restart(h.now)
	h.c.Take(nil)
	ask.ID, ask.Resent, ask.Leadership = 4, true, h.cfg.Leadership
	before, after := h.put(ask)
	if r := answerTo(t, 4, append(before, after...)); r.Err != causal.ErrUnknown {
		t.Errorf("it is answered with %+v", r)
	}
}
