package sim

import (
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/session"
	"github.com/causalstore/causalstore/topology"
)

// metReader takes that a message between a sidecar and a shard or a cache has met a fault of its link: the sidecar is
// told, late, that the link has broken, and that it is up again. Answers that were on the link may still arrive.
func (ls *coordinatorLinks) metReader(m *causal.Message) {
	sidecar, other := m.From, m.To
	if other.Part == topology.Sidecar {
		sidecar, other = other, sidecar
	}
	if sidecar.Part != topology.Sidecar || other.Part != topology.Middleman && other.Part != topology.Cache {
		return
	}
	after := func(atMost time.Duration) int64 { return ls.readerRNG.Int64N(int64(atMost)) }
	down := after(100 * time.Millisecond)
	ls.w.schedule(down, func() {
		withMachine(ls.w, sidecar, func(m *session.Sidecar, now causal.Now) { m.LinkDown(now, other) })
	})
	ls.w.schedule(down+after(300*time.Millisecond), func() {
		withMachine(ls.w, sidecar, func(m *session.Sidecar, now causal.Now) {
			m.LinkUp(now, other, causal.Leadership{})
		})
	})
}
