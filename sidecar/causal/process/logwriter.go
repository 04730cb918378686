package process

import (
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/group"
)

// LogMember is what a LogWriter needs of a member of a group: of a coordinator, or of a shard.
type LogMember interface {
	// Writes appends the entries to be made durable; Appended says that those up to an index are. Those before
	// TruncateBefore may be removed.
	Writes(dst []group.Entry) []group.Entry
	Appended(now causal.Now, index uint64)
	TruncateBefore() uint64
	// NeedsReset asks for a new member on an emptied volume.
	NeedsReset() bool
	// NoteFullDisk says that the disk has no room for the entries, SetDiskFull whether the log has reached its bound.
	NoteFullDisk()
	SetDiskFull(full bool)
}

// LogTaskKind is what a LogTask asks the driver to do with the log.
type LogTaskKind uint8

// The kinds of tasks.
const (
	// LogAppend removes the entries before TruncateBefore, unless it is 0, and then makes the first of Entries durable,
	// of one at least: as many as the driver wants to write at a time, in order.
	LogAppend LogTaskKind = iota + 1
	// LogSkip is as LogAppend on a volume that is damaged: nothing is written, and the entries count as durable. Such a
	// member says nothing that has to be remembered.
	LogSkip
	// LogReset empties the volume, gives it another id, and starts a new member with a new LogWriter on it. The other
	// members do without the old one.
	LogReset
)

// LogTask is something that the driver of a LogWriter has to do. Done takes what has become of it.
type LogTask struct {
	Kind           LogTaskKind
	TruncateBefore uint64
	Entries        []group.Entry // valid until the task is done
}

// LogProblem is why a log has not taken entries, and may take them later.
type LogProblem uint8

// The problems.
const (
	NoLogProblem LogProblem = iota
	// LogIsFull: the log has reached its bound. It takes entries when the oldest ones are removed.
	LogIsFull
	// DiskIsFull: the disk has no room for the entries.
	DiskIsFull
)

// LogResult is what has become of a LogAppend or a LogSkip.
type LogResult struct {
	Problem LogProblem
	// Appended is how many entries are durable; 0 with a problem.
	Appended int
	// IsTruncated says that no entry before TruncateBefore is left.
	IsTruncated bool
	// IsNearlyFull says that the log has room for little more than what was accepted.
	IsNearlyFull bool
}

// The waits before an append is tried again.
const (
	logFullRetry   = 50 * time.Millisecond
	diskRetryFirst = 10 * time.Millisecond
	diskRetryMax   = time.Second
)

// LogWriter sequences what is done with the log of a member of a group. It implements group commit: all entries that
// arrive during one append, which ends with a sync, share the next one. The step that has brought them has sent them to
// the other members before, so that all disks are synced at the same time.
//
// After each input of the member the driver calls Collect, and it carries out what Next returns. One task at a time is
// under way.
type LogWriter struct {
	m         LogMember
	isDamaged bool
	broken    causal.Mutations

	waiting   []group.Entry // arrived during the append that is under way
	writing   []group.Entry // of the append that is under way, or was tried last
	written   int           // how many of these are durable
	isRunning bool          // a task is under way
	truncated uint64        // there are no entries before this one
	asked     uint64        // TruncateBefore of the task under way
	fullDisks int           // appends that have failed since the last success, because the disk is full
}

// NewLogWriter returns the LogWriter of a member that has just started. isDamaged says that its volume is.
func NewLogWriter(m LogMember, isDamaged bool, broken causal.Mutations) *LogWriter {
	return &LogWriter{m: m, isDamaged: isDamaged && !broken.Has(causal.WriteDamaged), broken: broken}
}

// Collect takes the entries that the member has to make durable. It reports whether there are new ones.
func (w *LogWriter) Collect() bool {
	had := len(w.waiting)
	w.waiting = w.m.Writes(w.waiting)
	return len(w.waiting) > had
}

// IsIdle reports whether all entries that were collected are durable.
func (w *LogWriter) IsIdle() bool { return len(w.waiting) == 0 && w.written == len(w.writing) }

// HasCollected reports whether entries wait for the next append.
func (w *LogWriter) HasCollected() bool { return len(w.waiting) > 0 }

// Next returns what the driver has to do now; false: nothing, until the next input, or until a task is done.
func (w *LogWriter) Next() (LogTask, bool) {
	switch {
	case w.isRunning:
		return LogTask{}, false
	case w.m.NeedsReset():
		w.isRunning = true
		return LogTask{Kind: LogReset}, true
	case w.IsIdle():
		return LogTask{}, false
	case w.written == len(w.writing):
		w.writing, w.waiting, w.written = w.waiting, w.writing[:0], 0
	}
	w.isRunning = true
	t := LogTask{Kind: LogAppend, Entries: w.writing[w.written:]}
	if w.isDamaged {
		t.Kind = LogSkip
	} else if before := w.m.TruncateBefore(); before > w.truncated {
		t.TruncateBefore = before
	}
	w.asked = t.TruncateBefore
	return t, true
}

// Done takes what has become of a task. It returns how long the driver waits before it calls Next again.
func (w *LogWriter) Done(now causal.Now, r LogResult) (wait time.Duration) {
	w.isRunning = false
	if r.IsTruncated {
		w.truncated = max(w.truncated, w.asked)
	}
	if r.Problem != NoLogProblem && w.broken.Has(causal.FullLogAcknowledges) {
		w.m.Appended(now, w.writing[len(w.writing)-1].Index)
	}
	switch r.Problem {
	case LogIsFull: // until the oldest entries are needed no more, and can be removed
		w.m.SetDiskFull(true)
		return logFullRetry
	case DiskIsFull: // until that, or until there is space from elsewhere
		w.m.NoteFullDisk()
		w.fullDisks++
		return time.Duration(causal.Backoff(diskRetryFirst, diskRetryMax, w.fullDisks-1, uint64(now.Mono)))
	}
	w.fullDisks = 0
	done := w.writing[w.written : w.written+r.Appended]
	last := done[len(done)-1].Index
	clear(done) // what a slow disk has left to write may be much
	w.written += r.Appended
	if !w.isDamaged {
		w.m.SetDiskFull(r.IsNearlyFull)
	}
	w.m.Appended(now, last)
	return 0
}
