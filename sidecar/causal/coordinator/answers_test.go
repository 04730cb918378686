package coordinator

import (
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
)

// again sends a put again, and returns the answer.
func (h *harness) again(p causal.Put) causal.PutReply {
	h.t.Helper()
	p.ID, p.Resent = p.ID+100, true
	before, after := h.put(p)
	r := reply(h.t, append(before, after...))
	if r.ID != p.ID {
		h.t.Errorf("the answer is to request %d, not %d", r.ID, p.ID)
	}
	return r
}

// accepted sends a put, and returns the version that it gets.
func (h *harness) accepted(p causal.Put) causal.Version {
	h.t.Helper()
	_, after := h.put(p)
	r := reply(h.t, after)
	if r.Err != causal.OK {
		h.t.Fatalf("put %d of session %d is answered %s", p.Seq, p.Session, r.Err)
	}
	return r.Version
}

// truncate drops what the log need not hold.
func (h *harness) truncate() {
	first := h.index + 1 - uint64(len(h.log))
	if before := h.c.TruncateBefore(); before > first {
		h.log = h.log[before-first:]
	}
}

// writes counts the writes in the log.
func (h *harness) writes() (n int) {
	for i := range h.log {
		if h.log[i].Checkpoint == nil {
			n++
		}
	}
	return n
}

func TestAPutThatIsSentAgainIsAnsweredWithItsVersionAndNotWrittenAgain(t *testing.T) {
	h := newHarness(t, 1, 0)
	h.tick(10)
	p := causal.Put{ID: 1, Session: 1, Seq: 1, Key: "k"}
	h.step(p.Message(app, h.cfg.Self))
	twice := p
	twice.ID, twice.Resent = 2, true
	if early := h.step(twice.Message(app, h.cfg.Self)); len(ofKind(early, causal.KindPutReply)) > 0 {
		t.Error("answered before it is durable")
	}
	h.sync()
	r := reply(t, h.c.Take(nil))
	if r.ID != 2 || r.Err != causal.OK {
		t.Fatalf("then answered %+v", r)
	}
	v := r.Version
	check := func(when string) {
		t.Helper()
		if r := h.again(p); r.Err != causal.OK || r.Version != v {
			t.Errorf("%s: answered %s, %s; it was accepted as %s", when, r.Err, r.Version, v)
		}
	}
	check("durable")
	h.restart(h.now)
	check("restarted")
	h.ack(shardsA, v)
	h.ack(shardsB, v)
	h.tick(10)
	check("complete")
	h.restart(h.now)
	check("complete, restarted")
	h.tick(10)
	h.ack(shardsA, v) // the restart has sent it again
	h.ack(shardsB, v)
	h.tick(1500) // a checkpoint
	h.truncate()
	if n := h.writes(); n != 0 {
		t.Fatalf("the log holds %d writes, all of which are complete", n)
	}
	check("truncated")
	h.restart(h.now)
	check("truncated, restarted")
}

// Else x1 would be written again, above x3.
func TestAPutIsNotWrittenAgainWhenItIsNotKnownAnyMoreWhetherItWas(t *testing.T) {
	h := newHarness(t, 1, 0)
	h.tick(10)
	p := causal.Put{ID: 1, Session: 1, Seq: 1, Key: "k"}
	v := h.accepted(p)
	h.ack(shardsA, v)
	h.ack(shardsB, v)
	for range 12 {
		h.tick(1000)
		h.truncate()
	}
	if r := h.again(p); r.Err != causal.ErrUnknown {
		t.Errorf("answered %s", r.Err)
	}
	before, after := h.put(p)
	if r := reply(t, append(before, after...)); r.Err != causal.ErrUnknown {
		t.Errorf("a copy that the network has delayed is answered %s", r.Err)
	}
	h.restart(h.now)
	if r := h.again(p); r.Err != causal.ErrUnknown {
		t.Errorf("after a restart: answered %s", r.Err)
	}
	h.tick(10)
	other := causal.Put{ID: 2, Session: 2, Seq: 1, Key: "k", Since: v.HLC}
	if r := h.again(other); r.Err != causal.OK || r.Version.HLC <= v.HLC {
		t.Errorf("a put that was first sent later: answered %+v", r)
	}
	h.accepted(causal.Put{ID: 3, Session: 3, Seq: 1, Key: "k"})
}

func TestAPutIsNotAcceptedAfterALaterOneOfItsSession(t *testing.T) {
	h := newHarness(t, 1, 0)
	h.tick(10)
	fifth, sixth := causal.Put{ID: 5, Session: 1, Seq: 5, Unanswered: 5, Key: "k"},
		causal.Put{ID: 6, Session: 1, Seq: 6, Unanswered: 5, Key: "k"}
	v := h.accepted(sixth)
	for _, when := range []string{"before", "after"} {
		if r := h.again(fifth); r.Err != causal.ErrStale {
			t.Errorf("%s a restart: put 5 is answered %s", when, r.Err)
		}
		if r := h.again(sixth); r.Version != v {
			t.Errorf("%s a restart: put 6 has the version %s, was %s", when, r.Version, v)
		}
		h.restart(h.now)
	}
	if n := h.writes(); n != 1 {
		t.Errorf("%d puts were written", n)
	}
}

// Its client was told that it failed. A copy that comes when there is room would be written though nobody expects it
// any more.
func TestACopyOfAPutThatWasRefusedIsNotAccepted(t *testing.T) {
	h := newHarness(t, 1, 0)
	h.tick(10)
	h.accepted(causal.Put{ID: 1, Session: 1, Seq: 1, Key: "k"})
	p := causal.Put{ID: 2, Session: 1, Seq: 2, Key: "k"}
	h.c.SetLogFull(true)
	if r := reply(t, h.step(p.Message(app, h.cfg.Self))); r.Err != causal.ErrBusy {
		t.Fatalf("with a full log it is answered %s", r.Err)
	}
	h.c.SetLogFull(false)
	if before, after := h.put(p); reply(t, append(before, after...)).Err != causal.ErrStale || h.writes() != 1 {
		t.Errorf("the copy is answered %s, and %d puts were written", reply(t, append(before, after...)).Err,
			h.writes())
	}
	h.accepted(causal.Put{ID: 3, Session: 1, Seq: 3, Key: "k"})
}

// The session has sent it elsewhere since, or again to the leadership that serves now.
func TestAPutForAnotherLeadershipIsIgnored(t *testing.T) {
	for _, broken := range []bool{false, true} {
		h := newHarness(t, 1, 0, mutationIf(broken, causal.AnyLeadership)...)
		h.cfg.Leadership = causal.Leadership{Epoch: 3, Life: 7}
		h.restart(h.now)
		h.tick(10)
		for _, l := range []causal.Leadership{{}, {Epoch: 3, Life: 6}, {Epoch: 2, Life: 7}, {Epoch: 3, Life: 8}} {
			before, after := h.put(causal.Put{ID: 1, Session: l.Epoch<<8 + l.Life, Leadership: l, Seq: 1, Key: "k"})
			if answered := len(append(before, ofKind(after, causal.KindPutReply)...)) > 0; answered != broken {
				t.Errorf("any-leadership %v: a put for %v is answered: %v", broken, l, answered)
			}
		}
		h.accepted(causal.Put{ID: 1, Session: 1, Leadership: h.cfg.Leadership, Seq: 1, Key: "k"})
	}
}

func TestAnAnswerThatTheSessionHasIsNotKept(t *testing.T) {
	h := newHarness(t, 1, 0)
	h.tick(10)
	for seq := uint64(1); seq <= 20; seq++ {
		h.accepted(causal.Put{ID: seq, Session: 1, Seq: seq, Unanswered: max(seq, 3) - 2, Key: "k"})
	}
	kept := func() int { return len(h.c.sessions[sessionKey{app, 1}].accepted) }
	if n := kept(); n != 3 {
		t.Errorf("%d answers are kept, of which 18 to 20 may be asked for", n)
	}
	h.restart(h.now)
	if n := kept(); n != 3 {
		t.Errorf("after a restart: %d answers are kept", n)
	}
}

func TestACheckpointHoldsABoundedNumberOfAnswersTheNewest(t *testing.T) {
	h := newHarness(t, 1, 0)
	h.tick(10)
	const more = 10
	first := causal.Put{ID: 1, Session: 1, Seq: 1, Key: "k"}
	oldest := h.accepted(first)
	for s := uint64(2); s <= maxAnswers+more; s++ {
		p := causal.Put{ID: s, Session: s, Seq: 1, Key: "k"}.Message(app, h.cfg.Self)
		h.c.Step(h.now, &p)
	}
	h.sync()
	h.c.Take(nil)
	h.tick(1500)
	cp := h.log[len(h.log)-1].Checkpoint
	if cp == nil || len(cp.Answers) != maxAnswers || cp.Forgotten <= oldest.HLC {
		t.Fatalf("the last record is %d answers, forgotten up to %d", len(cp.Answers), cp.Forgotten)
	}
	if r := h.again(first); r.Version != oldest {
		t.Errorf("the oldest is answered %+v, though the log holds it", r)
	}
	if r := h.again(causal.Put{ID: 9, Session: maxAnswers * 2, Seq: 1, Key: "k"}); r.Err != causal.ErrUnknown {
		t.Errorf("one of which nothing is known is answered %s", r.Err)
	}
}

// An earlier log of this origin may have held it.
func TestALogThatBeginsAnewDecidesAboutNoPutOfBefore(t *testing.T) {
	cfg := DefaultConfig(twoRings(t, 1), newHarness(t, 1, 0).cfg.Self)
	h := &harness{t: t, cfg: cfg, now: causal.Now{Mono: 1, WallMs: 100_000}}
	h.c = New(cfg, h.now, nil, 1)
	p := causal.Put{ID: 1, Session: 1, Seq: 1, Key: "k"}
	if r := h.again(p); r.Err != causal.ErrUnknown {
		t.Errorf("answered %s before anybody has told that the log is new", r.Err)
	}
	for _, m := range ofKind(h.tick(200), causal.KindPastQuery) {
		h.step(causal.PastReply{ID: m.PastQuery().ID}.Message(m.To, cfg.Self))
	}
	h.tick(10)
	if is := h.c.Membership(); is != Serving {
		t.Fatalf("membership %v", is)
	}
	if r := h.again(p); r.Err != causal.ErrUnknown {
		t.Errorf("then answered %s", r.Err)
	}
	h.accepted(causal.Put{ID: 2, Session: 1, Seq: 2, Key: "k"})
}

// It was not accepted by an earlier leadership, since it was sent to this one only.
func TestACopyOfAPutIsDecidedByWhatThisLeadershipHasForgotten(t *testing.T) {
	h := newHarness(t, 1, 0)
	h.tick(10)
	h.c.log.forgetPuts(h.c.clock.Peek(h.now))
	answer := func(p causal.Put) causal.PutReply {
		t.Helper()
		before, after := h.put(p)
		return reply(t, append(before, after...))
	}
	first := causal.Put{ID: 1, Session: 1, Seq: 1, Key: "k"}
	v := h.accepted(first)
	if r := answer(first); !r.Repeated || r.Version != v {
		t.Errorf("a copy is answered %+v, and was accepted as %s", r, v)
	}
	h.accepted(causal.Put{ID: 3, Session: 1, Seq: 3, Key: "k"})
	second := causal.Put{ID: 2, Session: 1, Seq: 2, Key: "k"}
	if r := answer(second); r.Err != causal.ErrStale {
		t.Errorf("a put that a later one has overtaken is answered %+v", r)
	}
	h.c.forgotten = v.HLC
	if r := answer(second); r.Err != causal.ErrUnknown {
		t.Errorf("one that may have been forgotten is answered %+v", r)
	}
}
