package causal

import (
	"time"

	"github.com/causalstore/causalstore/sidecar/topology"
)

// Routes picks the ring to read a slot from: the nearest whose shard is reachable (PROTOCOL §7).
type Routes struct {
	topo    *topology.Topology
	self    topology.DC
	ms      []float64
	suspect []int64                 // by DC: until when it is avoided, because a request to it timed out
	lost    map[topology.Node]int64 // until when a shard is avoided, because it has lost its data
}

// suspicionTime is how long a data center is avoided after a time-out.
const suspicionTime = 2 * time.Second

// unreachableMs ranks a data center that does not answer behind all that do.
const unreachableMs = 1e6

// hysteresis is the relative change of a latency below which routes stay as they are.
const hysteresis = 0.2

// NewRoutes returns routes by the declared latencies.
func NewRoutes(t *topology.Topology, self topology.DC) *Routes {
	return &Routes{topo: t, self: self, ms: append([]float64(nil), t.RTT[self]...), suspect: make([]int64, len(t.DCs)), lost: map[topology.Node]int64{}}
}

// SetTopology takes a topology that differs from the one in use in the slot maps only.
func (r *Routes) SetTopology(t *topology.Topology) { r.topo = t }

// Update takes probed latencies in milliseconds by data center; negative: unreachable.
func (r *Routes) Update(ms []float64) {
	for i := range r.ms {
		if i >= len(ms) {
			return
		}
		v := ms[i]
		if v < 0 {
			v = unreachableMs
		}
		if d := v - r.ms[i]; d > 1+hysteresis*r.ms[i] || -d > 1+hysteresis*r.ms[i] {
			r.ms[i] = v
		}
	}
}

// TimedOut records that a node of dc did not answer.
func (r *Routes) TimedOut(now Now, dc topology.DC) { r.suspect[dc] = now.Mono + int64(suspicionTime) }

// NoteDataLost records that a shard refuses reads, because it has lost its data.
func (r *Routes) NoteDataLost(now Now, shard topology.Node) {
	r.lost[shard] = now.Mono + int64(suspicionTime)
}

// shardMs returns the latency by which a shard is ranked, in milliseconds.
func (r *Routes) shardMs(now Now, shard topology.Node) float64 {
	ms := r.Ms(now, shard.DC)
	if len(r.lost) > 0 && r.lost[shard] > now.Mono {
		ms += unreachableMs
	}
	return ms
}

// Ms returns the latency by which dc is ranked, in milliseconds.
func (r *Routes) Ms(now Now, dc topology.DC) float64 {
	if r.suspect[dc] > now.Mono {
		return unreachableMs + r.ms[dc]
	}
	return r.ms[dc]
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
		if ms := r.shardMs(now, r.topo.Owner(id, slot)); !found || ms < bestMs {
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
			worst = max(worst, r.shardMs(now, r.topo.Owner(id, s)))
		}
		if !found || worst < bestMs {
			best, bestMs, found = id, worst, true
		}
	}
	return best, found
}

// Timeout returns how long to wait for an answer from dc before another way is tried.
func (r *Routes) Timeout(dc topology.DC) time.Duration {
	return 250*time.Millisecond + time.Duration(3*min(r.ms[dc], 2000)*1e6)
}
