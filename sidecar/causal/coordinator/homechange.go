package coordinator

import (
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// The number of homes changes in one step of the data center, which its leader decides (PROTOCOL HOC). First every
// coordinator gives up the slots that it would lose: it refuses what is asked of them, waits until what it has accepted
// is complete, makes that durable and says so. Then the leader makes the new number durable, and announces it. Whatever
// the homes of before have accepted or shown is at or below what the announcement says, so that a home need not know
// more of it than that reads elsewhere must include it. If somebody does not answer in time, the leader announces the
// old number again.
//
// At first there are no homes. So what coordinators have accepted while they were none, at another scope of sessions,
// is complete before there are.

// homeChange is what a coordinator knows of the number of homes, and the leader's part in changing it.
type homeChange struct {
	*shared
	host homeChangeHost
	log  *logState
	home *home

	// Of a leader:
	answers   map[topology.Node]causal.HomeVote // of the other coordinators, since the last change
	startedAt int64                             // when it has proposed a change
	askAt     int64
	retryAt   int64  // when it may propose one again
	told      uint64 // the last change that the sidecars were told
	// Of a coordinator that gives up slots: what the leader has proposed, the newest write that was accepted before,
	// and when no lease of before runs any more (monotonic).
	proposed   causal.HomeChange
	accepted   causal.HLC
	leasesOver int64
	// before is above what was accepted before this start, of a coordinator that is the home of nothing.
	before causal.HLC
}

// homeChangeHost is what a homeChange asks of its coordinator.
type homeChangeHost interface {
	Membership() Membership
	// oldestIncomplete returns the HLC of the oldest incomplete write; 0: there is none.
	oldestIncomplete() causal.HLC
	writeCheckpoint(now causal.Now)
	// keepsLost reports whether a part of a commit of several homes has to end before slots are given up.
	keepsLost() bool
	// tellSidecars sends a message to all sidecars of the data center.
	tellSidecars(now causal.Now, m causal.Message)
}

const (
	// homeChangeInterval is how often the leader asks those that have not answered.
	homeChangeInterval = 50 * time.Millisecond
	// homeChangeTimeout is how long the slots that move may be without a home, until the leader gives a change up.
	homeChangeTimeout = 2 * time.Second
	// homeChangePause is how long after that it waits.
	homeChangePause = 5 * time.Second
	// homeChangeReady is how old the oldest incomplete write of a coordinator may be when a change begins.
	homeChangeReady = time.Second
)

// count returns how many coordinators are homes; 0: it is not known here, so that this one is none.
func (h *homeChange) count() int { return int(h.log.durable.Homes.Count) }

// hasOthers reports whether the data center has other homes beside this one, or is about to.
func (h *homeChange) hasOthers() bool {
	return h.count() > 1 || h.log.pending.Homes.Next > 1 || h.log.pending.Homes.Count > 1 ||
		h.cfg.Topology.DCs[h.cfg.Self.DC].Coordinators > 1
}

// isHomeOf reports whether this is the home of a slot. A coordinator that is not refuses what is asked of the home.
func (h *homeChange) isHomeOf(slot topology.Slot) bool {
	if h.cfg.Broken.Has(causal.HomeOfAnyKey) {
		return true
	}
	n, p := h.count(), &h.log.pending.Homes
	if n == 0 || h.homeOf(slot, n) != h.cfg.Self {
		return false
	}
	next := p.Next
	if p.Number > h.log.durable.Homes.Number { // announced, and not durable yet
		next = p.Count
	}
	return next == 0 || h.homeOf(slot, int(next)) == h.cfg.Self || h.cfg.Broken.Has(causal.HomeKeepsSlots)
}

func (h *homeChange) homeOf(slot topology.Slot, n int) topology.Node {
	return h.cfg.Topology.HomeOf(h.cfg.Self.DC, slot, n)
}

// isHome reports whether this coordinator is the home of some slots, or may be.
func (h *homeChange) isHome() bool { return uint64(h.count()) > h.cfg.Self.Index }

// tick goes on with a change.
func (h *homeChange) tick(now causal.Now) {
	if !h.home.enabled || !h.log.isEstablished() || h.log.pending.Homes != h.log.durable.Homes {
		return
	}
	switch {
	case h.isLeader():
		h.lead(now)
	case h.knowsNothing() && now.Mono >= h.askAt: // the leader may go by what this one knew before
		h.askAt = now.Mono + int64(homeChangeInterval)
		h.reply(now)
	}
}

// knowsNothing reports whether this coordinator knows no decision: it has joined, its log was given up, or it has
// served another scope of sessions.
func (h *homeChange) knowsNothing() bool { return h.log.durable.Homes.Number == 0 && h.log.isInUse() }

// nextTick returns when tick has something to do next.
func (h *homeChange) nextTick() int64 {
	switch {
	case !h.home.enabled, !h.log.isEstablished(), h.log.pending.Homes != h.log.durable.Homes:
		return causal.Never
	case h.isLeader() && h.told != h.log.durable.Homes.Number:
		return 0
	case h.isLeader() && !h.isSettled(), !h.isLeader() && h.knowsNothing():
		return h.askAt
	}
	return causal.Never
}

// bound returns an HLC that is at or above everything that this coordinator has accepted, or was told that clients were
// shown. Reads elsewhere are to include it, so it is not needlessly in the future, where the clock may be after a
// start.
func (h *homeChange) bound(now causal.Now) causal.HLC {
	if !h.isHome() { // it was told nothing
		return max(h.home.newest, h.home.published, h.before, h.log.durable.LostUpTo, h.log.durable.Homes.UpTo)
	}
	return max(h.clock.Peek(now), h.home.from, h.home.newest)
}

// restore goes on from what the log says. At another scope of sessions all coordinators take writes of all keys: one
// that starts at that is the home of nothing, and its log says so before any of these. The leader goes on counting its
// decisions.
func (h *homeChange) restore(now causal.Now) {
	is := &h.log.pending.Homes
	h.home.noteForgotten(is.UpTo)
	if is.Count == 0 { // the log may have dropped what was complete
		h.before = h.log.durable.Ceiling
	}
	if h.home.enabled || is.Number == 0 && is.Count == 0 && is.Next == 0 {
		return
	}
	left := Homes{UpTo: max(is.UpTo, h.log.durable.Ceiling)}
	if h.isLeader() {
		left.Number = is.Number
	}
	*is = left
	h.host.writeCheckpoint(now)
}

// settle takes a number of homes that was decided.
func (h *homeChange) settle(now causal.Now, homes Homes) {
	h.proposed = causal.HomeChange{}
	homes.UpTo = max(homes.UpTo, h.log.durable.Homes.UpTo)
	h.clock.Raise(homes.UpTo)
	if !h.cfg.Broken.Has(causal.HomeTakesUnread) {
		h.home.noteForgotten(homes.UpTo)
	}
	h.log.pending.Homes = homes
	h.host.writeCheckpoint(now)
}

// take takes what the leader has proposed or announced.
func (h *homeChange) take(now causal.Now, c causal.HomeChange) {
	d := &h.log.durable.Homes
	if !h.home.enabled || !h.log.isEstablished() || !h.log.isInUse() || h.log.pending.Homes != *d {
		return
	}
	switch {
	case c.Next == 0 && d.Number == 0 && c.Count != 0 && !(h.hasCompleted() && c.UpTo >= h.bound(now)):
		h.reply(now) // the leader decides again, so that all homes include what was accepted here
	case c.Next == 0 && c.Number > d.Number && c.Count <= topology.MaxCoordinators && c.UpTo <= h.limit.At(now):
		h.settle(now, Homes{Number: c.Number, Count: c.Count, UpTo: c.UpTo})
	case c.Next == 0:
		h.reply(now)
	case c.Number == d.Number && c.Next <= topology.MaxCoordinators && d.Next == 0:
		h.giveUp(now, c)
		h.log.pending.Homes.Next = c.Next
		h.host.writeCheckpoint(now)
	case c.Number == d.Number && c.Next == d.Next:
		if h.proposed.Next == 0 { // this process has started since
			h.giveUp(now, c)
		}
		h.reply(now)
	}
}

// giveUp notes what has to end before the slots are given up that this coordinator loses with a change.
func (h *homeChange) giveUp(now causal.Now, c causal.HomeChange) {
	h.proposed, h.accepted, h.leasesOver = c, h.home.newest, h.home.leases.endOfAll(now)
	if h.cfg.Broken.Has(causal.HomeGivesLeased) {
		h.leasesOver = now.Mono
	}
}

// hasGivenUp reports whether the slots are given up that this home loses: that is durable, everything is complete that
// it had accepted, and no sidecar has a lease of before.
func (h *homeChange) hasGivenUp(now causal.Now) bool {
	oldest := h.host.oldestIncomplete()
	return h.log.durable.Homes.Next != 0 && !h.host.keepsLost() && now.Mono >= h.leasesOver &&
		(oldest == 0 || oldest > h.accepted ||
			h.cfg.Broken.Has(causal.HomeGivesIncomplete))
}

// hasCompleted reports whether nothing is incomplete.
func (h *homeChange) hasCompleted() bool { return h.host.oldestIncomplete() == 0 }

// reply tells the leader what this coordinator knows, and, once it has given up the slots that it loses, that.
func (h *homeChange) reply(now causal.Now) {
	if h.isLeader() {
		return
	}
	v := causal.HomeVote{Number: h.log.durable.Homes.Number, Ready: h.isReady(now)}
	if h.log.durable.Homes.Next == 0 && h.knowsNothing() && h.hasCompleted() {
		v.UpTo = h.bound(now)
	}
	if h.log.durable.Homes.Next != 0 && h.proposed.Next != 0 && h.hasGivenUp(now) {
		v.Next, v.UpTo = h.log.durable.Homes.Next, h.bound(now)
	}
	h.Send(v.Message(h.cfg.Self, h.cfg.Topology.Leader(h.cfg.Self.DC)))
}

// isReady reports whether a change would not take long: no write has been incomplete for long.
func (h *homeChange) isReady(now causal.Now) bool {
	oldest := h.host.oldestIncomplete()
	return h.host.Membership() == Serving &&
		(oldest == 0 || oldest.WallMs()+homeChangeReady.Milliseconds() > h.clock.Peek(now).WallMs())
}

// tellRefused is tell if a put was refused that another coordinator may take.
func (h *homeChange) tellRefused(to topology.Node, err causal.ErrCode) {
	if err == causal.ErrUnavailable {
		h.tell(to)
	}
}

// tell tells a sidecar how many homes there are.
func (h *homeChange) tell(to topology.Node) {
	if h.home.enabled && h.count() > 0 {
		h.Send(h.homes().Message(h.cfg.Self, to))
	}
}

func (h *homeChange) homes() causal.Homes {
	return causal.Homes{Number: h.log.durable.Homes.Number, Count: h.log.durable.Homes.Count}
}
