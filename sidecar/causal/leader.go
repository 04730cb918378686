package causal

import (
	"time"

	"github.com/causalstore/causalstore/sidecar/topology"
)

// Leader exchanges the vectors of one DC with the other DCs and probes their latencies: one small message per DC pair,
// whatever the number of clients. It is a part of the DC's first coordinator and shares its Stability.
type Leader struct {
	outbox
	topo        *topology.Topology
	self        topology.Node
	known       *Stability
	every, idle time.Duration
	subscribers map[topology.Node]int64 // until when
	order       []topology.Node
	changed     bool // the nodes of this DC do not know all yet
	urgent      bool // a write of this DC was acknowledged, not only time has passed
	localAt     int64
	exchangeAt  int64
	fullAt      int64
	probe       prober
	latencies   []float64 // as this DC was last told
	inUse       uint64    // bits of the coordinators of this DC that take puts, or did lately
}

const (
	// subscription is how long a sidecar gets the vectors after it asked.
	subscription = 10 * time.Second
	// fullEvery is the period in which a leader sends all that it knows, so that what one DC cannot hear directly comes
	// round by another.
	fullEvery  = 500 * time.Millisecond
	probeEvery = 250 * time.Millisecond
)

func newLeader(cfg CoordinatorConfig, known *Stability) *Leader {
	return &Leader{
		topo: cfg.Topology, self: cfg.Self, known: known, every: 2 * cfg.PublishEvery, idle: cfg.IdleEvery,
		subscribers: map[topology.Node]int64{}, probe: newProber(cfg.Topology, cfg.Self.DC),
	}
}

func (l *Leader) step(now Now, m *Message) {
	switch m.Kind {
	case KindSubscribe:
		if _, ok := l.subscribers[m.From]; !ok {
			l.order = append(l.order, m.From)
			l.send(Message{Kind: KindVectors, From: l.self, To: m.From, Vectors: l.known.Entries(), Seq: l.inUse})
		}
		l.subscribers[m.From] = now.Mono + int64(subscription)
	case KindPong:
		l.probe.pong(now, m)
	}
}

// tick sends the vectors of this DC to the other leaders, all vectors to the nodes of this DC, and the probes.
func (l *Leader) tick(now Now) {
	if l.probe.due(now, probeEvery) {
		l.probeAll(now)
	}
	if l.changed && now.Mono-l.localAt >= int64(l.every) {
		l.changed, l.localAt = false, now.Mono
		l.toNodes(now, Message{Kind: KindVectors, From: l.self, Vectors: l.known.Entries(), Seq: l.inUse})
	}
	every := l.idle
	if l.urgent {
		every = l.every
	}
	if now.Mono-l.exchangeAt >= int64(every) {
		l.exchangeAt, l.urgent = now.Mono, false
		l.exchange(now)
	}
}

func (l *Leader) exchange(now Now) {
	var vectors []VectorEntry
	if now.Mono-l.fullAt >= int64(fullEvery) {
		l.fullAt, vectors = now.Mono, l.known.Entries()
	} else {
		first := l.topo.OriginOf(l.self)
		vectors = l.known.between(first, first+topology.MaxCoordinators-1)
	}
	for dc := range l.topo.DCs {
		if topology.DC(dc) != l.self.DC {
			l.send(Message{Kind: KindVectors, From: l.self, To: l.topo.Leader(topology.DC(dc)), Vectors: vectors})
		}
	}
}

// toNodes sends m to the nodes of this DC that use it: middlemen and coordinators the vectors, caches the latencies,
// subscribed sidecars both.
func (l *Leader) toNodes(now Now, m Message) {
	part, n := topology.Cache, l.topo.DCs[l.self.DC].Caches
	if m.Kind == KindVectors {
		part, n = topology.Middleman, l.topo.DCs[l.self.DC].Middlemen()
		for i := 1; i < l.topo.DCs[l.self.DC].Writers(); i++ {
			m.To = topology.Node{DC: l.self.DC, Part: topology.Coordinator, Index: uint64(i)}
			l.send(m)
		}
	}
	for i := range n {
		m.To = topology.Node{DC: l.self.DC, Part: part, Index: uint64(i)}
		l.send(m)
	}
	kept := l.order[:0]
	for _, n := range l.order {
		if l.subscribers[n] < now.Mono {
			delete(l.subscribers, n)
			continue
		}
		kept = append(kept, n)
		m.To = n
		l.send(m)
	}
	l.order = kept
}

func (l *Leader) probeAll(now Now) {
	for dc := range l.topo.DCs {
		l.send(Message{Kind: KindPing, From: l.self, To: topology.Node{DC: topology.DC(dc), Part: topology.Middleman}, ID: l.probe.ping(now, topology.DC(dc))})
	}
	l.latencies = l.probe.latencies(now)
	l.toNodes(now, Message{Kind: KindLatencies, From: l.self, Latencies: l.latencies})
}

// roundTrips calls f for each DC that was probed, with milliseconds, or less than 0 if it does not answer. A DC of which only the
// declared latency is known is left out.
func (l *Leader) roundTrips(f func(dc topology.DC, ms float64)) {
	for dc, ms := range l.latencies {
		if ms < 0 || l.probe.heard[dc] {
			f(topology.DC(dc), ms)
		}
	}
}
