package sim

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/causalstore/causalstore/history"
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/coordinator"
	"github.com/causalstore/causalstore/sidecar/causal/member"
	"github.com/causalstore/causalstore/topology"
)

// lostLog is what is lost with a log that was given up: the writes of an origin between two timestamps, but for those
// that were salvaged.
type lostLog struct {
	origin      topology.Origin
	above, upTo causal.HLC
	salvaged    map[causal.Version]bool
}

func (l *lostLog) has(v causal.Version) bool {
	return v.Origin == l.origin && v.HLC > l.above && v.HLC <= l.upTo && !l.salvaged[v]
}

// giveUpLog makes a coordinator come back with an empty disk. Somebody gives its log up, whenever it is lost. The last
// puts of the lost log reach one shard seconds late, and some of the others not at all. Another coordinator may be cut
// off from a shard for as long as a log is given up.
func (c *faultInjector) giveUpLog(duration int64) {
	n := c.anyOf(c.byPart[topology.Coordinator])
	m, ok := n.m.(*member.Coordinator)
	if !ok || m.Serving() == nil || m.Serving().Membership() != coordinator.Serving || !c.w.hasTrace(n.id) {
		return
	}
	const last = int64(400 * time.Millisecond)
	late := c.anyOf(c.byPart[topology.Middleman])
	c.lagPair(n, late, int64(2*time.Second)+c.w.rng.Int64N(int64(9*time.Second)), last)
	for _, mm := range c.byPart[topology.Middleman] {
		if mm != late && c.w.rng.IntN(3) > 0 {
			c.cutPair(n, mm, last)
		}
	}
	if other := c.anyOf(c.byPart[topology.Coordinator]); other != n && c.w.rng.IntN(2) == 0 {
		c.cutPair(other, c.anyOf(c.byPart[topology.Middleman]), int64(14*time.Second))
	}
	c.later(last/2+c.w.rng.Int64N(last/2), func() {
		if n.m == m {
			c.crashNode(n, LogGivenUp, duration)
			n.disk = newDisk()
		}
	})
	if !c.w.givesUp {
		c.w.givesUp = true
		c.acceptLosses()
	}
}

// acceptLosses gives up every log that is lost, again and again.
func (c *faultInjector) acceptLosses() {
	for _, n := range c.byPart[topology.Coordinator] {
		if m, ok := n.m.(*member.Coordinator); ok && m.Serving() != nil &&
			m.Serving().Membership() == coordinator.LogLost && !m.Serving().IsRetired() {
			if err := m.AcceptLoss(c.w.clock(n)); err != nil {
				panic(err) // it said that it is lost
			}
			c.w.flush(n)
		}
	}
	c.w.schedule(int64(300*time.Millisecond), c.acceptLosses)
}

// noteSalvage notes what is lost when a coordinator begins a log with what it has salvaged.
func (w *World) noteSalvage(n *node) {
	c := n.coordinator()
	if c == nil {
		n.salvages = nil
		return
	}
	active, _, _ := c.Salvaging()
	if began := !active && n.salvages == c; began {
		o := w.topo.OriginOf(n.id)
		l := lostLog{origin: o, above: c.Known().SV(o), upTo: causal.HLCAt(w.clock(n).WallMs),
			salvaged: map[causal.Version]bool{}}
		for _, v := range c.Recovered() {
			l.salvaged[v] = true
		}
		w.lostLogs = append(w.lostLogs, l)
	}
	n.salvages = nil
	if active {
		n.salvages = c
	}
}

// withoutLost returns a history without writes that were lost with logs that were given up. A read that returned one is
// left out; of a value that merges, what remains has to be there nevertheless.
func (w *World) withoutLost(h history.History) history.History {
	if len(w.lostLogs) == 0 {
		return h
	}
	isLost := func(v causal.Version) bool {
		return slices.ContainsFunc(w.lostLogs, func(l lostLog) bool { return l.has(v) })
	}
	left := make(history.History, 0, len(h))
	for _, op := range h {
		isLeft := false
		op.Parts, isLeft = withoutParts(op.Parts, op.Version, isLost)
		op.Reads = slices.Clone(op.Reads)
		for i := range op.Reads {
			r, ok := &op.Reads[i], false
			r.Parts, ok = withoutParts(r.Parts, r.Version, isLost)
			isLeft = isLeft && ok
		}
		if isLeft {
			left = append(left, op)
		}
	}
	return left
}

// withoutParts returns the parts of a value that are not lost, and whether something of the value is left. One without
// parts is the register of the version.
func withoutParts(
	parts []history.Part, v causal.Version, isLost func(causal.Version) bool,
) (left []history.Part, ok bool) {
	if len(parts) == 0 {
		return nil, !isLost(v)
	}
	left = slices.DeleteFunc(slices.Clone(parts), func(p history.Part) bool { return isLost(p.Version) })
	return left, len(left) > 0
}

// lostLogs plans a run in which logs are given up.
func lostLogs(p *runPlan, rng *rand.Rand) {
	p.shape.rings, p.shape.perRing, p.shape.rttMs = intRange{2, 3}, intRange{1, 2}, intRange{1, 10 + rng.IntN(60)}
	p.shape.shards, p.shape.coordinators, p.sessions = intRange{1, 2}, intRange{1, 3}, intRange{2, 3}
	p.set.Binding = causal.Dynamic
	p.thinkTime = ms(3, 60, rng)
	if rng.IntN(2) == 0 {
		p.keys, p.hotKeys = 100, 100 // what differs is not soon overwritten
	}
	p.mix.del = 0 // a read that finds nothing does not say which delete it has seen, which may be a lost one
	p.length = 25 * time.Second
	p.faultEvery = ms(300, 1500, rng)
	p.faults = faultWeights{LogGivenUp: 2, Crash: 3, CrashStaged: 2, WriteCut: 4, RingLag: 1, Cut: 2, Slow: 1}
}
