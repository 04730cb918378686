package drill

import (
	"testing"
	"time"

	"github.com/causalstore/causalstore/history"
	"github.com/causalstore/causalstore/lab/canary"
)

func TestARunIsNotAbortedForAWriteThatIsYetToBeReported(t *testing.T) {
	read := history.Op{Session: "south/s1", Key: "k", Value: "v", DC: "south", Kind: history.Get, OK: true,
		Start: 30, End: 40}
	write := history.Op{Session: "north/s1", Key: "k", Value: "v", DC: "north", Kind: history.Put, OK: true,
		Start: 10, End: 60}
	j := newJudge()
	j.history = history.History{read}
	if j.check().OK() {
		t.Fatal("the checker accepts a value that nobody has written")
	}
	if v, broken := j.brokenSoFar(); broken {
		t.Errorf("aborted while the write is under way: %s", v)
	}
	j.history = append(j.history, write)
	if v, broken := j.brokenSoFar(); broken {
		t.Errorf("aborted after the write is reported: %s", v)
	}
	j.history = append(j.history, history.Op{Session: "north/s1", Key: "k", DC: "north", Kind: history.Get, OK: true,
		Missing: true, Start: 70, End: 80})
	if _, broken := j.brokenSoFar(); !broken {
		t.Error("a session that does not read its own write does not end the run")
	}
}

// TestAWriteThatWasNotReportedIsKnownFromReads: its canary was killed. A value of a canary that has reported
// everything, which it did not write, is a violation.
func TestAWriteThatWasNotReportedIsKnownFromReads(t *testing.T) {
	const first, second = "north/sidecar/aaaa/s1#1-1.00", "north/sidecar/aaaa/s1#1-2.00"
	op := func(kind history.OpKind, process, key, value string, start int64) history.Op {
		return history.Op{Session: "of " + process, Process: process, Key: key, Value: value, Kind: kind, OK: true,
			Start: start, End: start + 5}
	}
	const writer = "north/sidecar/aaaa/s1#1"
	reads := history.History{op(history.Get, "south/bbbb/s1#1", "y", second, 50),
		op(history.Get, "south/bbbb/s1#1", "x", first, 60)}
	j := newJudge()
	j.history = append(history.History{op(history.Put, writer, "x", first, 10)}, reads...)
	if r := j.checkFinally(nil); !r.OK() {
		t.Errorf("a write of a canary that was killed: %s", r)
	}
	lost := j.unreported(j.history)
	if len(lost) != 1 || lost[0].Session != "of "+writer || lost[0].Start != 16 || !lost[0].Unknown {
		t.Fatalf("writes that were not reported: %+v", lost)
	}
	j.history[2].Value, j.history[2].Missing = "", true
	if r := j.checkFinally(nil); r.OK() {
		t.Error("a reader of the later write, which its session made after the earlier one, may miss that")
	}
	j.history[2] = reads[1]
	j.reported["north/sidecar/aaaa"] = true
	if r := j.checkFinally(nil); r.OK() || r.Violations[0].Kind != history.ThinAir {
		t.Errorf("a canary that has reported everything has not made the write: %s", r)
	}
}

func TestOnlyAWriteThatBeganAfterTheFaultsShowsThatWritesAreCompleteAgain(t *testing.T) {
	j := newJudge()
	id := CanaryID{DataCenter: "north"}
	sample := func(start, end int64, ok bool) canary.Sample {
		return canary.Sample{Kind: canary.Complete, Start: start, End: end, OK: ok}
	}
	ended := time.Unix(0, 100)
	j.samples[id] = []canary.Sample{sample(90, 130, true), sample(100, 140, true), sample(110, 150, false)}
	if after, ok := j.completeAfter(ended, id); ok {
		t.Errorf("complete after %s: the writes began before the faults ended, or are not complete", after)
	}
	j.samples[id] = append(j.samples[id], sample(120, 170, true))
	if after, ok := j.completeAfter(ended, id); !ok || after != 70 {
		t.Errorf("complete after %s, %t; want 70 ns", after, ok)
	}
}
