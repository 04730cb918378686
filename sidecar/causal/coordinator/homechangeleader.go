package coordinator

import (
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// The leader's part in a change of the number of homes.

// lead goes on with the leader's part: first all know the present number, then it is changed if the topology has
// another one.
func (h *homeChange) lead(now causal.Now) {
	d := &h.log.durable.Homes
	if h.told != d.Number { // a sidecar may be waiting for a home that has left
		h.told = d.Number
		h.host.tellSidecars(now, h.homes().Message(h.cfg.Self, topology.Node{}))
	}
	switch {
	case d.Next != 0:
		h.collectVotes(now)
	case h.isSettled(), now.Mono < h.askAt:
	default:
		h.askAt = now.Mono + int64(homeChangeInterval)
		ready, unknown := true, causal.HLC(0)
		for i := 1; i < topology.MaxCoordinators; i++ {
			if !h.isInUse(i) {
				ready = ready && i >= h.wanted() // it has not joined yet, or has left
				continue
			}
			n := h.node(i)
			a := h.answers[n]
			if a.Number < d.Number || int(d.Count) != h.wanted() {
				h.Send(causal.HomeChange{Number: d.Number, Count: d.Count, UpTo: d.UpTo}.Message(h.cfg.Self, n))
			}
			if a.Number == 0 {
				unknown = max(unknown, a.UpTo)
			}
			ready = ready && a.Number >= d.Number && a.Ready
		}
		if d.Count != 0 && unknown > d.UpTo { // homes do not know yet what was accepted up to there
			h.decide(now, d.Count, unknown)
			return
		}
		if ready && int(d.Count) != h.wanted() && now.Mono >= h.retryAt && h.isReady(now) {
			h.propose(now)
		}
	}
}

// propose begins a change: the leader gives up the slots that it loses, and asks all others to do so.
func (h *homeChange) propose(now causal.Now) {
	h.answers, h.startedAt, h.askAt = map[topology.Node]causal.HomeVote{}, now.Mono, 0
	d := &h.log.durable.Homes
	h.take(now, causal.HomeChange{Number: d.Number, Next: uint64(h.wanted())})
}

// collectVotes decides once all have voted, or it takes too long.
func (h *homeChange) collectVotes(now causal.Now) {
	d := &h.log.durable.Homes
	if h.startedAt == 0 || now.Mono >= h.startedAt+int64(homeChangeTimeout) { // or this process has started since
		h.startedAt, h.retryAt = 0, now.Mono+int64(homeChangePause)
		h.decide(now, d.Count, h.bound(now))
		return
	}
	if now.Mono < h.askAt {
		return
	}
	h.askAt = now.Mono + int64(homeChangeInterval)
	upTo, all := h.bound(now), h.hasGivenUp(now)
	for i := 1; i < topology.MaxCoordinators; i++ {
		if !h.isInUse(i) {
			all = all && i >= int(d.Next)
			if d.Count == 0 { // it has left at another scope of sessions, with nothing incomplete
				upTo = max(upTo, h.known.SV(h.cfg.Topology.OriginOf(h.node(i))))
			}
			continue
		}
		n := h.node(i)
		a := h.answers[n]
		if a.Number == d.Number && a.Next == d.Next {
			upTo = max(upTo, a.UpTo)
			continue
		}
		if !h.cfg.Broken.Has(causal.HomeChangeUnasked) {
			all = false
		}
		h.Send(causal.HomeChange{Number: d.Number, Next: d.Next}.Message(h.cfg.Self, n))
	}
	if all {
		h.startedAt = 0
		h.decide(now, d.Next, upTo)
	}
}

// takeVote takes the answer of another coordinator.
func (h *homeChange) takeVote(now causal.Now, from topology.Node, v causal.HomeVote) {
	if !h.isLeader() || h.answers == nil || v.UpTo > h.limit.At(now) {
		return
	}
	h.answers[from] = v
}

// decide makes a number of homes durable. It is announced once it is.
func (h *homeChange) decide(now causal.Now, count uint64, upTo causal.HLC) {
	h.answers, h.askAt = map[topology.Node]causal.HomeVote{}, 0
	h.settle(now, Homes{Number: h.log.durable.Homes.Number + 1, Count: count, UpTo: upTo})
}

// isSettled reports whether all coordinators know the number of homes, and it is that of the topology.
func (h *homeChange) isSettled() bool {
	d := &h.log.durable.Homes
	if d.Next != 0 || int(d.Count) != h.wanted() {
		return false
	}
	for i := 1; i < topology.MaxCoordinators; i++ {
		if h.isInUse(i) && h.answers[h.node(i)].Number < d.Number {
			return false
		}
	}
	return true
}

func (h *homeChange) wanted() int { return h.cfg.Topology.DCs[h.cfg.Self.DC].Coordinators }

// isInUse reports whether a coordinator was admitted. One that was not is no home, and has nothing incomplete.
func (h *homeChange) isInUse(i int) bool { return h.log.durable.Terms[i].IsInUse() }

func (h *homeChange) node(i int) topology.Node {
	return topology.Node{DC: h.cfg.Self.DC, Part: topology.Coordinator, Index: uint64(i)}
}
