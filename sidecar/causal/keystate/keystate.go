// Package keystate arbitrates for all parts: which of several values of a key a reader gets, what of it is unstable,
// what a write makes of the value in storage, and for which readers a copy is good. Middlemen, caches, near copies and
// sessions ask it, and compare no versions to choose between values. It asks package value what two values become when
// they meet: that is where versions of registers are compared.
//
// For a register all of it comes down to one comparison of versions, without an allocation.
package keystate

import (
	"bytes"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/value"
)

// Newer reports whether a has a newer write than b. Of two registers it is the one that readers get.
func Newer(a, b *causal.Record) bool { return b.Version.Less(a.Version) }

// Same reports whether two records of a key consist of the same writes.
func Same(a, b *causal.Record) bool {
	if a.Version != b.Version || a.Value.Type != b.Value.Type {
		return false
	}
	return !a.Value.Merges() || bytes.Equal(a.Value.Data, b.Value.Data)
}

// Identifies reports whether the version of a record says which value it is. A merging value may get writes that are
// older than its newest one.
func Identifies(r *causal.Record) bool { return !r.Value.Merges() }

// Add adds a write to the value that a key has, and reports whether that changes it.
func Add(types *value.Types, to, write causal.Record) (joined causal.Record, changed bool) {
	joined = types.Join(to, write)
	return joined, !Same(&joined, &to)
}

// IsOverwritten reports whether a write has no part in a value that was joined with it, because a register has replaced
// it.
func IsOverwritten(joined, write *causal.Record) bool {
	return !joined.Value.Merges() && write.Version.Less(joined.Version)
}

// IsStored reports whether storage need not be asked to write joined, which is what storage holds and a write: it holds
// that already, and the write has no part in it. If it has, storage may have been asked before, and perhaps has never
// made it durable.
func IsStored(joined, stored, write *causal.Record) bool {
	return Same(joined, stored) && IsOverwritten(joined, write)
}

// First returns the version of the oldest write of a value for which is holds; the zero Version: there is none.
func First(types *value.Types, r *causal.Record, is func(causal.Version) bool) causal.Version {
	if found := types.Versions(r, is); len(found) > 0 {
		return found[0]
	}
	return causal.Version{}
}

// Unstable returns what of a value is unstable, if that is anything else than its newest write: isStable says it of a
// write. What a reader of a register needs to know is whether its version is stable, so for those it is nil.
func Unstable(types *value.Types, r *causal.Record, isStable func(causal.Version) bool) []causal.Version {
	if !r.Value.Merges() {
		return nil
	}
	return types.Versions(r, func(v causal.Version) bool { return !isStable(v) })
}

// IsStable reports whether what was unstable of a value no longer is. unstable is what Unstable has returned of it.
func IsStable(r *causal.Record, unstable []causal.Version, isStable func(causal.Version) bool) bool {
	if !r.Value.Merges() {
		return isStable(r.Version)
	}
	for _, v := range unstable {
		if !isStable(v) {
			return false
		}
	}
	return true
}
