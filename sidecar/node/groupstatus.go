package node

import (
	"errors"
	"fmt"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/group"
	"github.com/causalstore/causalstore/sidecar/causal/member"
	"github.com/causalstore/causalstore/topology"
)

// Status returns what the group says about itself here.
func (c *groupHost[M]) Status() (s group.Status) {
	c.host.Inspect(func(m M) { s = m.Status() })
	return s
}

// GroupStatus returns the same, and how many members the group has and should have, at one moment.
func (c *groupHost[M]) GroupStatus() (s group.Status, n member.Count) {
	c.host.Inspect(func(m M) { s, n = m.Status(), m.Count() })
	return s, n
}

// Role returns what this member does.
func (c *groupHost[M]) Role() group.Role { return c.Status().Role }

// Describe says for people what the configuration of the group is, and what is wrong with it.
func (c *groupHost[M]) Describe() string {
	s := c.Status()
	if problem := s.Problem(); problem != "" {
		return s.Config.String() + "; " + problem
	}
	if h := c.Health(); h.HasRegister && h.RegisterAway >= 0 {
		return fmt.Sprintf(
			"%s; the register, without which another member cannot take over, has not answered, or has taken no "+
				"change, for %v", s.Config.String(),
			h.RegisterAway.Truncate(time.Second))
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

// Health returns how this member finds its group.
func (c *groupHost[M]) Health() (h group.Health) {
	c.host.Inspect(func(m M) { h = m.Health(c.clock()) })
	return h
}

// Commits returns how long records took to be committed.
func (c *groupHost[M]) Commits() (l member.CommitLatency) {
	c.host.Inspect(func(m M) { l = m.Stats().Commits })
	return l
}

// HasRegister reports whether the group may have several members.
func (c *groupHost[M]) HasRegister() bool { return c.o.register != nil }

// AcceptRegister makes the group believe its register again, which is another one or older than the group: the
// configuration that this member knows, of the given epoch, continues there. The caller is a person who knows that no
// other member knows a higher one.
func (c *groupHost[M]) AcceptRegister(epoch uint64) (err error) {
	c.step(func(now causal.Now, m M) {
		s := m.Status()
		if err = acceptable(&s, epoch); err == nil {
			m.AcceptRegister(now)
		}
	})
	return err
}

// acceptable returns why the register cannot be accepted at a member, or nil.
func acceptable(s *group.Status, epoch uint64) error {
	switch {
	case s.Frozen == "":
		return errors.New("the group is not frozen, so there is nothing to accept")
	case s.Foreign:
		return fmt.Errorf(
			"%s: to accept it would replace that one. Give each store a prefix of its own in etcd "+
				"(register.etcd.prefix), or remove the key if that group is gone", s.Frozen)
	case s.Config.Epoch != epoch:
		return fmt.Errorf("this member knows epoch %d, and not epoch %d any more: look again", s.Config.Epoch, epoch)
	case s.Role == group.Following:
		return fmt.Errorf("member %s is the primary and is heard of: accept the register there", s.Config.Primary.Name)
	case s.Role != group.Serving && s.Role != group.Electing && s.Role != group.Aligning:
		return fmt.Errorf("this member is %s, and does not have the whole log: accept the register at another one",
			s.Role)
	}
	return nil
}

// LogUse returns the size of the log, and the size from which on nothing more is accepted, in bytes. They are those on
// disk; if there may be several members the log is in memory too, and what is nearer to its limit counts.
func (c *groupHost[M]) LogUse() (bytes, limit int64) {
	bytes, limit = c.diskBytes(), refusalSize(c.o.maxLogBytes)
	if !c.HasRegister() {
		return bytes, limit
	}
	var inMemory int64
	c.host.Inspect(func(m M) { inMemory = int64(m.LogBytes()) })
	memoryLimit := refusalSize(int64(c.maxLogInMemory()))
	if float64(inMemory)*float64(limit) >= float64(bytes)*float64(memoryLimit) {
		return inMemory, memoryLimit
	}
	return bytes, limit
}

// refusalSize returns the size of a log at which nothing more is accepted: nine tenths of its bound, because what is
// accepted already must fit.
func refusalSize(bound int64) int64 { return bound - bound/10 }

// maxLogInMemory bounds the log in the memory of a member that may have others.
func (c *groupHost[M]) maxLogInMemory() int {
	return int(min(c.o.maxLogBytes, member.MaxLogBytesInMemory))
}

// diskBytes returns the size of the log on disk.
func (c *groupHost[M]) diskBytes() int64 {
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
