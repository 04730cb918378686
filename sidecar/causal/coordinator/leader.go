package coordinator

import (
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// leader exchanges the vectors of a data center with the other data centers and probes their round trips: one small
// message per pair of data centers, whatever the number of clients. It belongs to the first coordinator of the data
// center and shares its Stability.
type leader struct {
	causal.Outbox
	topo  *topology.Topology
	self  topology.Node
	known *causal.Stability
	// The periods of exchanges while writes complete, while none do, and while the deployment is quiet.
	interval, idleInterval, quietInterval time.Duration
	subscribers                           map[topology.Node]int64 // until when
	subscriberOrder                       []topology.Node
	vectorsChanged                        bool // since the nodes of this data center were last told
	urgent                                bool // a write of this data center was acknowledged since the last exchange
	notifiedAt                            int64
	exchangeAt                            int64
	probe                                 prober
	latencies, expected                   []float64      // in milliseconds, by data center
	told                                  *causal.Routes // as those who were told the latencies have them
	toldAt                                int64
	activeAt                              causal.HLC // when a write was last accepted or acknowledged anywhere
	quiet                                 bool       // that was long ago
	// bits of the coordinators of this data center that take puts, or did lately
	inUse uint64
	relay *relay
	heard heardCoordinators
}

const (
	// probeInterval is the time between two probes of a data center; with quietProbeInterval in a quiet deployment.
	probeInterval      = 250 * time.Millisecond
	quietProbeInterval = time.Second
	// latenciesInterval is how often the latencies are sent though they have not changed, in case messages were lost.
	latenciesInterval = 2 * time.Second
)

func newLeader(cfg Config, known *causal.Stability, now causal.Now) *leader {
	return &leader{
		topo: cfg.Topology, self: cfg.Self, known: known, interval: 2 * cfg.PublishEvery, idleInterval: cfg.IdleEvery,
		quietInterval: cfg.QuietEvery,
		told:          causal.NewRoutes(cfg.Topology, cfg.Self.DC), toldAt: -int64(latenciesInterval),
		subscribers: map[topology.Node]int64{}, probe: newProber(cfg.Topology, cfg.Self.DC), relay: newRelay(cfg, now),
	}
}

// maxSubscribers bounds the sidecars that are sent vectors: as many as there may be links of sidecars (limits.links).
const maxSubscribers = 1 << 14

func (l *leader) step(now causal.Now, m *causal.Message) {
	switch m.Kind {
	case causal.KindSubscribe:
		if _, ok := l.subscribers[m.From]; !ok {
			if len(l.subscribers) >= maxSubscribers {
				return // it asks again; those that are gone are forgotten soon
			}
			l.subscriberOrder = append(l.subscriberOrder, m.From)
			l.Send(l.allVectors().Message(l.self, m.From))
			if l.latencies != nil {
				l.Send(l.allLatencies().Message(l.self, m.From))
			}
		}
		l.subscribers[m.From] = now.Mono + int64(causal.SubscriptionTTL)
	case causal.KindPong:
		l.probe.finish(now, m.From.DC, m.Pong().ID)
	}
}

func (l *leader) allVectors() causal.Vectors {
	return causal.Vectors{Entries: l.known.Entries(), InUse: l.inUse, ActiveAt: l.activeAt}
}

func (l *leader) allLatencies() (all causal.Latencies) {
	for dc, ms := range l.latencies {
		all.RoundTrips = append(all.RoundTrips, causal.RoundTrip{Ms: ms, ExpectedMs: l.expected[dc]})
	}
	return all
}

// tick sends the vectors of this data center to the other leaders, all vectors to the nodes of this data center, and
// the probes.
func (l *leader) tick(now causal.Now) {
	if now.Mono >= l.nextProbe() {
		l.probe.startedAt = now.Mono
		l.probeAll(now)
	}
	if l.vectorsChanged && now.Mono >= l.nextNotification() {
		l.vectorsChanged, l.notifiedAt = false, now.Mono
		l.sendVectors(now)
	}
	if now.Mono >= l.nextExchange() {
		l.exchangeAt, l.urgent = now.Mono, false
		l.exchange(now)
	}
}

// nextTick returns when tick has something to do next, if no input comes before.
func (l *leader) nextTick() int64 {
	next := min(l.nextProbe(), l.nextExchange())
	if l.vectorsChanged {
		next = min(next, l.nextNotification())
	}
	return next
}

func (l *leader) nextProbe() int64 {
	if l.quiet {
		return l.probe.startedAt + int64(quietProbeInterval)
	}
	return l.probe.startedAt + int64(probeInterval)
}

// nextNotification returns when vectors that have changed may be sent to the nodes of this data center.
func (l *leader) nextNotification() int64 {
	if l.quiet {
		return l.notifiedAt + int64(l.quietInterval)
	}
	return l.notifiedAt + int64(l.interval)
}

func (l *leader) nextExchange() int64 {
	switch {
	case l.urgent:
		return l.exchangeAt + int64(l.interval)
	case l.quiet:
		return l.exchangeAt + int64(l.quietInterval)
	}
	return l.exchangeAt + int64(l.idleInterval)
}

// exchange sends the vectors of this data center to the other leaders, and the signed vectors that are due.
func (l *leader) exchange(now causal.Now) {
	first := l.topo.OriginOf(l.self)
	entries := l.known.EntriesBetween(first, first+topology.MaxCoordinators-1)
	for dc := range l.topo.DCs {
		to := topology.DC(dc)
		if to == l.self.DC {
			continue
		}
		l.Send(causal.Vectors{Entries: entries, ActiveAt: l.activeAt, Asks: l.relay.asksOf(now, to),
			Heard: l.heard.bits(now)}.Message(l.self, l.topo.Leader(to)))
		for _, m := range l.relay.messages(now, to, entries) {
			l.Send(m)
		}
	}
}

// sendVectors sends all vectors to the coordinators, middlemen and caches of this data center and to the subscribed
// sidecars. Caches come before sidecars: they refuse cuts that they do not know to be complete.
func (l *leader) sendVectors(now causal.Now) {
	m := l.allVectors().Message(l.self, topology.Node{})
	dc := &l.topo.DCs[l.self.DC]
	for i := 1; i < dc.RunningCoordinators(); i++ {
		l.sendTo(m, topology.Node{DC: l.self.DC, Part: topology.Coordinator, Index: uint64(i)})
	}
	for i := range dc.RunningMiddlemen() {
		l.sendTo(m, topology.Node{DC: l.self.DC, Part: topology.Middleman, Index: uint64(i)})
	}
	for i := range dc.Caches {
		l.sendTo(m, topology.Node{DC: l.self.DC, Part: topology.Cache, Index: uint64(i)})
	}
	l.sendToSubscribers(now, m)
}

// sendLatencies sends the round trips to the caches of this data center and to the subscribed sidecars, if that may
// change their routes, and from time to time in any case.
func (l *leader) sendLatencies(now causal.Now) {
	if !l.told.Update(l.allLatencies()) && now.Mono < l.toldAt+int64(latenciesInterval) {
		return
	}
	l.toldAt = now.Mono
	m := l.allLatencies().Message(l.self, topology.Node{})
	for i := range l.topo.DCs[l.self.DC].Caches {
		l.sendTo(m, topology.Node{DC: l.self.DC, Part: topology.Cache, Index: uint64(i)})
	}
	l.sendToSubscribers(now, m)
}

func (l *leader) sendTo(m causal.Message, to topology.Node) {
	m.To = to
	l.Send(m)
}

// sendToSubscribers sends m to the sidecars whose subscription has not expired, and forgets the others.
func (l *leader) sendToSubscribers(now causal.Now, m causal.Message) {
	kept := l.subscriberOrder[:0]
	for _, n := range l.subscriberOrder {
		if l.subscribers[n] < now.Mono {
			delete(l.subscribers, n)
			continue
		}
		kept = append(kept, n)
		l.sendTo(m, n)
	}
	l.subscriberOrder = kept
}

func (l *leader) probeAll(now causal.Now) {
	for dc := range l.topo.DCs {
		to, shards := topology.DC(dc), 1
		if l.probe.isLate(now, to) {
			shards = l.topo.DCs[dc].RunningMiddlemen()
		}
		id := l.probe.start(now, to)
		for i := range shards {
			l.Send(causal.Ping{ID: id}.Message(l.self,
				topology.Node{DC: to, Part: topology.Middleman, Index: uint64(i)}))
		}
	}
	l.latencies, l.expected = l.probe.latencies(now), l.probe.expected(now)
	l.sendLatencies(now)
}

// forEachRoundTrip calls f for each data center that was probed, with the milliseconds that answered probes took, or a
// negative number if it does not answer. A data center of which only the declared latency is known is left out. The age
// of a late probe, which counts for routes, is no round trip: the probe may have been lost in an outage that is over.
func (l *leader) forEachRoundTrip(f func(dc topology.DC, ms float64)) {
	for dc, ms := range l.latencies {
		switch {
		case ms < 0:
			f(topology.DC(dc), ms)
		case l.probe.answered[dc]:
			f(topology.DC(dc), l.probe.ms[dc])
		}
	}
}
