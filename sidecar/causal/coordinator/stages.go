package coordinator

import (
	"errors"
	"slices"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// How the log of a coordinator begins, and at which stage the coordinator is: the machines that find out about its past
// and its membership are separate, and at most one of them is at work.

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
	inUse := c.log.isInUse()
	switch {
	case c.recovery != nil || c.isRecovering():
		return Salvaging
	case len(c.DataLost()) > 0:
		return LogLost
	case inUse && (c.isInTopology() || c.isHome()):
		return Serving
	case c.isInTopology():
		return Joining
	case !inUse && c.member.hasLeft:
		return Left
	}
	return Leaving
}

// advanceMembership goes on with what this coordinator has to do before it serves, or to leave.
func (c *Coordinator) advanceMembership(now causal.Now) {
	switch {
	case c.recovery != nil:
		if log, done := c.recovery.tick(now); done {
			c.beginRecoveredLog(now, log)
		}
	case c.past.active:
		if log, done := c.past.tick(now); done {
			c.beginLog(now, log)
		}
	default:
		c.member.tick(now)
	}
}

// handlePastReply takes what a middleman knows of this origin, or that it has all of its data.
func (c *Coordinator) handlePastReply(now causal.Now, m *causal.Message) {
	r := m.PastReply()
	if r.HasAll {
		c.exclusion.noteCopy(now, m.From, r, m.Exclusions())
	}
	if log, done := c.past.takeReply(now, m.From, r); done {
		c.beginLog(now, log)
	}
}

// handleTermReply takes the leader's answer to a coordinator with an empty log, or to one that joins or leaves.
func (c *Coordinator) handleTermReply(now causal.Now, from topology.Node, r causal.TermReply) {
	if !r.New {
		c.member.takeReply(now, r)
	} else if log, done := c.past.takeTerm(now, from, r); done {
		c.beginLog(now, log)
	}
}

// beginLog begins a log of which there is no past.
func (c *Coordinator) beginLog(now causal.Now, log newLog) {
	if !c.cfg.Broken.Has(causal.JoinBelow) {
		c.clock.Raise(log.above)
	}
	c.log.pending.Term = log.term
	if log.generation > 0 {
		c.log.pending.Generation = log.generation
	}
	c.log.forgetPuts(c.clock.Peek(now))
	c.writeCheckpoint(now)
}

// AcceptLoss says that a person gives up the lost log of this coordinator: another one begins with what the shards
// hold.
func (c *Coordinator) AcceptLoss(now causal.Now) error {
	switch {
	case c.recovery != nil:
		return nil // it was said before
	case c.log.retired:
		return errors.New("this log was given up, and another one has taken its place: empty the data folder")
	case c.Membership() != LogLost:
		return errors.New("the log is not lost, so there is nothing to accept")
	}
	c.recovery = newLogRecovery(&c.shared, now)
	return nil
}

// Salvaging returns the shards and coordinators that have not answered yet, and how many writes were found; active is
// false if no lost log is being given up.
func (c *Coordinator) Salvaging() (active bool, waiting []topology.Node, found int) {
	if c.recovery == nil {
		return false, nil, 0
	}
	return true, c.recovery.waiting(), len(c.recovery.writes)
}

// DataLost returns the parts that know of writes of this origin which the log does not hold; none unless the log was
// lost, or given up.
func (c *Coordinator) DataLost() []topology.Node {
	if c.log.retired {
		return c.log.givenUpBy
	}
	return c.past.lostTo
}

// Unanswered returns the parts that this coordinator has to hear before it starts with an empty log.
func (c *Coordinator) Unanswered() []topology.Node { return c.past.unanswered() }

// IsRetired reports whether this log was given up, and is there after all: another one has its origin.
func (c *Coordinator) IsRetired() bool { return c.log.retired }

// givenUpTold is how many shards must say that this log was given up, unless there are fewer: the word of one shard
// takes no log out of use. All shards refuse its puts if it is true, those of every ring, so a second one is heard of
// soon.
const givenUpTold = 2

// noteGivenUp takes the word of a shard that this log was given up.
func (c *Coordinator) noteGivenUp(now causal.Now, by topology.Node, below uint64) {
	l := &c.log
	if !c.isPlausible(now, below) || slices.Contains(l.givenUpBy, by) {
		return
	}
	l.givenUpBy = append(l.givenUpBy, by)
	l.retired = len(l.givenUpBy) >= min(givenUpTold, len(c.lanes))
}

// TermOf returns, at a leader, the term of another coordinator of its data center; known is false if this one is not
// the leader, or has no log that says it.
func (c *Coordinator) TermOf(n topology.Node) (term MembershipTerm, known bool) {
	return c.terms.termOf(n)
}

// InUse returns a bit for each coordinator of the data center that is in use, or about to be; 0 if this one is not the
// leader. Coordinators that the leader's topology does not count cannot come into use again.
func (c *Coordinator) InUse() uint64 { return c.terms.inUse() }

// Adoptions returns those in progress, by origin.
func (c *Coordinator) Adoptions() []Adoption { return c.adopter.inProgress() }
