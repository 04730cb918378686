package coordinator

import (
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// prober measures the round trip to one middleman of every data center (PROTOCOL RTE-1). If that does not answer, it
// asks all of them: a data center of which one shard is slow or down is there.
type prober struct {
	ms       []float64 // moving average, by data center
	answered []bool    // whether a probe was ever answered, by data center
	pending  [][]probe // oldest first, by data center
	nextID   uint64
	// startedAt is when the last probes were sent.
	startedAt int64
}

type probe struct {
	id     uint64
	sentAt int64
}

// unreachableAfter is how long a data center leaves all probes unanswered before it counts as unreachable.
const unreachableAfter = 3 * time.Second

// lateProbe is how long a probe is unanswered until all middlemen of the data center are probed.
const lateProbe = time.Second

// isLate reports whether no probe of a data center was answered for a while.
func (p *prober) isLate(now causal.Now, dc topology.DC) bool {
	return len(p.pending[dc]) > 0 && now.Mono-p.pending[dc][0].sentAt >= int64(lateProbe)
}

// maxProbes bounds the pending probes of one data center. It is more than are sent in unreachableAfter.
const maxProbes = 16

func newProber(t *topology.Topology, self topology.DC) prober {
	return prober{startedAt: -int64(quietProbeInterval), ms: append([]float64(nil), t.RTT[self]...),
		answered: make([]bool, len(t.DCs)), pending: make([][]probe, len(t.DCs))}
}

// start returns the id of the next probe. When there are too many, the second oldest is forgotten: the oldest says for
// how long there was no answer.
func (p *prober) start(now causal.Now, dc topology.DC) uint64 {
	p.nextID++
	if len(p.pending[dc]) == maxProbes {
		p.pending[dc] = append(p.pending[dc][:1], p.pending[dc][2:]...)
	}
	p.pending[dc] = append(p.pending[dc], probe{p.nextID, now.Mono})
	return p.nextID
}

// finish takes an answer. Probes before the answered one are lost and no longer counted.
func (p *prober) finish(now causal.Now, dc topology.DC, id uint64) {
	if int(dc) >= len(p.ms) {
		return
	}
	for i, s := range p.pending[dc] {
		if s.id == id {
			p.ms[dc] += (float64(now.Mono-s.sentAt)/1e6 - p.ms[dc]) / 2
			p.answered[dc] = true
			p.pending[dc] = append(p.pending[dc][:0], p.pending[dc][i+1:]...)
			return
		}
	}
}

// maxLateMs bounds what a late probe adds to the time in which answers are expected. A data center that has become slow
// answers within that; who waits for one that is dead should not wait the longer the longer it has been dead.
const maxLateMs = 500

// expected returns in how many milliseconds answers are expected, by data center.
func (p *prober) expected(now causal.Now) []float64 {
	out := p.latencies(now)
	for i, ms := range p.ms {
		if out[i] < 0 {
			out[i] = ms
		}
		out[i] = min(out[i], max(ms, maxLateMs))
	}
	return out
}

// latencies returns milliseconds by data center; negative is unreachable. A late probe counts as at least its age.
func (p *prober) latencies(now causal.Now) []float64 {
	out := make([]float64, len(p.ms))
	for i, ms := range p.ms {
		out[i] = ms
		if len(p.pending[i]) == 0 {
			continue
		}
		age := now.Mono - p.pending[i][0].sentAt
		out[i] = max(ms, float64(age)/1e6)
		if age >= int64(unreachableAfter) {
			out[i] = -1
		}
	}
	return out
}
