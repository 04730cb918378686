package middleman

import (
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// After a restart a middleman has lost the puts that it had received and not written, although other shards may have
// relied on them. It asks every coordinator to send them again, and until it has them it refuses reads that may have to
// see them (PROTOCOL LAN-7).

// laneHelloInterval is how often LaneHello is repeated while a lane is not synchronized.
const laneHelloInterval = 500 * time.Millisecond

// sendLaneHellos asks the coordinators of lanes that are not synchronized to send their puts again, and tells those
// that use another slot map which one is in use here. The leader is also asked for other coordinators' lanes: it knows
// who is away.
func (m *Middleman) sendLaneHellos(now causal.Now) {
	ls := &m.lanes
	if now.Mono < ls.nextHelloAt {
		return
	}
	ls.nextHelloAt = now.Mono + int64(laneHelloInterval)
	ls.allSynced = true
	for dc := range ls.coordinators.DCs {
		leader := ls.coordinators.OriginOf(ls.coordinators.Leader(topology.DC(dc)))
		dcSynced := true
		for i := range topology.MaxCoordinators {
			l := ls.byOrigin[leader+topology.Origin(i)]
			dcSynced = dcSynced && l.synced
			exists := i < ls.coordinators.DCs[dc].RunningCoordinators() || l.received > 0
			if i > 0 && exists && (!l.synced || l.otherMap) {
				m.sendLaneHello(topology.DC(dc), i, l)
			}
		}
		if l := ls.byOrigin[leader]; !dcSynced || l.otherMap {
			m.sendLaneHello(topology.DC(dc), 0, l)
		}
		ls.allSynced = ls.allSynced && dcSynced
	}
}

func (m *Middleman) sendLaneHello(dc topology.DC, index int, l *lane) {
	to := topology.Node{DC: dc, Part: topology.Coordinator, Index: uint64(index)}
	hello := causal.LaneHello{Incarnation: m.cfg.Incarnation, Map: m.slotMap(), AwayOnly: l.synced && !l.otherMap,
		Lost: m.backfill != nil, Round: m.helloRound()}
	m.Send(hello.Message(m.cfg.Self, to))
	l.otherMap = false
}

func (m *Middleman) syncLane(now causal.Now, from topology.Node, s causal.LaneSync) {
	if s.Incarnation != m.cfg.Incarnation || s.Round != m.helloRound() || !m.usesSlotMap(s.Map) {
		return // it answers an earlier incarnation or hello, or is about a lane of another map
	}
	if s.Surpassed != 0 {
		if m.backfill != nil && causal.IsPlausible(s.Surpassed, causal.IncarnationBits, m.timeLimit(now)) {
			m.backfill.surpassed = max(m.backfill.surpassed, s.Surpassed)
		}
		return
	}
	o := m.cfg.Topology.OriginOf(from)
	m.history.compare(now, o, from, &s)
	if m.backfill != nil && !m.backfill.admit(now, o, s.Generation) || s.Recovering {
		return // it is asked again
	}
	m.lanes.of(o).sync(s.Newest, min(s.AckedUpTo, m.timeLimit(now)))
	m.frontiers.noteProgress(now, o)
	if from != m.cfg.Topology.Leader(from.DC) {
		return // only the leader knows who is away
	}
	for i := 1; i < topology.MaxCoordinators; i++ {
		if s.Away&(1<<i) != 0 {
			m.lanes.of(o + topology.Origin(i)).synced = true // an absent coordinator has no incomplete write
		}
	}
	m.history.check(now)
}

// mayLackWritesUpTo reports whether writes at or below hlc may have been received before a restart and not again since.
func (m *Middleman) mayLackWritesUpTo(hlc causal.HLC) bool {
	if m.lanes.allSynced || m.cfg.Broken.Has(causal.RestartUnsynced) {
		return false
	}
	for o := 1; o < len(m.lanes.byOrigin); o++ {
		if !m.lanes.byOrigin[o].synced && m.known.RV(m.ring, topology.Origin(o)) < hlc {
			return true
		}
	}
	return false
}
