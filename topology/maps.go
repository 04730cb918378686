package topology

import (
	"fmt"

	"github.com/cespare/xxhash/v2"
)

// Resharding moves slots between the middlemen of a ring. Meanwhile the topology holds the old shard counts as well
// (DataCenter.ShardsBefore), so a ring has two slot maps: the old and the new one. Each part switches from the old to
// the new map ring by ring, and messages that depend on the map carry its MapID.

// MapID identifies the map from the slots of a ring to its middlemen. It is computed from the data centers of the ring
// and their shard counts alone, so all parts compute the same one, whenever they learn of a change. 0 is no map.
type MapID uint32

// CacheLayout identifies the cache counts of all data centers, which determine the cache that holds a key. It is never
// 0.
type CacheLayout uint32

// foldToID folds a hash to 32 bits, and avoids 0.
func foldToID(hash uint64) uint32 {
	if id := uint32(hash ^ hash>>32); id != 0 {
		return id
	}
	return 1
}

// Map returns the slot map that t uses for a ring.
func (t *Topology) Map(r RingID) MapID { return t.mapIDs[r] }

// RingMiddlemen returns the middlemen that own slots of a ring. Callers must not modify the slice.
func (t *Topology) RingMiddlemen(r RingID) []Node { return t.middlemen[r] }

// Resharding returns the rings with a change of shards in progress.
func (t *Topology) Resharding() RingSet {
	var rings RingSet
	for r, ring := range t.Rings {
		for _, dc := range ring.DCs {
			if d := &t.DCs[dc]; d.shardCount(true) != d.Shards {
				rings = rings.With(RingID(r))
			}
		}
	}
	return rings
}

// CacheLayout returns the identifier of the cache counts.
func (t *Topology) CacheLayout() CacheLayout {
	d := xxhash.New()
	for _, dc := range t.DCs {
		fmt.Fprintf(d, "%d ", dc.Caches)
	}
	return CacheLayout(foldToID(d.Sum64()))
}

// WithOldMaps returns the topology that uses the old slot map for the given rings, and the new one for the others.
// Rings that are not resharding have only one map.
func (t *Topology) WithOldMaps(rings RingSet) *Topology {
	if rings &= t.Resharding(); rings == t.oldMaps {
		return t
	}
	u := *t
	u.oldMaps = rings
	u.owners = append([][]Node(nil), t.owners...)
	u.middlemen = append([][]Node(nil), t.middlemen...)
	u.mapIDs = append([]MapID(nil), t.mapIDs...)
	for r := range t.Rings {
		if id := RingID(r); rings.Has(id) != t.oldMaps.Has(id) {
			u.assignSlots(id, rings.Has(id))
		}
	}
	return &u
}
