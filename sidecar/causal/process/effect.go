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
	// EffectTombstones passes each tombstone in the storage to Shard.NoteTombstone. It may take long.
	EffectTombstones
)

// Effect is something that the driver of a Shard has to do. Done takes what has become of it.
//
// At most one EffectWrite is under way, and at most one of all others but EffectTombstones. What a change has asked for
// may be in the storage, or not, until Done has said so, and also if it fails.
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
}

// EffectResult is what has become of an Effect.
type EffectResult struct {
	Err   error
	Marks Marks // of EffectLoad
	// of EffectLoad, EffectWrite and EffectChange: how far the storage has come, or a bit further
	Position causal.Position
	Keys     []string       // of EffectList
	Records  []causal.Moved // of EffectRead; without a version: there is none
}
