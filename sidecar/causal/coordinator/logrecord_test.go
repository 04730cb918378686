package coordinator

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/value"
	"github.com/causalstore/causalstore/topology"
)

func drawRecord(t *rapid.T) LogRecord {
	hlc := rapid.Custom(func(t *rapid.T) causal.HLC { return causal.HLC(rapid.Uint64().Draw(t, "hlc")) })
	version := func() causal.Version {
		return causal.Version{HLC: hlc.Draw(t, "hlc"), Origin: topology.Origin(rapid.Uint16().Draw(t, "origin"))}
	}
	if rapid.Bool().Draw(t, "checkpoint") {
		c := &Checkpoint{Complete: hlc.Draw(t, "complete")}
		for range rapid.IntRange(0, 3).Draw(t, "answers") {
			a := Answer{Sidecar: topology.Node{Part: topology.Sidecar, DC: 2, Index: rapid.Uint64().Draw(t, "index")},
				Session: rapid.Uint64().Draw(t, "session"), Seq: rapid.Uint64().Draw(t, "seq"),
				HLC: hlc.Draw(t, "answer")}
			if rapid.Bool().Draw(t, "operation") {
				a.Outcome = &Outcome{Value: drawValue(t), Past: hlc.Draw(t, "past")}
				a.Outcome.Value.Type = causal.TypeID(rapid.Uint8Max(2).Draw(t, "type"))
			}
			c.Answers = append(c.Answers, a)
		}
		c.Ceiling, c.Forgotten, c.Term = hlc.Draw(t, "ceiling"), hlc.Draw(t, "forgotten"),
			MembershipTerm(rapid.Uint64().Draw(t, "term"))
		c.Leases = rapid.Bool().Draw(t, "leases")
		c.Format = causal.Format(rapid.IntRange(0, int(value.NewestFormat)).Draw(t, "format"))
		c.LostUpTo = causal.HLC(rapid.Uint64Range(0, 3).Draw(t, "lost"))
		for i := range c.Terms {
			c.Terms[i] = MembershipTerm(rapid.Uint8().Draw(t, "terms"))
		}
		for range rapid.IntRange(0, 3).Draw(t, "shards") {
			c.Shards = append(c.Shards, causal.ShardMark{DC: topology.DC(rapid.Uint16().Draw(t, "dc")),
				Index:       rapid.Uint64().Draw(t, "index"),
				Incarnation: rapid.Uint64().Draw(t, "incarnation"), HasData: rapid.Bool().Draw(t, "data")})
		}
		for range rapid.IntRange(0, 3).Draw(t, "reaches") {
			c.Reaches = append(c.Reaches, ShardReach{DC: topology.DC(rapid.Uint16().Draw(t, "dc")),
				Index: rapid.Uint64().Draw(t, "index"),
				Reach: causal.Reach{Incarnation: rapid.Uint64().Draw(t, "start"),
					Changes: rapid.Uint64().Draw(t, "changes")}})
		}
		return LogRecord{Checkpoint: c}
	}
	deps := func() (ds []causal.Dep) {
		for range rapid.IntRange(0, 4).Draw(t, "deps") {
			ds = append(ds, causal.Dep{Version: version(),
				Slot: topology.Slot(rapid.IntRange(0, topology.Slots-1).Draw(t, "slot"))})
		}
		return ds
	}
	if rapid.Bool().Draw(t, "commit") {
		r := LogRecord{}
		for range rapid.IntRange(1, 3).Draw(t, "writes") {
			w := drawWrite(t, version, deps)
			w.FollowsAll = rapid.Bool().Draw(t, "follows all")
			r.Commit = append(r.Commit, w)
		}
		return r
	}
	return LogRecord{Write: drawWrite(t, version, deps)}
}

func drawWrite(t *rapid.T, version func() causal.Version, deps func() []causal.Dep) LoggedWrite {
	w := LoggedWrite{Key: rapid.String().Draw(t, "key"),
		Sidecar: topology.Node{Part: topology.Sidecar, DC: 3, Index: rapid.Uint64().Draw(t, "index")},
		Session: rapid.Uint64().Draw(t, "session"), Seq: rapid.Uint64().Draw(t, "seq"), Deps: deps(), OwnDeps: deps()}
	w.Unanswered = rapid.Uint64Max(w.Seq).Draw(t, "unanswered")
	w.Record.Version = version()
	w.Record.Value = drawValue(t)
	w.Record.Value.Type = causal.TypeID(rapid.Uint8Max(2).Draw(t, "type"))
	return w
}

func drawValue(t *rapid.T) (v causal.Value) {
	v.Tombstone, v.ExpireAtMs = rapid.Bool().Draw(t, "tombstone"), rapid.Int64().Draw(t, "expire")
	if data := rapid.SliceOf(rapid.Byte()).Draw(t, "data"); len(data) > 0 {
		v.Data = data
	}
	return v
}

func TestALogRecordIsReadAsItWasWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := drawRecord(t)
		b := want.AppendTo(nil)
		got, err := ParseLogRecord(b)
		if err != nil {
			t.Fatal(err)
		}
		clear(b) // the log reuses its buffer
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("-written +read:\n%s", diff)
		}
	})
}

func TestADamagedLogRecordIsRefusedAndNeverMisread(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := drawRecord(t)
		b := r.AppendTo(nil)
		n := rapid.IntRange(0, len(b)-1).Draw(t, "length")
		if _, err := ParseLogRecord(b[:n]); err == nil {
			t.Fatalf("%d of %d bytes were accepted", n, len(b))
		}
		if _, err := ParseLogRecord(append(b, 0)); err == nil {
			t.Fatal("a trailing byte was accepted")
		}
		_, _ = ParseLogRecord(rapid.SliceOf(rapid.Byte()).Draw(t, "noise")) // must not panic
	})
}

func TestALogOfAnotherFormatIsRefusedWithWhatToDo(t *testing.T) {
	for _, first := range []byte{0, 4, 8} { // 8: records of before there was a format
		_, err := ParseLogRecord([]byte{first, 1, 0, 0})
		if err == nil || !strings.Contains(err.Error(), "reads format 6 only") ||
			!strings.Contains(err.Error(), "drain") {
			t.Errorf("format %d: %v", first, err)
		}
	}
}

func TestALogOfAStoreWithLaterValuesIsRefusedWithWhatToDo(t *testing.T) {
	r := LogRecord{Checkpoint: &Checkpoint{State: State{Format: value.NewestFormat + 1}}}
	if _, err := ParseLogRecord(r.AppendTo(nil)); err == nil || !strings.Contains(err.Error(), "start the version") {
		t.Errorf("got %v", err)
	}
}

func TestARecordOfALaterVersionIsRefusedWithWhatToDo(t *testing.T) {
	_, err := ParseLogRecord([]byte{logFormat, 15, 0, 0})
	if err == nil || !strings.Contains(err.Error(), "a later version has written it") ||
		!strings.Contains(err.Error(), "start that version") {
		t.Errorf("got %v", err)
	}
}

// An empty key with an empty value is the smallest write.
func TestTheSmallestWritesOfACommitAreRead(t *testing.T) {
	want := LogRecord{Commit: []LoggedWrite{{}, {}}}
	got, err := ParseLogRecord(want.AppendTo(nil))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-written +read:\n%s", diff)
	}
}
