package causal

import (
	"math"
	"slices"
	"time"

	"github.com/causalstore/causalstore/topology"
)

// Routes picks the ring to read a slot from: the nearest whose shard is reachable (PROTOCOL RTE).
type Routes struct {
	// Suspects are the nodes that did not answer; the owner also adds nodes that are not on any route, such as caches.
	Suspects Suspects
	topo     *topology.Topology
	self     topology.DC
	ms       []float64
	expected []float64 // RoundTrip.ExpectedMs, or the declared ones
}

// suspicionTime is how long a shard is avoided at least after a time-out: it may answer pings, and be slow at
// everything else.
const suspicionTime = 2 * time.Second

// unreachableMs ranks a data center that does not answer behind all that do.
const unreachableMs = 1e6

// hysteresis is the relative change of a latency below which routes stay as they are.
const hysteresis = 0.2

// NewRoutes returns routes by the declared latencies.
func NewRoutes(t *topology.Topology, self topology.DC) *Routes {
	return &Routes{topo: t, self: self, ms: slices.Clone(t.RTT[self]), expected: slices.Clone(t.RTT[self])}
}

// SetTopology takes a topology that differs from the one in use in the slot maps and the numbers of caches only.
func (r *Routes) SetTopology(t *topology.Topology) {
	r.topo = t
	r.Suspects.SetTopology(t)
}

// Update takes probed latencies. It reports whether any route may change.
func (r *Routes) Update(l Latencies) (changed bool) {
	for i, is := range l.RoundTrips[:min(len(r.ms), len(l.RoundTrips))] {
		v := is.Ms
		if v < 0 {
			v = unreachableMs
		}
		if math.Abs(v-r.ms[i]) > 1+hysteresis*r.ms[i] {
			r.ms[i], changed = v, true
		}
		r.expected[i] = max(is.ExpectedMs, 0)
	}
	return changed
}

// NoteDataLost records that a shard refuses reads, because it has lost its data.
func (r *Routes) NoteDataLost(now Now, shard topology.Node) {
	r.Suspects.Add(now, shard, suspicionTime)
}

// TimedOut records that a shard did not answer. The other shards of its data center may be as unreachable: they are
// avoided too, until they answer a ping.
func (r *Routes) TimedOut(now Now, shard topology.Node) {
	r.Suspects.Add(now, shard, suspicionTime)
	for i := range r.topo.DCs[shard.DC].RunningMiddlemen() {
		if uint64(i) != shard.Index {
			r.Suspects.Add(now, topology.Node{DC: shard.DC, Part: topology.Middleman, Index: uint64(i)}, 0)
		}
	}
}

// AnsweredLate records that a shard has not answered a read in time, but others. What cannot be read elsewhere is still
// read there.
func (r *Routes) AnsweredLate(now Now, shard topology.Node) {
	r.Suspects.AvoidFor(now, shard, suspicionTime)
}

// Ms returns the latency by which dc is ranked, in milliseconds. One with no shard that answers comes last.
func (r *Routes) Ms(now Now, dc topology.DC) float64 {
	shards := r.topo.DCs[dc].RunningMiddlemen()
	for i := range shards {
		if !r.Suspects.Has(now, topology.Node{DC: dc, Part: topology.Middleman, Index: uint64(i)}) {
			return r.ms[dc]
		}
	}
	if shards == 0 {
		return r.ms[dc]
	}
	return unreachableMs + r.ms[dc]
}

// shardMs returns the latency by which the shard that owns a slot in a ring is ranked.
func (r *Routes) shardMs(now Now, ring topology.RingID, slot topology.Slot) float64 {
	shard := r.topo.Owner(ring, slot)
	if r.Suspects.Has(now, shard) {
		return unreachableMs + r.ms[shard.DC]
	}
	return r.ms[shard.DC]
}

// Nearest returns the ring among allowed whose shard for slot is nearest, or false if allowed is empty.
func (r *Routes) Nearest(now Now, slot topology.Slot, allowed topology.RingSet) (topology.RingID, bool) {
	best, found := topology.NoRing, false
	var bestMs float64
	for ring := range r.topo.Rings {
		id := topology.RingID(ring)
		if !allowed.Has(id) {
			continue
		}
		if ms := r.shardMs(now, id, slot); !found || ms < bestMs {
			best, bestMs, found = id, ms, true
		}
	}
	return best, found
}

// NearestAll returns the ring among allowed in which the farthest of the slots is nearest.
func (r *Routes) NearestAll(now Now, slots []topology.Slot, allowed topology.RingSet) (topology.RingID, bool) {
	best, found := topology.NoRing, false
	var bestMs float64
	for ring := range r.topo.Rings {
		id := topology.RingID(ring)
		if !allowed.Has(id) {
			continue
		}
		var worst float64
		for _, s := range slots {
			worst = max(worst, r.shardMs(now, id, s))
		}
		if !found || worst < bestMs {
			best, bestMs, found = id, worst, true
		}
	}
	return best, found
}

// OutOfReach reports whether there is no hope for a read of a slot from rings: no other data center answers the leader
// of this one, so it is this one that is cut off, and no shard that has the slot answers. That takes two others: a
// single one may restart. A shard in this data center is on this side of the cut, so it is slow or restarts, and there
// is hope.
func (r *Routes) OutOfReach(now Now, slot topology.Slot, rings topology.RingSet) bool {
	others := 0
	for dc, ms := range r.ms {
		switch {
		case topology.DC(dc) == r.self:
		case ms < unreachableMs:
			return false
		default:
			others++
		}
	}
	for ring := range r.topo.Rings {
		if !rings.Has(topology.RingID(ring)) {
			continue
		}
		if shard := r.topo.Owner(topology.RingID(ring), slot); shard.DC == r.self || !r.Suspects.Has(now, shard) {
			return false
		}
	}
	return others > 1
}

// Timeout returns how long to wait for an answer from dc before another way is tried. One that does not answer is asked
// if there is no other way; there may be one soon.
func (r *Routes) Timeout(dc topology.DC) time.Duration {
	return 250*time.Millisecond + time.Duration(3*min(r.expected[dc], 2000)*1e6)
}
