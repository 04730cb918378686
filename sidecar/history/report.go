package history

import (
	"errors"
	"fmt"
	"strings"
)

// Kind is a sort of violation.
type Kind string

// The violations.
const (
	// Malformed: the history breaks its own format (a value written twice, a process that overlaps itself, ...). Nothing
	// else is decided then.
	Malformed Kind = "malformed"
	// ThinAir: a value or version was read that was never written, or whose write had failed.
	ThinAir Kind = "thin-air"
	// Cycle: happens-before has a cycle, for example a read of a write that happens after it.
	Cycle Kind = "cycle"
	// MissingRead: a read found nothing, though a write is in its causal past and no delete can explain it.
	MissingRead Kind = "missing-read"
	// StaleRead: a read returned a write that is superseded by one in its causal past.
	StaleRead Kind = "stale-read"
	// ReadYourWrites is a StaleRead or MissingRead that goes against a write of the reader's own session.
	ReadYourWrites Kind = "read-your-writes"
	// MonotonicReads is a StaleRead or MissingRead that goes against an earlier read of the reader's own session.
	MonotonicReads Kind = "monotonic-reads"
	// Convergence: no single arbitration order explains all reads.
	Convergence Kind = "convergence"
	// VersionOrder: version order contradicts happens-before.
	VersionOrder Kind = "version-order"
	// VersionMismatch: a read gives another version than the write it read.
	VersionMismatch Kind = "version-mismatch"
	// VersionReused: two writes have the same version.
	VersionReused Kind = "version-reused"
	// Snapshot: an mget returned a write and, for another key, one that is superseded in that write's causal past.
	Snapshot Kind = "snapshot"
	// Diverged: two final reads of one key disagree.
	Diverged Kind = "diverged"
	// LostWrite: a final read returned a write that is superseded by an effective one, or nothing in spite of one.
	LostWrite Kind = "lost-write"
)

// Violation is one thing that must not have happened.
type Violation struct {
	Kind Kind
	// Text says what is wrong and shows the shortest chain of operations that proves it.
	Text string
	// Ops are the operations of that chain: indices into the history.
	Ops []int
}

func (v Violation) String() string { return string(v.Kind) + ": " + v.Text }

// Options bound a check.
type Options struct {
	// MaxViolations is how many violations are explained, some of each sort; the rest are counted. 0 stands for 20.
	MaxViolations int
}

const defaultMaxViolations = 20

// Stats say how much a check had to go on.
type Stats struct {
	Ops, Sessions, Processes, Keys int
	Gets, MGets, Puts, Deletes     int // that succeeded
	Failed                         int // operations that failed and say nothing
	Unknown, UnknownObserved       int // writes of unknown outcome, and those of them that some read returned
	Versioned                      int // effective writes whose version is known
	MissingReads                   int // keys read as missing
	FinalReads                     int // keys read after quiescence
	Conflicts                      int // what reads said about the order of writes, where versions do not
}

// Report is the outcome of a check.
type Report struct {
	Violations []Violation
	// Total counts the violations found, those that were not explained included.
	Total int
	Stats Stats
}

// OK reports whether nothing was found.
func (r Report) OK() bool { return r.Total == 0 }

// Has reports whether a violation of that kind was found and explained.
func (r Report) Has(k Kind) bool {
	for _, v := range r.Violations {
		if v.Kind == k {
			return true
		}
	}
	return false
}

// Err returns nil, or an error that lists the violations.
func (r Report) Err() error {
	if r.OK() {
		return nil
	}
	return errors.New(r.String())
}

// String is for people: one line if all is well, else one more per violation.
func (r Report) String() string {
	var b strings.Builder
	s := r.Stats
	fmt.Fprintf(&b, "%d operations of %d sessions (%d processes) on %d keys", s.Ops, s.Sessions, s.Processes, s.Keys)
	if r.OK() {
		b.WriteString(": causal+")
		return b.String()
	}
	fmt.Fprintf(&b, ": %d violations of causal+", r.Total)
	for _, v := range r.Violations {
		b.WriteString("\n  " + v.String())
	}
	if more := r.Total - len(r.Violations); more > 0 {
		fmt.Fprintf(&b, "\n  and %d more", more)
	}
	return b.String()
}
