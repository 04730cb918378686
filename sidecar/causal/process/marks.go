package process

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/member"
	"github.com/causalstore/causalstore/sidecar/causal/shard"
	"github.com/causalstore/causalstore/topology"
)

// Marks is what the storage of a shard says about itself, besides records. A mark that was never written is zero. Marks
// are values: what they refer to is never changed in place.
type Marks struct {
	// Starts is the incarnation of the last middleman that has started; 0: the storage was never used.
	Starts uint64
	// Lineage is the history of what the storage holds. One that an earlier version has used has none.
	Lineage    causal.Lineage
	HasLineage bool
	// Horizon is the tombstone horizon. It never decreases.
	Horizon causal.HLC
	// State is how far a resharding has come, and Moves counts the movers.
	State shard.MigrationState
	Moves uint64
	// Caches names the caches that leases were last waited for.
	Caches topology.CacheLayout
	// Origins are those whose writes the storage has ever held. An origin is durable before a write of it can be read
	// from a storage that was acknowledged: a coordinator that comes back with an empty log learns from it that it had
	// one (PROTOCOL DISK-6).
	Origins Origins
	// Loss says what the storage has lost, and Missing which keys, if that is known.
	Loss    shard.Loss
	Missing causal.KeyRanges
	// Fences say which logs of which origins were given up.
	Fences causal.Fences
	// Exclusions are what the shard goes by.
	Exclusions causal.Exclusions
}

// The names of marks in a storage.
const (
	MarkStarts     = "incarnation"
	MarkLineage    = "lineage"
	MarkHorizon    = "tombstone-horizon"
	MarkState      = "stand"
	MarkMoves      = "moves"
	MarkCaches     = "caches"
	MarkOrigins    = "origins"
	MarkLoss       = "data-lost"
	MarkFences     = "fences"
	MarkExclusions = "exclusions"
	MarkMissing    = "missing"
)

// MarkNames are the names of all marks.
var MarkNames = [...]string{MarkStarts, MarkHorizon, MarkState, MarkMoves, MarkCaches, MarkOrigins, MarkFences,
	MarkExclusions, MarkLineage, MarkLoss, MarkMissing}

// Set sets a mark to what a storage holds under its name. Other names are not known here, and do nothing.
func (m *Marks) Set(name string, value []byte) (err error) {
	switch name {
	case MarkLineage:
		m.Lineage, err = causal.ParseLineage(value)
		m.HasLineage = err == nil
	case MarkOrigins:
		m.Origins = slices.Clone(Origins(value))
	case MarkFences:
		m.Fences, err = causal.ParseFences(value)
	case MarkExclusions:
		m.Exclusions, err = causal.ParseExclusions(value)
	case MarkMissing:
		m.Missing, err = causal.ParseKeyRanges(value)
	default:
		err = m.setNumber(name, value)
	}
	if err != nil {
		return fmt.Errorf("read %s from storage: %w", name, err)
	}
	return nil
}

func (m *Marks) setNumber(name string, value []byte) error {
	n, size := binary.Uvarint(value)
	switch name {
	case MarkStarts:
		m.Starts = n
	case MarkHorizon:
		m.Horizon = causal.HLC(n)
	case MarkState:
		m.State = shard.MigrationState{Map: topology.MapID(n >> 2), Stopped: n&2 != 0, HoldsMovedSlots: n&1 != 0}
	case MarkMoves:
		m.Moves = n
	case MarkCaches:
		m.Caches = topology.CacheLayout(n)
	case MarkLoss:
		m.Loss = shard.Loss(min(n, uint64(shard.NumLosses)))
	default:
		return nil
	}
	switch {
	case size <= 0:
		return fmt.Errorf("its %d bytes are not a number; the storage is damaged, or belongs to another application",
			len(value))
	case m.Loss >= shard.NumLosses:
		return errors.New("it tells of a loss that is not known; a later version has written it")
	}
	return nil
}

// Meta returns a mark as a storage holds it.
func (m *Marks) Meta(name string) member.Meta {
	var n uint64
	switch name {
	case MarkLineage:
		return member.Meta{Name: name, Value: m.Lineage.Encode()}
	case MarkOrigins:
		return member.Meta{Name: name, Value: m.Origins}
	case MarkFences:
		last := slices.Max(append(slices.Collect(maps.Keys(m.Fences)), 0))
		return member.Meta{Name: name, Value: m.Fences.Encode(int(last))}
	case MarkExclusions:
		return member.Meta{Name: name, Value: m.Exclusions.Encode()}
	case MarkMissing:
		return member.Meta{Name: name, Value: m.Missing.Encode()}
	case MarkStarts:
		n = m.Starts
	case MarkHorizon:
		n = uint64(m.Horizon)
	case MarkState:
		n = uint64(m.State.Map) << 2
		if m.State.Stopped {
			n |= 2
		}
		if m.State.HoldsMovedSlots {
			n |= 1
		}
	case MarkMoves:
		n = m.Moves
	case MarkCaches:
		n = uint64(m.Caches)
	case MarkLoss:
		n = uint64(m.Loss)
	}
	return member.Meta{Name: name, Value: binary.AppendUvarint(nil, n)}
}

// Metas returns some marks as a storage holds them.
func (m *Marks) Metas(names ...string) (metas []member.Meta) {
	for _, name := range names {
		metas = append(metas, m.Meta(name))
	}
	return metas
}

// LineageAt returns the lineage of a storage that has come to a position. That of a storage which an earlier version
// has used begins with its last start.
func (m *Marks) LineageAt(at causal.Position) causal.Lineage {
	if !m.HasLineage {
		return causal.Lineage{}.With(m.Starts, at)
	}
	return m.Lineage
}

// Origins is a set of origins, as a bit for each. It is never changed in place.
type Origins []byte

// Has reports whether an origin is in the set.
func (s Origins) Has(o topology.Origin) bool { return int(o/8) < len(s) && s[o/8]&(1<<(o%8)) != 0 }

// With returns the set with another origin.
func (s Origins) With(o topology.Origin) Origins {
	if s.Has(o) {
		return s
	}
	with := make(Origins, max(len(s), int(o/8)+1))
	copy(with, s)
	with[o/8] |= 1 << (o % 8)
	return with
}
