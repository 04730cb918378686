package group

import (
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
)

// Options configure a Group.
type Options struct {
	Self ID
	// Damaged says that the disk holds less than it had acknowledged.
	Damaged bool
	// Register says that there is a register. Without one, the group has one member for ever, and keeps records in
	// memory only until they are committed.
	Register bool
	Broken   causal.Mutations

	// External says that the user keeps the state in a storage beside the log. Foundation is the group that the storage
	// belongs to, as with Group.SetFoundation, Applied the position up to which it has the log, and Occupied says that
	// it holds something.
	External   bool
	Foundation uint64
	Applied    uint64
	Occupied   bool
	// Blank says that the storage holds nothing but what this volume's user has written to create or copy it.
	Blank bool

	// Heartbeat is the longest time between frames to a member, SilentAfter that after which one that makes no progress
	// is dropped.
	Heartbeat, SilentAfter time.Duration
	// FailoverAfter is when a member acts that does not hear of its primary. It is longer than SilentAfter, so that a
	// primary which can reach the register is faster, and longer than Lease.
	FailoverAfter time.Duration
	// Retry is the pause before something that failed is tried again.
	Retry time.Duration
	// RegisterTimeout is how long a request to the register may take; after that its outcome is unknown.
	RegisterTimeout time.Duration
	// ReadEvery is the interval at which a primary looks at the register, since notifications may be lost.
	ReadEvery time.Duration
	// StuckAfter is when a member whose disk does not respond keeps silent, so that others go on without it. One whose
	// disk is full does after SilentAfter.
	StuckAfter time.Duration
	// YieldFor is how long a member whose user's storage does not respond goes on, so that another one takes its place,
	// before it keeps silent.
	YieldFor time.Duration
	// Lease is the length of the grants that members give to their primary.
	Lease time.Duration

	MaxFrameBytes       int // of records in a frame, but for a single larger one
	MaxInflightBytes    int // on their way to one member
	MaxUncommittedBytes int // at which Append refuses
	MaxLogBytes         int // at which Append refuses
	MaxRecordBytes      int // of one record; it fits a message
}

// frameOverhead is more than a frame with one record adds to that: above all the configuration, which is small enough
// for the register.
const frameOverhead = 2 * maxValueBytes

// DefaultOptions returns the defaults.
func DefaultOptions(self ID) Options {
	return Options{Self: self, Register: true, Heartbeat: 100 * time.Millisecond, SilentAfter: time.Second,
		FailoverAfter: 1200 * time.Millisecond,
		Retry:         300 * time.Millisecond, RegisterTimeout: 3 * time.Second, ReadEvery: 5 * time.Second,
		StuckAfter: 3 * time.Second, YieldFor: 500 * time.Millisecond, Lease: time.Second,
		MaxFrameBytes: 256 << 10, MaxInflightBytes: 4 << 20, MaxUncommittedBytes: 32 << 20, MaxLogBytes: 256 << 20,
		MaxRecordBytes: causal.MaxMessageBytes - frameOverhead}
}
