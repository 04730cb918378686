package group

import (
	"errors"
	"fmt"
)

// State is what a member keeps durably beside its log.
type State struct {
	// Life counts the starts on this volume. It is durable before a start does anything else.
	Life uint64
	// Config is the highest settled configuration that the member has heard of, and Cluster the id of the register's
	// cluster it is in; "" if it is in no register.
	Config  Config
	Cluster string
	// Session is the highest that the member has taken part in, as a primary or otherwise. It takes part in no lower
	// one.
	Session Stamp
	// Pending are the joining members that swaps may still make members, although nobody knows it yet.
	Pending []ID
	// Commit is a position up to which the log is known to be committed. It may lag.
	Commit uint64
}

// Record is a record of the log.
type Record struct {
	Stamp Stamp
	// Start marks the first record of a session, which the user does not see.
	Start bool
	Data  []byte
}

// EntryKind is the kind of an Entry.
type EntryKind uint8

// The kinds of entries.
const (
	EntryState    EntryKind = iota + 1
	EntryRecord             // appends Record at Position
	EntryTruncate           // removes the records from Position on
	EntryBase               // removes the records before Position; Anchor is the stamp of the one just before it
	EntryReset              // removes all records; the log goes on at Position, as with EntryBase
)

// Entry is what a member writes to its disk. The disk is an append-only log of entries: nothing is overwritten, so
// a crash leaves a prefix.
type Entry struct {
	// Index numbers the entries of a disk from 1, without gaps.
	Index    uint64
	Kind     EntryKind
	Position uint64
	Anchor   Stamp
	Record   Record
	State    State
}

// Image is what the entries on a disk amount to. The zero Image is that of an empty disk.
type Image struct {
	State State
	log   log
	index uint64 // of the last entry
	// stateIndex and baseIndex are those of the last entry of their kind, and base and anchor are what the latter
	// names.
	stateIndex, baseIndex uint64
	base                  uint64
	anchor                Stamp
}

// ErrGap says that entries are missing.
var ErrGap = errors.New(
	"the entries on the disk do not follow each other: the disk holds less than it should; treat the volume as damaged")

// Apply takes in the next entry. The first one may be any that TruncateBefore has allowed to be the first, so what an
// entry refers to may be gone, because a later one removes it.
func (i *Image) Apply(e *Entry) error {
	if i.index != 0 && e.Index != i.index+1 {
		return fmt.Errorf("entry %d comes after entry %d: %w", e.Index, i.index, ErrGap)
	}
	i.index = e.Index
	switch e.Kind {
	case EntryState:
		i.State, i.stateIndex = e.State, e.Index
	case EntryRecord:
		if e.Position <= i.log.last() {
			return fmt.Errorf("record %d comes after record %d: %w", e.Position, i.log.last(), ErrGap)
		}
		if e.Position > i.log.last()+1 {
			i.reset(e.Position)
		}
		i.log.append(e.Record, e.Index)
	case EntryTruncate:
		if e.Position >= i.log.first() {
			i.log.truncate(e.Position)
		} else {
			i.reset(e.Position)
		}
	case EntryBase, EntryReset:
		i.baseIndex, i.base, i.anchor = e.Index, e.Position, e.Anchor
		switch {
		case e.Kind == EntryReset || e.Position > i.log.last()+1:
			i.log.reset(e.Position, e.Anchor)
		case e.Position >= i.log.first():
			i.log.collect(e.Position)
			i.log.setAnchor(e.Anchor)
		}
	default:
		return fmt.Errorf("entry %d has the unknown kind %d: it was written by another version; run that one",
			e.Index, e.Kind)
	}
	return nil
}

// reset starts the log at a position, since what was before it is no longer on the disk.
func (i *Image) reset(pos uint64) {
	anchor := Stamp{}
	if pos == i.base {
		anchor = i.anchor
	}
	i.log.reset(pos, anchor)
}

// Check returns an error if entries are missing that the disk should have.
func (i *Image) Check() error {
	if i.index != 0 && (i.stateIndex == 0 || i.log.first() != max(i.base, 1)) {
		return fmt.Errorf("the log begins at record %d, and should begin at record %d: %w", i.log.first(),
			max(i.base, 1), ErrGap)
	}
	return nil
}
