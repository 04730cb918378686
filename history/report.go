package history

import (
	"errors"
	"fmt"
	"strings"
)

// Kind is a kind of violation.
type Kind string

// The violations.
const (
	// Malformed: the history breaks its own format (a value written twice, a process that overlaps itself, ...).
	// Nothing else is checked then.
	Malformed Kind = "malformed"
	// ThinAir: a read returned a value or version that was never written, or whose write had failed.
	ThinAir Kind = "thin-air"
	// Cycle: happens-before has a cycle, for example a read of a write that happens after it.
	Cycle Kind = "cycle"
	// MissingRead: a read found nothing although a write is in its causal past and no delete can explain it.
	MissingRead Kind = "missing-read"
	// StaleRead: a read returned a write that another write in its causal past supersedes.
	StaleRead Kind = "stale-read"
	// ReadYourWrites is a StaleRead or MissingRead that contradicts a write of the reader's own session.
	ReadYourWrites Kind = "read-your-writes"
	// MonotonicReads is a StaleRead or MissingRead that contradicts an earlier read of the reader's own session.
	MonotonicReads Kind = "monotonic-reads"
	// Convergence: no single arbitration order explains all reads.
	Convergence Kind = "convergence"
	// VersionOrder: version order contradicts happens-before.
	VersionOrder Kind = "version-order"
	// VersionMismatch: a read returned another version than that of the write it read.
	VersionMismatch Kind = "version-mismatch"
	// VersionReused: two writes have the same version.
	VersionReused Kind = "version-reused"
	// Snapshot: an mget returned a write and, for another key, one that a write in its causal past supersedes.
	Snapshot Kind = "snapshot"
	// IncompleteRead: a read of a value that merges lacks a write in its causal past, and no other one overwrites that.
	IncompleteRead Kind = "incomplete-read"
	// DoubledWrite: a read returned a write twice.
	DoubledWrite Kind = "doubled-write"
	// Diverged: two final reads of one key disagree.
	Diverged Kind = "diverged"
	// LostWrite: a final read returned a write that an effective one supersedes, or nothing in spite of one.
	LostWrite Kind = "lost-write"
)

// Violation is a violation of causal+ consistency.
type Violation struct {
	Kind Kind
	// Text describes the violation and shows the shortest chain of operations that proves it.
	Text string
	// Ops are the operations of that chain, as indices into the history.
	Ops []int
}

func (v Violation) String() string { return string(v.Kind) + ": " + v.Text }

// Options bound a check.
type Options struct {
	// MaxViolations is how many violations are explained, some of each kind; the others are counted. 0 means 20.
	MaxViolations int
	// AddsUp is as in DataCenterOptions: then the reply to an update does not tell which write it has found, if several
	// data centers add to its key.
	AddsUp bool
}

const defaultMaxViolations = 20

// Stats describe what a check was based on.
type Stats struct {
	Ops, Sessions, Processes, Keys int
	Gets, MGets, Puts, Deletes     int // successful
	Failed                         int // failed operations, which have no effect
	Unknown, UnknownObserved       int // writes of unknown outcome, and those among them that some read returned
	Versioned                      int // effective writes with a known version
	MissingReads                   int // keys read as missing
	FinalReads                     int // keys read after quiescence
	OnUpdatedKeys                  int // operations on keys that have updates: causal+ is not checked of these
	Conflicts                      int // edges between writes that follow from reads, where versions are unknown
}

// Report is the result of a check.
type Report struct {
	Violations []Violation
	// Total counts the violations found, including those that are not explained.
	Total int
	Stats Stats
}

// OK reports whether there are no violations.
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

// String returns a text for people: one line if there are no violations, else one more per violation.
func (r Report) String() string {
	var b strings.Builder
	s := r.Stats
	fmt.Fprintf(&b, "%d operations of %d sessions (%d processes) on %d keys", s.Ops, s.Sessions, s.Processes, s.Keys)
	if s.OnUpdatedKeys > 0 {
		fmt.Fprintf(&b, " (without %d on keys with updates)", s.OnUpdatedKeys)
	}
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
