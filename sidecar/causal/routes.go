package causal

import (
	"time"

	"github.com/causalstore/causalstore/sidecar/topology"
)

// prober measures the round trip to one middleman of every DC.
type prober struct {
	ms    []float64 // EWMA, by DC
	heard []bool    // whether a probe was ever answered, by DC
	sent  [][]probe // not answered, oldest first, by DC
	next  uint64
	dueAt int64
}

type probe struct {
	id     uint64
	sentAt int64
}

// pingLost is when a DC that answers no probe counts as unreachable.
const pingLost = 3 * time.Second

// maxProbes bounds the probes to one DC that are remembered: more than go out while one is not lost yet.
const maxProbes = 16

func newProber(t *topology.Topology, self topology.DC) prober {
	return prober{ms: append([]float64(nil), t.RTT[self]...), heard: make([]bool, len(t.DCs)), sent: make([][]probe, len(t.DCs))}
}

func (p *prober) due(now Now, every time.Duration) bool {
	if now.Mono < p.dueAt {
		return false
	}
	p.dueAt = now.Mono + int64(every)
	return true
}

// ping returns the id of the next probe. The oldest is kept while others go: it says for how long there was no answer.
func (p *prober) ping(now Now, dc topology.DC) uint64 {
	p.next++
	if len(p.sent[dc]) == maxProbes {
		p.sent[dc] = append(p.sent[dc][:1], p.sent[dc][2:]...)
	}
	p.sent[dc] = append(p.sent[dc], probe{p.next, now.Mono})
	return p.next
}

// pong takes an answer. Probes before the answered one are lost, and say nothing any more.
func (p *prober) pong(now Now, m *Message) {
	dc := m.From.DC
	if int(dc) >= len(p.ms) {
		return
	}
	for i, s := range p.sent[dc] {
		if s.id == m.ID {
			p.ms[dc] += (float64(now.Mono-s.sentAt)/1e6 - p.ms[dc]) / 2
			p.heard[dc] = true
			p.sent[dc] = append(p.sent[dc][:0], p.sent[dc][i+1:]...)
			return
		}
	}
}

// latencies returns milliseconds by DC; negative is unreachable. A probe that is late counts as at least its age.
func (p *prober) latencies(now Now) []float64 {
	out := make([]float64, len(p.ms))
	for i, ms := range p.ms {
		out[i] = ms
		if len(p.sent[i]) == 0 {
			continue
		}
		age := now.Mono - p.sent[i][0].sentAt
		out[i] = max(ms, float64(age)/1e6)
		if age >= int64(pingLost) {
			out[i] = -1
		}
	}
	return out
}

// Routes picks the ring to read a slot from: the nearest whose shard is reachable (PROTOCOL §7).
type Routes struct {
	topo    *topology.Topology
	self    topology.DC
	ms      []float64
	suspect []int64 // by DC: until when it is avoided, because a request to it timed out
}

// suspicion is how long a DC is avoided after a time-out.
const suspicion = 2 * time.Second

// unreachableMs ranks a DC that does not answer behind every one that does.
const unreachableMs = 1e6

// hysteresis is the change of a latency below which routes stay as they are.
const hysteresis = 0.2

// NewRoutes starts with the declared latencies.
func NewRoutes(t *topology.Topology, self topology.DC) *Routes {
	return &Routes{topo: t, self: self, ms: append([]float64(nil), t.RTT[self]...), suspect: make([]int64, len(t.DCs))}
}

// Update takes probed latencies.
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

// TimedOut notes that a node of dc did not answer.
func (r *Routes) TimedOut(now Now, dc topology.DC) { r.suspect[dc] = now.Mono + int64(suspicion) }

// Ms returns the latency that routes count with, in milliseconds.
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
		if ms := r.Ms(now, r.topo.Owner(id, slot).DC); !found || ms < bestMs {
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
			worst = max(worst, r.Ms(now, r.topo.Owner(id, s).DC))
		}
		if !found || worst < bestMs {
			best, bestMs, found = id, worst, true
		}
	}
	return best, found
}

// Timeout returns how long an answer from dc is waited for before another way is tried.
func (r *Routes) Timeout(dc topology.DC) time.Duration {
	return 250*time.Millisecond + time.Duration(3*min(r.ms[dc], 2000)*1e6)
}
