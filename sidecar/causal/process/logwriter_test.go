package process

import (
	"slices"
	"testing"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/group"
)

// loggingMember is a member of which only the log matters.
type loggingMember struct {
	writes   []uint64 // indexes of entries that are not collected yet
	appended []uint64
	before   uint64
	reset    bool
	fullDisk int    // how often it was told of that
	full     []bool // what SetDiskFull has said
}

func (m *loggingMember) Writes(dst []group.Entry) []group.Entry {
	for _, i := range m.writes {
		dst = append(dst, group.Entry{Index: i})
	}
	m.writes = nil
	return dst
}

func (m *loggingMember) Appended(_ causal.Now, index uint64) { m.appended = append(m.appended, index) }
func (m *loggingMember) TruncateBefore() uint64              { return m.before }
func (m *loggingMember) NeedsReset() bool                    { return m.reset }
func (m *loggingMember) NoteFullDisk()                       { m.fullDisk++ }
func (m *loggingMember) SetDiskFull(full bool)               { m.full = append(m.full, full) }

// logRig drives a LogWriter.
type logRig struct {
	t *testing.T
	m *loggingMember
	w *LogWriter
}

func newLogRig(t *testing.T, isDamaged bool) *logRig {
	m := &loggingMember{}
	return &logRig{t, m, NewLogWriter(m, isDamaged, causal.Mutations{})}
}

func (r *logRig) write(indexes ...uint64) {
	r.m.writes = append(r.m.writes, indexes...)
	r.w.Collect()
}

// expect takes a task, which has to be of a kind, with some entries, and truncates before one.
func (r *logRig) expect(kind LogTaskKind, before uint64, indexes ...uint64) {
	r.t.Helper()
	t, ok := r.w.Next()
	var got []uint64
	for i := range t.Entries {
		got = append(got, t.Entries[i].Index)
	}
	if !ok || t.Kind != kind || t.TruncateBefore != before || !slices.Equal(got, indexes) {
		r.t.Fatalf("task %v: kind %d, truncates before %d, entries %v; want kind %d, %d, %v", ok, t.Kind,
			t.TruncateBefore, got, kind, before, indexes)
	}
}

func (r *logRig) expectNothing() {
	r.t.Helper()
	if t, ok := r.w.Next(); ok {
		r.t.Fatalf("a task of kind %d with %d entries, want none", t.Kind, len(t.Entries))
	}
}

func (r *logRig) done(res LogResult) { r.w.Done(causal.Now{Mono: 1}, res) }

func (r *logRig) expectAppended(indexes ...uint64) {
	r.t.Helper()
	if !slices.Equal(r.m.appended, indexes) {
		r.t.Errorf("the member was told that its log reaches to %v, want %v", r.m.appended, indexes)
	}
}

func TestEntriesThatArriveDuringAnAppendShareTheNext(t *testing.T) {
	r := newLogRig(t, false)
	r.expectNothing()
	r.write(1)
	r.expect(LogAppend, 0, 1)
	r.write(2)
	r.write(3, 4)
	r.expectNothing()
	r.expectAppended()
	r.done(LogResult{Appended: 1})
	r.expect(LogAppend, 0, 2, 3, 4)
	r.done(LogResult{Appended: 3})
	r.expectAppended(1, 4)
	r.expectNothing()
	if !r.w.IsIdle() {
		t.Error("entries are left although all are durable")
	}
}

func TestWhatIsLeftOfAnAppendComesBeforeWhatHasArrivedMeanwhile(t *testing.T) {
	r := newLogRig(t, false)
	r.write(1, 2, 3)
	r.expect(LogAppend, 0, 1, 2, 3)
	r.write(4)
	r.done(LogResult{Appended: 2})
	r.expectAppended(2)
	r.expect(LogAppend, 0, 3)
	r.done(LogResult{Appended: 1})
	r.expect(LogAppend, 0, 4)
	r.done(LogResult{Appended: 1})
	r.expectAppended(2, 3, 4)
}

func TestALogIsTruncatedBeforeAnAppendAndAgainUntilThatSucceeds(t *testing.T) {
	r := newLogRig(t, false)
	r.m.before = 5
	r.expectNothing() // it can wait until there is something to append
	r.write(7)
	r.expect(LogAppend, 5, 7)
	r.done(LogResult{Appended: 1})
	r.write(8)
	r.expect(LogAppend, 5, 8)
	r.m.before = 6 // during the append
	r.done(LogResult{Appended: 1, IsTruncated: true})
	r.write(9)
	r.expect(LogAppend, 6, 9)
	r.done(LogResult{Appended: 1, IsTruncated: true})
	r.write(10)
	r.expect(LogAppend, 0, 10)
}

func TestAFullLogAndAFullDiskAreTriedAgainAndTold(t *testing.T) {
	r := newLogRig(t, false)
	r.write(1, 2)
	r.expect(LogAppend, 0, 1, 2)
	if wait := r.w.Done(causal.Now{Mono: 1}, LogResult{Problem: LogIsFull}); wait != logFullRetry {
		t.Errorf("waits %v for a full log, want %v", wait, logFullRetry)
	}
	last := time.Duration(0)
	r.m.before = 1
	for i := range 10 {
		r.write(uint64(3 + i))
		r.expect(LogAppend, 1, 1, 2)
		wait := r.w.Done(causal.Now{Mono: 1}, LogResult{Problem: DiskIsFull})
		if wait > diskRetryMax || i < 6 && wait <= last {
			t.Errorf("waits %v for a full disk after %v, want more each time and at most %v", wait, last, diskRetryMax)
		}
		last = wait
	}
	r.expectAppended()
	r.expect(LogAppend, 1, 1, 2)
	r.done(LogResult{Appended: 2, IsNearlyFull: true})
	r.expect(LogAppend, 1, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12)
	r.done(LogResult{Appended: 10})
	r.expectAppended(2, 12)
	if want := []bool{true, true, false}; r.m.fullDisk != 10 || !slices.Equal(r.m.full, want) {
		t.Errorf("the member heard %d times of a full disk and %v of the log, want 10 and %v", r.m.fullDisk, r.m.full,
			want)
	}
}

func TestNothingIsWrittenToADamagedVolume(t *testing.T) {
	r := newLogRig(t, true)
	r.m.before = 3
	r.write(4, 5)
	r.expect(LogSkip, 0, 4, 5)
	r.done(LogResult{Appended: 2})
	r.expectAppended(5)
	if len(r.m.full) != 0 {
		t.Errorf("the member of a damaged volume was told %v of its log", r.m.full)
	}
}

func TestAVolumeIsEmptiedOnceAndNotWhileItIsWrittenTo(t *testing.T) {
	r := newLogRig(t, false)
	r.write(1)
	r.expect(LogAppend, 0, 1)
	r.m.reset = true
	r.expectNothing()
	r.done(LogResult{Appended: 1})
	r.write(2)
	r.expect(LogReset, 0)
	r.expectNothing()
}
