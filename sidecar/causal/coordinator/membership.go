package coordinator

import (
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// Coordinators come and go while everything serves (PROTOCOL MEM). Each coordinator that a data
// center may have owns its origin for good, and at any time somebody publishes vectors for that origin, so that no
// other part needs to know which coordinators exist. A coordinator in use publishes for itself; for one that is away,
// the leader of the data center publishes that all its writes up to the leader's own clock are complete. That holds as
// long as
//
//   - a coordinator that leaves has no incomplete write, and issues no timestamp afterwards;
//   - a coordinator that joins starts above everything that the leader has published for it, and the leader has stopped
//     by then;
//   - neither forgets on which side of this it is: terms count the changes, and both logs keep them.

// MembershipTerm counts how often an origin was taken into use and given back: it is odd while the origin is in use, or
// about to be.
type MembershipTerm uint64

// IsInUse reports whether the origin is in use, or about to be.
func (t MembershipTerm) IsInUse() bool { return t%2 == 1 }

// maxTermsAhead is far more than a coordinator can come and go while nobody hears of it.
const maxTermsAhead = 1 << 24

// isReachableFrom reports whether an origin whose term was known can have come to t. Both sides keep and count on from
// a term: one from the end of all numbers would keep the coordinator out of use for good.
func (t MembershipTerm) isReachableFrom(known MembershipTerm) bool {
	return t <= known+maxTermsAhead
}

// Terms are those of the coordinators of a data center, by index.
type Terms [topology.MaxCoordinators]MembershipTerm

// membershipState is where a coordinator that is not the leader stands between joining and leaving.
type membershipState struct {
	hasLeft bool   // the leader has confirmed that this coordinator has left
	intent  uint64 // differs after each start and each change of whether the topology has this coordinator
	dueAt   int64  // when the leader is asked again
}

// Membership says whether a coordinator takes part in the writing of its data center.
type Membership uint8

// The stages of a coordinator.
const (
	Joining Membership = iota // the leader of the data center has not admitted it yet
	Serving
	Leaving // it refuses puts; those that it has accepted are propagated until they are complete
	Left    // it has no incomplete write, and the leader knows that it has left
	LogLost // its log is empty, and others know of writes that it held; it refuses puts and publishes nothing
	// Salvaging: its lost log was given up, and what the shards hold of it is collected and completed; it refuses puts.
	Salvaging
)

func (m Membership) String() string {
	return [...]string{"joining", "serving", "leaving", "left", "log lost", "salvaging"}[m]
}

// Membership returns the stage of the coordinator.
func (c *Coordinator) Membership() Membership {
	switch {
	case c.salvage != nil || c.isAdopting():
		return Salvaging
	case len(c.past.lostTo) > 0:
		return LogLost
	case c.isInUse() && c.isInTopology():
		return Serving
	case c.isInTopology():
		return Joining
	case !c.isInUse() && c.member.hasLeft:
		return Left
	}
	return Leaving
}

func (c *Coordinator) isInTopology() bool {
	return c.cfg.Self.Index < uint64(c.cfg.Topology.DCs[c.cfg.Self.DC].Coordinators)
}

// isInUse reports whether this coordinator publishes for its origin. A leader always does.
func (c *Coordinator) isInUse() bool {
	return c.log.durable.Term.IsInUse() && c.log.pending.Term == c.log.durable.Term && !c.isRetired
}

// originAt returns the origin of the coordinator of this data center with an index.
func (c *Coordinator) originAt(index int) topology.Origin {
	return c.cfg.Topology.OriginOf(topology.Node{DC: c.cfg.Self.DC, Part: topology.Coordinator, Index: uint64(index)})
}

const (
	joinInterval  = 50 * time.Millisecond
	leaveInterval = 100 * time.Millisecond
	leftInterval  = time.Second // it is repeated: an earlier request to join may still be in flight
)

// advanceMembership continues joining or leaving.
func (c *Coordinator) advanceMembership(now causal.Now) {
	if c.salvage != nil {
		c.advanceSalvage(now)
		return
	}
	if c.past.active {
		c.askPast(now)
		return
	}
	if c.isRetired {
		return
	}
	if c.leader != nil || c.log.pending.Term != c.log.durable.Term || !c.isEstablished() {
		return // a log that is empty must not have been admitted: the leader would take it for lost at the next start
	}
	if c.log.durable.Term.IsInUse() {
		if !c.isInTopology() && (c.IsDrained() || c.cfg.Broken.Has(causal.LeaveUndrained)) {
			c.log.pending.Term++
			c.writeCheckpoint(now)
		}
		return
	}
	if now.Mono < c.member.dueAt {
		return
	}
	switch {
	case c.isInTopology():
		c.member.dueAt = now.Mono + int64(joinInterval)
	case c.member.hasLeft:
		c.member.dueAt = now.Mono + int64(leftInterval)
	default:
		c.member.dueAt = now.Mono + int64(leaveInterval)
	}
	// Everything that it has published or issued in any life is at or below its clock.
	t := causal.Term{ID: c.member.intent, Term: uint64(c.log.durable.Term), UpTo: c.clock.Peek(now),
		Join: c.isInTopology()}
	if !t.Join {
		t.Shards = c.log.pending.Shards // this log may be removed
	}
	c.Send(t.Message(c.cfg.Self, c.cfg.Topology.Leader(c.cfg.Self.DC)))
}

// updateIntent handles a topology that may have added or removed this coordinator.
func (c *Coordinator) updateIntent(wasInTopology bool) {
	if c.isInTopology() != wasInTopology {
		c.member.intent++ // replies to earlier requests no longer count
		c.member.hasLeft, c.member.dueAt = false, 0
	}
}

// handleTerm is the leader's part: another coordinator is away, has no incomplete write, and everything that it has
// published or written is at or below t.UpTo. Perhaps it wants to join.
func (c *Coordinator) handleTerm(now causal.Now, from topology.Node, t causal.Term) {
	i := from.Index
	if c.leader == nil || !c.isEstablished() || from.DC != c.cfg.Self.DC || i == 0 || i >= topology.MaxCoordinators {
		return
	}
	if t.New {
		c.Send(causal.TermReply{ID: t.ID, Term: uint64(c.log.pending.Terms[i]), New: true}.Message(c.cfg.Self, from))
		return
	}
	changed := false
	for _, m := range t.Shards {
		changed = c.noteTold(now, m) || changed
	}
	term, told := c.log.pending.Terms[i], MembershipTerm(t.Term)
	if !told.isReachableFrom(term) {
		return
	}
	if c.cfg.Broken.Has(causal.LeaveAnyTerm) && term.IsInUse() && (term > told+1 || term > told && !t.Join) {
		c.log.pending.Terms[i] = told
		c.writeCheckpoint(now)
		return
	}
	if term < told {
		if t.UpTo.WallMs() > now.WallMs+c.cfg.ClockBoundMs {
			return // what is published for it from now on must be above UpTo: wait until the clock is nearer
		}
		c.clock.Raise(t.UpTo)
		c.mergeVectors([]causal.VectorEntry{{Origin: c.originAt(int(i)), SV: t.UpTo}}, causal.NoLimit)
		term = told
	}
	counted := i < uint64(c.cfg.Topology.DCs[c.cfg.Self.DC].Coordinators)
	if term == told && t.Join && counted {
		term++
	}
	if term != c.log.pending.Terms[i] || changed {
		c.log.pending.Terms[i] = term // from here on nothing is published for it; it is answered once the log has this
		c.writeCheckpoint(now)
		return
	}
	if c.log.durable.Terms[i] == term && (len(t.Shards) == 0 || len(c.log.checkpoints) == 0) {
		c.Send(causal.TermReply{ID: t.ID, Term: uint64(term), Above: c.clock.Peek(now),
			Counted: counted}.Message(c.cfg.Self, from))
	}
}

// TermOf returns, at a leader, the term of another coordinator of its data center; known is false if this one is not
// the leader, or has no log that says it.
func (c *Coordinator) TermOf(n topology.Node) (term MembershipTerm, known bool) {
	if c.leader == nil || !c.isEstablished() || n.DC != c.cfg.Self.DC || n.Part != topology.Coordinator ||
		n.Index == 0 || n.Index >= topology.MaxCoordinators {
		return 0, false
	}
	return c.log.pending.Terms[n.Index], true
}

// handleTermReply takes the leader's answer: which term it knows, and above which timestamp to start.
func (c *Coordinator) handleTermReply(now causal.Now, from topology.Node, r causal.TermReply) {
	term, own := MembershipTerm(r.Term), c.log.durable.Term
	if r.New {
		// A late one may have the term of the request to join that followed, but not where to start.
		if c.past.active && c.leader == nil && r.ID == c.cfg.Incarnation && term.isReachableFrom(0) {
			c.handleLeaderTerm(now, from, term)
		}
		return
	}
	if c.leader != nil || r.ID != c.member.intent || own.IsInUse() || c.log.pending.Term != own ||
		!term.isReachableFrom(own) {
		return
	}
	switch {
	case term < own:
	case term == own:
		// Once the leader's topology does not count it either, no late request to join can bring it back.
		c.member.hasLeft = !c.isInTopology() && !r.Counted
	case term == own+1 && c.isInTopology():
		if r.Above.WallMs() > now.WallMs+c.cfg.ClockBoundMs {
			return // nothing could be written above it yet
		}
		if !c.cfg.Broken.Has(causal.JoinBelow) {
			c.clock.Raise(r.Above)
		}
		c.forgetAll(now)
		c.log.pending.Term = term
		c.writeCheckpoint(now)
	default: // a term that is not used: of a log that was abandoned, or of a request that was withdrawn
		c.member.hasLeft, c.member.dueAt = false, 0
		c.log.pending.Term = term + term%2
		c.writeCheckpoint(now)
	}
}

// appendAwayEntries appends what the leader publishes for the origins that are away.
func (c *Coordinator) appendAwayEntries(dst []causal.VectorEntry, bound causal.HLC) []causal.VectorEntry {
	if c.leader == nil {
		return dst
	}
	for i := 1; i < topology.MaxCoordinators; i++ {
		if !c.isAway(i) && !c.cfg.Broken.Has(causal.VouchInUse) {
			continue
		}
		o := c.originAt(i)
		if last := len(dst) - 1; last >= 0 && dst[last].Last == o-1 {
			dst[last].Last = o
		} else {
			dst = append(dst, causal.VectorEntry{Origin: o, Last: o, SV: bound})
		}
	}
	return dst
}

// isAway reports whether the leader publishes for another coordinator.
func (c *Coordinator) isAway(i int) bool {
	return i > 0 && !c.log.pending.Terms[i].IsInUse() && !c.log.durable.Terms[i].IsInUse()
}

// InUse returns a bit for each coordinator of the data center that is in use, or about to be; 0 if this one is not the
// leader. Coordinators that the leader's topology does not count cannot come into use again.
func (c *Coordinator) InUse() uint64 {
	if c.leader == nil || !c.isEstablished() {
		return 0
	}
	return allCoordinators &^ c.awayBits()
}

// allCoordinators has a bit for each coordinator that a data center may have.
const allCoordinators = 1<<topology.MaxCoordinators - 1

// awayBits returns, for a middleman, a bit for each coordinator that is away: none of its writes is incomplete, and
// what it writes later it sends later.
func (c *Coordinator) awayBits() (bits uint64) {
	for i := 1; c.leader != nil && i < topology.MaxCoordinators; i++ {
		if c.isAway(i) {
			bits |= 1 << i
		}
	}
	return bits
}
