package node

import (
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/group"
	"github.com/causalstore/causalstore/sidecar/topology"
)

// Status returns what the group says about itself here.
func (c *groupHost[M]) Status() (s group.Status) {
	c.host.Inspect(func(m M) { s = m.Status() })
	return s
}

// Role returns what this member does.
func (c *groupHost[M]) Role() group.Role { return c.Status().Role }

// Describe says for people what the configuration of the group is, and what is wrong with it.
func (c *groupHost[M]) Describe() string {
	s := c.Status()
	if problem := s.Problem(); problem != "" {
		return s.Config.String() + "; " + problem
	}
	return s.Config.String()
}

// Leadership returns the leadership in which this member serves; none if it does not.
func (c *groupHost[M]) Leadership() (l causal.Leadership) {
	c.host.Inspect(func(m M) { l = c.o.leadership(m) })
	return l
}

// MemberNode returns the node of this member.
func (c *groupHost[M]) MemberNode() topology.Node { return c.ID().WithMember(c.o.member) }

// logLimit returns the size of the log on disk from which on nothing more is to be accepted: what is accepted already must fit.
func (c *groupHost[M]) logLimit() int64 { return c.o.maxLogBytes - c.o.maxLogBytes/10 }

// LogBytes returns the size of the log on disk.
func (c *groupHost[M]) LogBytes() int64 {
	c.mu.Lock()
	log := c.log
	c.mu.Unlock()
	if log == nil {
		return 0
	}
	return log.Bytes()
}

// LogState returns how often the log met a full disk, and why it cannot be written now; nil if it can.
func (c *groupHost[M]) LogState() (failures uint64, problem error) { return c.disk.state() }
