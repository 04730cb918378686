// Package causal is the vocabulary of the protocol: versions, clocks, vectors, messages, routes and slot maps. The
// parts of the data plane are deterministic state machines in the packages below it: session, coordinator, middleman,
// cache, and shard, which joins a middleman with what moves slots in a resharding.
//
// A machine takes messages, ticks and completions of its own I/O, each with the time, and leaves messages and I/O
// requests to be carried out. It does no I/O, starts no goroutine, reads no clock and draws no random number, so that
// the simulator runs the code that ships. A machine is owned by one caller at a time.
//
// Failure model: messages may be lost, delayed, duplicated and reordered; a machine may stop at any step and be made
// again from what its storage or log had acknowledged; wall clocks may be wrong, monotonic clocks drift by little.
package causal

import (
	"cmp"
	"fmt"

	"github.com/causalstore/causalstore/topology"
)

// HLC is a hybrid logical clock: 48 bits of milliseconds since the epoch, 16 bits of counter.
type HLC uint64

// HLCAt returns the first HLC of a millisecond.
func HLCAt(wallMs int64) HLC { return HLC(max(wallMs, 0)) << 16 }

// WallMs returns the milliseconds part.
func (h HLC) WallMs() int64 { return int64(h >> 16) }

// Version identifies one write. The zero Version means "never written".
type Version struct {
	HLC    HLC
	Origin topology.Origin
}

// Compare orders versions: by HLC, then by origin. The order respects happens-before.
func (v Version) Compare(w Version) int {
	if c := cmp.Compare(v.HLC, w.HLC); c != 0 {
		return c
	}
	return cmp.Compare(v.Origin, w.Origin)
}

// Less reports whether v is before w in arbitration order.
func (v Version) Less(w Version) bool { return v.Compare(w) < 0 }

// IsZero reports whether v is "never written".
func (v Version) IsZero() bool { return v == Version{} }

func (v Version) String() string {
	return fmt.Sprintf("%d.%d@%d", v.HLC.WallMs(), v.HLC&0xffff, v.Origin)
}

// Dep is a write that must be processed in a ring before another one.
type Dep struct {
	Version Version
	Slot    topology.Slot
}

// Value is what a key holds. The zero Value is an empty string that never expires.
type Value struct {
	Data []byte
	// ExpireAtMs is the wall-clock deadline in milliseconds since the epoch; 0 is none. Of a tombstone it is that of
	// the value that was deleted, if that had expired.
	ExpireAtMs int64
	// Tombstone marks a deleted or never written key.
	Tombstone bool
	// Type says how it becomes one with other values of its key. Package value has the types.
	Type TypeID
}

// TypeID identifies a type of values. It is in messages, logs and storages, so the numbers never change.
type TypeID uint8

// Register is the type whose last version wins: the value that the write with the greatest version has written.
const Register TypeID = 0

// Collection is the type of hashes, sets, sorted sets and lists: of each element the last version wins, and adds win
// over removals (package value).
const Collection TypeID = 1

// Operation is the type of what a put carries that asks its coordinator to execute an operation on the value of the key
// (package operation). Nothing is stored with it.
const Operation TypeID = 127

// Merges reports whether the writes of a value become one with others, where a register replaces them.
func (v *Value) Merges() bool { return v.Type != Register }

// Size is the memory that a value counts for, in bytes.
func (v Value) Size() int { return len(v.Data) + 16 }

// Record is a value with the version that wrote it, as storage holds it.
type Record struct {
	Version Version
	Value   Value
}

// Write is a change of one key in a storage: it is set to Record, or removed.
type Write struct {
	Key    string
	Record Record
	Delete bool
	// KeyExists tells whether the storage holds the key before this write, as the one who writes knows from the last
	// read or write of it.
	KeyExists bool
}

// Missing is the record of a key that storage does not hold: it was never written, or deleted by a write at or below
// horizon whose tombstone was dropped. Everything at or below the horizon is complete, so the version is above all of
// it and below all else: a session recognizes that an own write that it does not know to be complete was overwritten.
func Missing(horizon HLC) Record {
	r := Record{Value: Value{Tombstone: true}}
	if horizon > 0 {
		r.Version = Version{HLC: horizon, Origin: droppedOrigin}
	}
	return r
}

// droppedOrigin is the origin in the version of a Missing record; no coordinator has it.
const droppedOrigin = ^topology.Origin(0)

// Written reports whether v names a write, and not the absence of one.
func (v Version) Written() bool { return v.HLC != 0 && v.Origin != droppedOrigin }

// Status is what a reader is told of a version.
type Status uint8

// The states of a version. Treating a stable version as in-flight is always safe.
const (
	InFlight Status = iota
	Stable
)

func (s Status) String() string { return [...]string{"in-flight", "stable"}[s&1] }

// Now is the time that a machine is given. Mono never goes back; WallMs may.
type Now struct {
	// Mono is nanoseconds since an arbitrary start of this node.
	Mono int64
	// WallMs is milliseconds since the epoch, as the node's clock has it.
	WallMs int64
}
