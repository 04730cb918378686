package session

import "github.com/causalstore/causalstore/topology"

// A cursor is a ScanPosition as a number, which any sidecar of the data center understands: clients know no more of a
// scan. It is below 2^53, since some of them take it for a floating-point number.
//
//	bit 52     1
//	bit 51     the index is that of a home
//	bits 45-50 the ring
//	bits 33-44 the index of the home, or of the shard in the ring
//	bits 25-32 of the slot map
//	bits 0-24  the number of the place, at the home or the shard; if it begins there, further bits of the slot map
//
// A place is known to one life of a shard, which also has one slot map. So a cursor of before a change of shards is not
// taken for a place of after it, but for one in 2^33 of those that lie between two shards.
const (
	cursorPlaceBits = 25 // causal.ScanPlaceBits
	cursorMapBits   = 8
	cursorIndexBits = 12
	cursorRingBits  = 6
	cursorMapShift  = cursorPlaceBits
	cursorIndexAt   = cursorMapShift + cursorMapBits
	cursorRingAt    = cursorIndexAt + cursorIndexBits
	cursorHomeAt    = cursorRingAt + cursorRingBits
	cursorBegunAt   = cursorHomeAt + 1
)

// mapBits returns bits of a slot map: those that are in every cursor, and those of one that lies between two shards.
func mapBits(m topology.MapID) (always, between uint64) {
	spread := uint64(m) * 0x9E3779B97F4A7C15
	return spread >> (64 - cursorMapBits), spread >> (64 - cursorMapBits - cursorPlaceBits) & (1<<cursorPlaceBits - 1)
}

// Cursor returns a position as a number: 0 if the scan is done. It returns false if it has no number, because the part
// that told it is of an earlier version.
func (p ScanPosition) Cursor() (cursor uint64, ok bool) {
	if p.Done {
		return 0, true
	}
	cursor = 1<<cursorBegunAt | p.Place
	index := p.Shard
	if p.Map == 0 {
		cursor |= 1 << cursorHomeAt
		index = p.Home
	} else {
		always, between := mapBits(p.Map)
		cursor |= uint64(p.Ring)<<cursorRingAt | always<<cursorMapShift
		if p.After == "" && p.Place == 0 {
			cursor |= between
		}
	}
	return cursor | uint64(index)<<cursorIndexAt, (p.After == "") == (p.Place == 0) && index < 1<<cursorIndexBits
}

// positionOf returns the position of a cursor. It returns false if there is none with the slot maps in use.
func (s *Sidecar) positionOf(cursor uint64) (p ScanPosition, ok bool) {
	field := func(at, bits int) uint64 { return cursor >> at & (1<<bits - 1) }
	index := int(field(cursorIndexAt, cursorIndexBits))
	p.Place = field(0, cursorPlaceBits)
	if cursor>>cursorBegunAt != 1 {
		return p, false
	}
	if field(cursorHomeAt, 1) == 1 {
		p.Home = index
		return p, true
	}
	ring, t := topology.RingID(field(cursorRingAt, cursorRingBits)), s.cfg.Topology
	if int(ring) >= len(t.Rings) || index >= len(t.RingMiddlemen(ring)) {
		return p, false
	}
	p.Ring, p.Map, p.Shard = ring, t.Map(ring), index
	always, between := mapBits(p.Map)
	if p.Place == between { // a shard has no such place, with all likelihood
		p.Place = 0
	}
	return p, field(cursorMapShift, cursorMapBits) == always
}
