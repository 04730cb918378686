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

// membership takes a coordinator that is not the leader into use and out of it again, by the topology. The leader's
// part is in terms.go.
type membership struct {
	*shared
	host membershipHost
	log  *logState

	hasLeft bool   // the leader has confirmed that this coordinator has left
	intent  uint64 // differs after each start and each change of whether the topology has this coordinator
	dueAt   int64  // when the leader is asked again
}

// membershipHost is what a membership asks of its coordinator.
type membershipHost interface {
	// IsDrained reports whether nothing that was accepted is incomplete.
	IsDrained() bool
	// isHome reports whether the coordinator is the home of some keys.
	isHome() bool
	writeCheckpoint(now causal.Now)
}

const (
	joinInterval  = 50 * time.Millisecond
	leaveInterval = 100 * time.Millisecond
	leftInterval  = time.Second // it is repeated: an earlier request to join may still be in flight
)

// tick continues joining or leaving.
func (m *membership) tick(now causal.Now) {
	own := m.log.durable.Term
	if m.isLeader() || m.log.pending.Term != own || !m.log.isEstablished() {
		return // a log that is empty must not have been admitted: the leader would take it for lost at the next start
	}
	if own.IsInUse() {
		if !m.isInTopology() && !m.host.isHome() && (m.host.IsDrained() || m.cfg.Broken.Has(causal.LeaveUndrained)) {
			m.log.pending.Term++
			m.log.pending.Homes = Homes{}
			m.host.writeCheckpoint(now)
		}
		return
	}
	if now.Mono < m.dueAt {
		return
	}
	switch {
	case m.isInTopology():
		m.dueAt = now.Mono + int64(joinInterval)
	case m.hasLeft:
		m.dueAt = now.Mono + int64(leftInterval)
	default:
		m.dueAt = now.Mono + int64(leaveInterval)
	}
	// Everything that it has published or issued in any life is at or below its clock.
	t := causal.Term{ID: m.intent, Term: uint64(own), UpTo: m.clock.Peek(now), Join: m.isInTopology()}
	if !t.Join {
		t.Shards = m.log.pending.Shards // this log may be removed
	}
	m.Send(t.Message(m.cfg.Self, m.cfg.Topology.Leader(m.cfg.Self.DC)))
}

// nextTick returns when tick has something to do next.
func (m *membership) nextTick(now causal.Now) int64 {
	switch {
	case m.isLeader(), m.log.isInUse() && (m.isInTopology() || m.host.isHome()):
		return causal.Never
	case m.log.isInUse(), m.log.pending.Term != m.log.durable.Term:
		return now.Mono
	}
	return m.dueAt
}

// renewIntent makes replies to earlier requests count no more.
func (m *membership) renewIntent() {
	m.intent++
	m.hasLeft, m.dueAt = false, 0
}

// takeReply takes the leader's answer: which term it knows, and above which timestamp to start.
func (m *membership) takeReply(now causal.Now, r causal.TermReply) {
	term, own := MembershipTerm(r.Term), m.log.durable.Term
	if m.isLeader() || r.ID != m.intent || own.IsInUse() || m.log.pending.Term != own || !term.isReachableFrom(own) {
		return
	}
	switch {
	case term < own:
	case term == own:
		// Once the leader's topology does not count it either, no late request to join can bring it back.
		m.hasLeft = !m.isInTopology() && !r.Counted
	case term == own+1 && m.isInTopology():
		if r.Above.WallMs() > now.WallMs+m.cfg.ClockBoundMs {
			return // nothing could be written above it yet
		}
		if !m.cfg.Broken.Has(causal.JoinBelow) {
			m.clock.Raise(r.Above)
		}
		m.log.forgetPuts(m.clock.Peek(now))
		m.log.pending.Term, m.log.pending.Homes = term, Homes{} // the leader says which coordinators are homes
		m.host.writeCheckpoint(now)
	default: // a term that is not used: of a log that was abandoned, or of a request that was withdrawn
		m.hasLeft, m.dueAt = false, 0
		m.log.pending.Term = term + term%2
		m.host.writeCheckpoint(now)
	}
}

// takeQuery tells a leader that has lost its log which term this coordinator is in. What the lost log has answered to
// earlier requests does not count any more: the leader does not know of it.
func (m *membership) takeQuery(now causal.Now, from topology.Node, q causal.TermQuery) {
	if m.isLeader() || from != m.cfg.Topology.Leader(m.cfg.Self.DC) || m.log.pending.Term != m.log.durable.Term {
		return
	}
	a := causal.TermAnswer{ID: q.ID, Term: uint64(m.log.durable.Term), UpTo: m.clock.Peek(now),
		Homes: causal.Homes{Number: m.log.durable.Homes.Number, Count: m.log.durable.Homes.Count}}
	if !m.log.isEstablished() {
		a.Term = 1 // this log is empty or lost: nobody may publish for it
	}
	m.renewIntent()
	m.Send(a.Message(m.cfg.Self, from))
}
