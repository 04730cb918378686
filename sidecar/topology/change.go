package topology

import (
	"fmt"

	"github.com/cespare/xxhash/v2"
)

// A change of shards moves slots between the middlemen of a ring. While it is under way the topology says how many shards
// there were before (DataCenter.ShardsBefore), so that there are two maps of the ring: the one before, and the one that
// counts in the end. Each part uses the one or the other, ring by ring; messages that depend on the map name it.

// MapID names a map from the slots of a ring to its middlemen. It follows from the data centres of the ring and their
// shards alone, so all parts have the same, wherever and in whatever order they were told. 0 is no map.
type MapID uint32

func mapID(sum uint64) MapID {
	if id := MapID(sum ^ sum>>32); id != 0 {
		return id
	}
	return 1
}

// Map returns the map of a ring.
func (t *Topology) Map(r RingID) MapID { return t.maps[r] }

// Members returns the middlemen that own slots of a ring. The slice is shared.
func (t *Topology) Members(r RingID) []Node { return t.members[r] }

// Changing returns the rings whose shards are to change.
func (t *Topology) Changing() RingSet {
	var rings RingSet
	for r, ring := range t.Rings {
		for _, dc := range ring.DCs {
			if d := &t.DCs[dc]; d.shards(true) != d.Shards {
				rings = rings.With(RingID(r))
			}
		}
	}
	return rings
}

// Caches names the numbers of caches of all data centres. Which cache holds a key follows from them.
func (t *Topology) Caches() MapID {
	d := xxhash.New()
	for _, dc := range t.DCs {
		fmt.Fprintf(d, "%d ", dc.Caches)
	}
	return mapID(d.Sum64())
}

// Before returns the topology with the maps of before the change in the given rings, and those that are to be in the others.
func (t *Topology) Before(rings RingSet) *Topology {
	if rings &= t.Changing(); rings == t.before {
		return t
	}
	u := *t
	u.before = rings
	u.owners = append([][]Node(nil), t.owners...)
	u.members = append([][]Node(nil), t.members...)
	u.maps = append([]MapID(nil), t.maps...)
	for r := range t.Rings {
		if id := RingID(r); rings.Has(id) != t.before.Has(id) {
			u.place(id, rings.Has(id))
		}
	}
	return &u
}
