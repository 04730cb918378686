package keystate

import (
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/value"
)

// Overlay returns what a session reads that has found a value, and has written own itself. isOwn reports whether that
// is its own write and nothing else.
func Overlay(types *value.Types, found, own *causal.Record) (rec causal.Record, isOwn bool) {
	joined := types.Join(*found, *own)
	return joined, !joined.Value.Merges() && joined.Version == own.Version && found.Version != own.Version
}

// Hides reports whether a session that has seen no foreign write above seen reads its own write without looking for
// others. A merging one is a part of a value only.
func Hides(own *causal.Record, seen causal.HLC) bool {
	return !own.Value.Merges() && seen < own.Version.HLC
}
