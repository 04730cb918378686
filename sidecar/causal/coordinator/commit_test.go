package coordinator

import (
	"slices"
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
)

// commit sends a commit and returns its answer, once the log holds it.
func (h *harness) commit(m causal.HomeCommit) causal.PutReply {
	h.t.Helper()
	m.ID = 900 + m.Seq
	sent := h.step(m.Message(app, h.cfg.Self))
	h.sync()
	replies := ofKind(append(sent, h.c.Take(nil)...), causal.KindPutReply)
	if len(replies) != 1 || replies[0].PutReply().ID != m.ID {
		h.t.Fatalf("the answers are %v", replies)
	}
	return replies[0].PutReply()
}

// puts returns the keys of a commit without conditions.
func puts(value string, keys ...string) (all []causal.CommitKey) {
	for _, key := range keys {
		all = append(all, causal.CommitKey{Key: key, Record: causal.Record{Value: valueOf(value)}})
	}
	return all
}

// read returns the condition that a key is as it was read.
func read(key string, v causal.Version) causal.CommitKey {
	return causal.CommitKey{Key: key, Record: causal.Record{Version: v}, From: 1 << 60, Conditional: true,
		ReadOnly: true}
}

func (h *harness) value(key string) string {
	h.t.Helper()
	return string(h.top(key).Record.Value.Data)
}

func TestAllPutsOfACommitAreVisibleInTheStepThatAcknowledgesIt(t *testing.T) {
	h := newHomeHarness(t)
	h.step(causal.HomeCommit{Seq: 1, Keys: puts("1", "a", "b", "c")}.Message(app, h.cfg.Self))
	for _, key := range []string{"a", "b", "c"} {
		if h.value(key) != "" {
			t.Errorf("%s is visible before the log holds it", key)
		}
	}
	h.sync()
	last := reply(t, h.c.Take(nil)).Version
	for i, key := range []string{"a", "b", "c"} {
		if r := h.top(key).Record; string(r.Value.Data) != "1" || r.Version.HLC != last.HLC-causal.HLC(2-i) {
			t.Errorf("%s is %+v; the last version is %v", key, r, last)
		}
	}
}

// PROTOCOL HOK-3: whatever part of the log a crash leaves, it has all of a commit or nothing.
func TestACrashLeavesAllOfACommitOrNothing(t *testing.T) {
	h := newHomeHarness(t)
	h.step(causal.HomeCommit{Seq: 1, Keys: puts("1", "a", "b")}.Message(app, h.cfg.Self))
	records := h.c.Appends(nil)
	for n := range len(records) + 1 {
		again := &harness{t: t, cfg: h.cfg, now: h.now, log: slices.Clone(h.log), index: h.index + uint64(n)}
		for i := range n {
			r, err := ParseLogRecord(records[i].AppendTo(nil))
			if err != nil {
				t.Fatal(err)
			}
			again.log = append(again.log, r)
		}
		again.restart(h.now)
		again.c.Take(nil)
		want := ""
		if n == len(records) {
			want = "1"
		}
		if a, b := again.value("a"), again.value("b"); a != want || b != want {
			t.Errorf("with %d of %d records a is %q and b is %q", n, len(records), a, b)
		}
	}
}

func TestACommitIsAcceptedOnlyIfNothingThatItHasReadHasChanged(t *testing.T) {
	h := newHomeHarness(t)
	old := h.write(causal.Put{Seq: 1, Key: "watched", Value: valueOf("1")})
	newer := h.write(causal.Put{Seq: 2, Key: "watched", Value: valueOf("2")})
	r := h.commit(causal.HomeCommit{Seq: 3, Keys: append(puts("3", "a", "b"), read("watched", old))})
	if r.Err != causal.ErrConflict || h.value("a")+h.value("b") != "" {
		t.Errorf("after another write: %s, %q, %q", r.Err, h.value("a"), h.value("b"))
	}
	r = h.commit(causal.HomeCommit{Seq: 4, Keys: append(puts("4", "a", "b"), read("watched", newer))})
	if r.Err != causal.OK || h.value("a") != "4" || h.value("b") != "4" {
		t.Errorf("with what is newest: %s, %q, %q", r.Err, h.value("a"), h.value("b"))
	}
}

func TestACommitThatIsSentAgainIsAnsweredAgainAlsoAfterARestart(t *testing.T) {
	h := newHomeHarness(t)
	m := causal.HomeCommit{Seq: 1, Keys: puts("1", "a", "b")}
	first := h.commit(m)
	for range 2 {
		m.Resent = true
		if r := h.commit(m); r.Version != first.Version || !r.Repeated {
			t.Errorf("it is answered with %+v, and first with %+v", r, first)
		}
		if h.value("a") != "1" || h.value("b") != "1" {
			t.Errorf("a is %q, b is %q", h.value("a"), h.value("b"))
		}
		h.restart(h.now)
		h.c.Take(nil)
	}
}

func TestAReadForUpdateOfSeveralKeysWaitsForAllOfThem(t *testing.T) {
	h := newHomeHarness(t)
	h.step(causal.Put{Seq: 1, Key: "b", Value: valueOf("1")}.Message(app, h.cfg.Self))
	if got := h.ask(causal.HomeRead{ID: 5, Key: "a", More: []causal.Moved{{Key: "b"}}, ForUpdate: true}); len(got) > 0 {
		t.Fatalf("it is answered at once: %+v", got)
	}
	h.step(causal.HomeCommit{Seq: 2, ID: 9, Keys: puts("2", "a", "b")}.Message(app, h.cfg.Self))
	h.sync()
	got := homeReplies(h.c.Take(nil))
	if len(got) != 2 || string(got[0].Record.Value.Data) != "2" || string(got[1].Record.Value.Data) != "2" {
		t.Errorf("it is answered with %+v", got)
	}
}

func TestACommitThatIsTooLargeIsRefused(t *testing.T) {
	h := newHomeHarness(t)
	half := string(make([]byte, causal.MaxCommitBytes/2))
	if r := h.commit(causal.HomeCommit{Seq: 1, Keys: puts(half, "a", "b")}); r.Err != causal.ErrTooLarge {
		t.Errorf("it is answered with %s", r.Err)
	}
	only := []causal.CommitKey{read("a", causal.Version{})}
	if r := h.commit(causal.HomeCommit{Seq: 2, Keys: only}); r.Err == causal.OK {
		t.Error("one without a put is accepted")
	}
}
