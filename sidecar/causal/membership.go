package causal

import (
	"time"

	"github.com/causalstore/causalstore/sidecar/topology"
)

// Coordinators come and go while everything serves. Each that a data centre may have has its origin for good, and at any time
// somebody speaks for that origin in the vectors, so that no other part need know who is there: while a coordinator is in
// use, it does; while it is away, the leader of its data centre. The leader says that of the origin all writes up to where
// its own clock stands are complete, which holds as long as
//
//   - who leaves has nothing incomplete, and then issues no timestamp any more;
//   - who comes begins above all that the leader has said, and the leader has fallen silent by then;
//   - neither forgets on which side of this it is: terms count it, and both logs keep them.

// term counts how often an origin has been taken into use and given back: it is odd while the origin is in use, or about to be.
type term uint64

func (t term) inUse() bool { return t%2 == 1 }

// terms are those of the coordinators of a data centre, as its leader knows them.
type terms [topology.MaxCoordinators]term

// standing is what a coordinator must not forget; each checkpoint in its log has all of it.
type standing struct {
	ceiling HLC  // it has published nothing above
	term    term // its own
	terms   terms
}

// Membership says whether a coordinator takes part in the writing of its data centre.
type Membership uint8

// The stages of a coordinator.
const (
	Joining Membership = iota // until the leader of the data centre has let it in
	Serving
	Leaving // it takes no puts; those that it has taken go on until they are complete
	Left    // it has nothing left, and the leader knows
)

func (m Membership) String() string {
	return [...]string{"joining", "serving", "leaving", "left"}[m&3]
}

// Membership returns the stage of the coordinator.
func (c *Coordinator) Membership() Membership {
	switch {
	case c.inUse() && c.wanted():
		return Serving
	case c.wanted():
		return Joining
	case !c.inUse() && c.left:
		return Left
	}
	return Leaving
}

// wanted reports whether the topology has this coordinator.
func (c *Coordinator) wanted() bool {
	return c.cfg.Self.Index < uint64(c.cfg.Topology.DCs[c.cfg.Self.DC].Coordinators)
}

// inUse reports whether this coordinator speaks for its origin. A leader always does.
func (c *Coordinator) inUse() bool {
	return c.held.term.inUse() && c.laid.term == c.held.term
}

// record returns what the log keeps of s; complete is up to where all own writes are.
func (s *standing) record(c *Coordinator, complete HLC) Message {
	m := Message{Kind: KindStable, HLC: complete, Cut: s.ceiling, Seq: uint64(s.term)}
	for i, t := range s.terms {
		if t != 0 {
			m.Versions = append(m.Versions, Version{HLC: HLC(t), Origin: c.originAt(i)})
		}
	}
	return m
}

// standingOf reads what record has written.
func standingOf(m *Message) standing {
	s := standing{ceiling: m.Cut, term: term(m.Seq)}
	for _, v := range m.Versions {
		s.terms[(v.Origin-1)%topology.MaxCoordinators] = term(v.HLC)
	}
	return s
}

// originAt returns the origin of another coordinator of the own data centre.
func (c *Coordinator) originAt(index int) topology.Origin {
	return c.cfg.Topology.OriginOf(topology.Node{DC: c.cfg.Self.DC, Part: topology.Coordinator, Index: uint64(index)})
}

const (
	askToJoin   = 50 * time.Millisecond
	tellLeft    = 100 * time.Millisecond
	tellLeftFor = time.Second // again and again: an earlier wish to come may be under way still
)

// attend goes on with coming or leaving.
func (c *Coordinator) attend(now Now) {
	if c.leader != nil || c.laid.term != c.held.term {
		return
	}
	if c.held.term.inUse() {
		if !c.wanted() && (c.Drained() || c.cfg.Broken.has(LeaveUndrained)) {
			c.laid.term++
			c.lay(now)
		}
		return
	}
	if now.Mono < c.attendAt {
		return
	}
	switch {
	case c.wanted():
		c.attendAt = now.Mono + int64(askToJoin)
	case c.left:
		c.attendAt = now.Mono + int64(tellLeftFor)
	default:
		c.attendAt = now.Mono + int64(tellLeft)
	}
	// All that it has published or issued in any life is at or below where its clock stands.
	c.send(Message{Kind: KindTerm, From: c.cfg.Self, To: c.cfg.Topology.Leader(c.cfg.Self.DC), ID: c.wish,
		Seq: uint64(c.held.term), HLC: c.clock.Peek(now), Clean: c.wanted()})
}

// changeWish takes note of a topology that may want something else of this coordinator.
func (c *Coordinator) changeWish(before bool) {
	if c.wanted() != before {
		c.wish++ // answers to what was asked before do not count
		c.left, c.attendAt = false, 0
	}
}

// admit is the leader's part: another coordinator is away, has nothing incomplete, and all that it has said or written is at or below HLC;
// perhaps it wants to come.
func (c *Coordinator) admit(now Now, m *Message) {
	i := m.From.Index
	if c.leader == nil || m.From.DC != c.cfg.Self.DC || i == 0 || i >= topology.MaxCoordinators {
		return
	}
	t, told := c.laid.terms[i], term(m.Seq)
	if c.cfg.Broken.has(LeaveAnyTerm) && t.inUse() && (t > told+1 || t > told && !m.Clean) {
		c.laid.terms[i] = told
		c.lay(now)
		return
	}
	if t < told {
		if m.HLC.WallMs() > now.WallMs+c.cfg.ClockBoundMs {
			return // what is said from now on must be above: once the clock is nearer
		}
		c.clock.Raise(m.HLC)
		c.learn([]VectorEntry{{Origin: c.originAt(int(i)), SV: m.HLC}})
		t = told
	}
	counted := i < uint64(c.cfg.Topology.DCs[c.cfg.Self.DC].Coordinators)
	if t == told && m.Clean && counted {
		t++
	}
	if t != c.laid.terms[i] {
		c.laid.terms[i] = t // from here on nothing is said for it; it is told once the log has this
		c.lay(now)
		return
	}
	if c.held.terms[i] == t {
		c.send(Message{Kind: KindTermReply, From: c.cfg.Self, To: m.From, ID: m.ID, Seq: uint64(t), HLC: c.clock.Peek(now), Clean: counted})
	}
}

// admitted takes the leader's answer: where the term stands for it, and above which timestamp to begin.
func (c *Coordinator) admitted(now Now, m *Message) {
	t := term(m.Seq)
	if c.leader != nil || m.ID != c.wish || c.held.term.inUse() || c.laid.term != c.held.term {
		return
	}
	switch {
	case t < c.held.term:
	case t == c.held.term:
		// Once the leader does not count it either, no late wish of before can bring it back.
		c.left = !c.wanted() && !m.Clean
	case t == c.held.term+1 && c.wanted():
		if m.HLC.WallMs() > now.WallMs+c.cfg.ClockBoundMs {
			return // nothing could be written above it yet
		}
		if !c.cfg.Broken.has(JoinBelow) {
			c.clock.Raise(m.HLC)
		}
		c.laid.term = t
		c.lay(now)
	default: // a term that is not used: by a log that was left, or by a wish that is over
		c.left, c.attendAt = false, 0
		c.laid.term = t + t%2
		c.lay(now)
	}
}

// vouch appends what the leader says of the origins that are away.
func (c *Coordinator) vouch(dst []VectorEntry, idle HLC) []VectorEntry {
	if c.leader == nil {
		return dst
	}
	for i := 1; i < topology.MaxCoordinators; i++ {
		if !c.away(i) && !c.cfg.Broken.has(VouchInUse) {
			continue
		}
		o := c.originAt(i)
		if last := len(dst) - 1; last >= 0 && dst[last].Last == o-1 {
			dst[last].Last = o
		} else {
			dst = append(dst, VectorEntry{Origin: o, Last: o, SV: idle})
		}
	}
	return dst
}

// away reports whether the leader speaks for another coordinator.
func (c *Coordinator) away(i int) bool {
	return i > 0 && !c.laid.terms[i].inUse() && !c.held.terms[i].inUse()
}

// InUse returns a bit for each coordinator of the data centre that is in use, or about to be; 0 if this one is not the leader.
// Those at or beyond the number in the leader's topology cannot come into use again.
func (c *Coordinator) InUse() uint64 {
	if c.leader == nil {
		return 0
	}
	return allCoordinators &^ c.absent()
}

// allCoordinators has a bit for each coordinator that a data centre may have.
const allCoordinators = 1<<topology.MaxCoordinators - 1

// absent returns, for a middleman, a bit for each coordinator that is away: none of its writes is incomplete, and what it
// writes later it sends later.
func (c *Coordinator) absent() (bits uint64) {
	for i := 1; c.leader != nil && i < topology.MaxCoordinators; i++ {
		if c.away(i) {
			bits |= 1 << i
		}
	}
	return bits
}
