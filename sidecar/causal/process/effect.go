package process

import (
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/member"
	"github.com/causalstore/causalstore/topology"
)

// EffectKind is what an Effect asks the driver to do with the storage.
type EffectKind uint8

// The kinds of effects.
const (
	// EffectLoad reads all marks, and the position of the storage.
	EffectLoad EffectKind = iota + 1
	// EffectWrite makes Change durable, atomically: what the middleman that serves has asked for since the last one,
	// with the marks that it needs.
	EffectWrite
	// EffectChange makes another Change durable, atomically.
	EffectChange
	// EffectList lists the keys of the slots that Want wants; without Want all keys, also those of values that are
	// damaged or foreign.
	EffectList
	// EffectRead reads the records of the first of Keys, of one at least, until they have shard.ChunkBytes.
	EffectRead
	// EffectTombstones passes each tombstone, value that merges, and value that expires to NoteTombstone. It may take
	// long.
	EffectTombstones
	// EffectLoss notes that the storage has lost data: it makes Change durable, or Task if there is one, at once,
	// whatever else is under way.
	EffectLoss
	// EffectCheck looks up which keys exist, and sets Write.KeyExists in Change.
	EffectCheck
	// EffectTask carries Task out.
	EffectTask
	// EffectPing asks whether the storage responds. Without an answer after PingTimeout it has failed.
	EffectPing
)

// Effect is something that the driver of a Shard or a Member has to do. Done takes what has become of it.
//
// At most one EffectWrite is under way, one EffectTask, one EffectPing, and one of all others but EffectTombstones and
// EffectLoss. What a change has asked for may be in the storage, or not, until Done has said so, and also if it fails.
// A Member asks for no EffectWrite and no EffectChange: it changes the storage by tasks.
type Effect struct {
	ID   uint64
	Kind EffectKind
	// Generation is that of the middleman that asks, for EffectTombstones.
	Generation uint64
	// Change is not to be changed. With CheckExistence, Write.KeyExists is not known, and is to be looked up.
	Change         member.Change
	CheckExistence bool
	Want           func(topology.Slot) bool
	Keys           []string
	// Task is valid until it is done.
	Task *member.StorageTask
}

// Problem is what a driver knows of why a storage has not done what it was asked for.
type Problem uint8

// The problems.
const (
	NoProblem Problem = iota
	// IsFull: it has no room. It responds.
	IsFull
	// IsGone: nothing listens where it should be, so it does not merely take long.
	IsGone
	// HasLost: it no longer has what it had acknowledged.
	HasLost
	// IsFenced: it belongs to another process now.
	IsFenced
)

// EffectResult is what has become of an Effect.
type EffectResult struct {
	Err     error
	Problem Problem // if there is an error
	Marks   Marks   // of EffectLoad
	// of EffectLoad, EffectWrite and EffectChange: how far the storage has come, or a bit further
	Position causal.Position
	Keys     []string       // of EffectList
	Records  []causal.Moved // of EffectRead; without a version: there is none
	// Of EffectTask: see member.StorageTaskResult.
	Meta      []member.Meta
	Next      string
	BadCursor bool
}
