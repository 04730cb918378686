package member

import (
	"fmt"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/coordinator"
	"github.com/causalstore/causalstore/topology"
)

// leftInquiry asks the leader of the data center whether a coordinator whose volumes are all new has left
// (PROTOCOL CGR-8). If so, everything that it held is complete, and its group starts over without a person. Nobody
// serves the coordinator meanwhile, so a member asks as itself.
type leftInquiry struct {
	id    uint64 // of the question, which is repeated; 0: nothing is asked
	askAt int64
}

const leftInquiryInterval = 100 * time.Millisecond

// askWhetherLeft asks while the volumes of all members are new. A new question is asked each time they become so: an
// answer to an earlier one may be of a time before a volume that was put back has served.
func (c *Coordinator) askWhetherLeft(now causal.Now) {
	q := &c.left
	leader := c.topo.Leader(c.self.DC)
	switch {
	case c.self.Group() == leader: // it never leaves
		return
	case !c.group.OnlyNewVolumes():
		if *q = (leftInquiry{}); c.machine == nil {
			c.group.SetReplaceable(false)
		}
		return
	case c.cfg.Coordinator.Broken.Has(causal.ReplaceUnasked):
		c.group.SetReplaceable(true)
		return
	case now.Mono < q.askAt:
		return
	}
	if q.askAt = now.Mono + int64(leftInquiryInterval); q.id == 0 {
		q.id = topology.Hash(fmt.Sprintf("%d %d %d", c.cfg.Volume, now.WallMs, now.Mono))
	}
	for _, n := range c.topo.MembersOf(leader) { // whichever serves
		c.asMember = append(c.asMember, causal.Term{ID: q.id, New: true}.Message(c.self, n))
	}
}

// isAsMember reports whether a message is about a coordinator that nobody serves.
func (c *Coordinator) isAsMember(m *causal.Message) bool {
	return m.To == c.self && c.self.Member != 0 && m.From.Member != 0 &&
		(m.Kind == causal.KindTerm || m.Kind == causal.KindTermReply)
}

// stepAsMember answers a member of another coordinator, or takes in the answer.
func (c *Coordinator) stepAsMember(now causal.Now, m *causal.Message) {
	if m.Kind == causal.KindTerm {
		if t := m.Term(); t.New && c.serves(now) {
			if term, known := c.machine.TermOf(m.From.Group()); known {
				c.asMember = append(c.asMember, causal.TermReply{ID: t.ID, Term: uint64(term),
					New: true}.Message(c.self, m.From))
			}
		}
		return
	}
	if r := m.TermReply(); c.left.id != 0 && r.New && r.ID == c.left.id && m.From.Group() == c.topo.Leader(c.self.DC) {
		c.group.SetReplaceable(!coordinator.MembershipTerm(r.Term).IsInUse())
	}
}
