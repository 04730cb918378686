package node

import (
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/coordinator"
	"github.com/causalstore/causalstore/sidecar/causal/group"
	"github.com/causalstore/causalstore/sidecar/causal/member"
	"github.com/causalstore/causalstore/sidecar/topology"
)

// Status returns what the group of this coordinator says about itself here.
func (c *Coordinator) Status() (s group.Status) {
	c.host.Inspect(func(m *member.Coordinator) { s = m.Status() })
	return s
}

// GroupStatus returns the same, and how many members the group has and should have, at one moment.
func (c *Coordinator) GroupStatus() (s group.Status, n member.Count) {
	c.host.Inspect(func(m *member.Coordinator) { s, n = m.Status(), m.Count() })
	return s, n
}

// Health returns how this member finds its group.
func (c *Coordinator) Health() (h group.Health) {
	c.host.Inspect(func(m *member.Coordinator) { h = m.Health(c.o.Clock()) })
	return h
}

// Commits returns how long records took to be committed.
func (c *Coordinator) Commits() (l member.CommitLatency) {
	c.host.Inspect(func(m *member.Coordinator) { l = m.Stats().Commits })
	return l
}

// HasRegister reports whether the group may have several members.
func (c *Coordinator) HasRegister() bool { return c.o.Register != nil }

// Role returns what this member does.
func (c *Coordinator) Role() group.Role { return c.Status().Role }

// Describe says for people what the configuration of the group is, and what is wrong with it.
func (c *Coordinator) Describe() string {
	s := c.Status()
	if problem := s.Problem(); problem != "" {
		return s.Config.String() + "; " + problem
	}
	return s.Config.String()
}

// Leadership returns the leadership in which this member serves; none if it does not.
func (c *Coordinator) Leadership() (l causal.Leadership) {
	c.host.Inspect(func(m *member.Coordinator) { l = m.Leadership() })
	return l
}

// MemberNode returns the node of this member.
func (c *Coordinator) MemberNode() topology.Node { return c.ID().WithMember(c.o.Member) }

// Inspect calls f with the coordinator's machine, under the lock, if this member serves. f must not change the machine.
func (c *Coordinator) Inspect(f func(*coordinator.Coordinator)) {
	c.host.Inspect(func(m *member.Coordinator) {
		if serving := m.Serving(); serving != nil {
			f(serving)
		}
	})
}

// Membership returns the coordinator's state in the membership of its data centre: Joining if this member does not serve.
func (c *Coordinator) Membership() (is coordinator.Membership) {
	c.Inspect(func(m *coordinator.Coordinator) { is = m.Membership() })
	return is
}

// DataLost returns the parts that know of writes which the log does not hold; none unless the log was lost.
func (c *Coordinator) DataLost() (nodes []topology.Node) {
	c.Inspect(func(m *coordinator.Coordinator) { nodes = m.DataLost() })
	return nodes
}

// Unanswered returns the parts that have to answer before the coordinator starts with an empty log.
func (c *Coordinator) Unanswered() (nodes []topology.Node) {
	c.Inspect(func(m *coordinator.Coordinator) { nodes = m.Unanswered() })
	return nodes
}

// IsDrained reports whether all accepted writes are in every ring. A member that does not serve has nothing to drain.
func (c *Coordinator) IsDrained() bool {
	drained := true
	c.Inspect(func(m *coordinator.Coordinator) { drained = m.IsDrained() })
	return drained
}

// CoordinatorsInUse returns the indices of the coordinators of the data centre that are in use, if this is its first one.
func (c *Coordinator) CoordinatorsInUse() (indices []int) {
	c.Inspect(func(m *coordinator.Coordinator) {
		for i, bits := 0, m.InUse(); bits != 0; i, bits = i+1, bits>>1 {
			if bits&1 != 0 {
				indices = append(indices, i)
			}
		}
	})
	return indices
}

// PendingRings returns the rings whose previous slot map the coordinator still uses: none of their middlemen has reported the new
// one.
func (c *Coordinator) PendingRings() (rings topology.RingSet) {
	c.Inspect(func(m *coordinator.Coordinator) { rings = m.PendingRings() })
	return rings
}

// BufferLimit returns the size of incomplete writes in memory at which the coordinator refuses puts, in bytes.
func (c *Coordinator) BufferLimit() int64 { return int64(c.o.Config.MaxBytes) }

// LogUse returns the size of the log, and the size at which the coordinator refuses puts, in bytes. They are those on disk; if there may be
// several members the log is in memory too, and what is nearer to its limit counts.
func (c *Coordinator) LogUse() (bytes, limit int64) {
	bytes, limit = c.diskBytes(), refusalSize(c.o.MaxLogBytes)
	if c.o.Register == nil {
		return bytes, limit
	}
	var inMemory int64
	c.host.Inspect(func(m *member.Coordinator) { inMemory = int64(m.LogBytes()) })
	memoryLimit := refusalSize(int64(c.maxLogInMemory()))
	if float64(inMemory)*float64(limit) >= float64(bytes)*float64(memoryLimit) {
		return inMemory, memoryLimit
	}
	return bytes, limit
}

// refusalSize returns the size of a log at which puts are refused: nine tenths of its bound, because writes that are already accepted must
// fit.
func refusalSize(bound int64) int64 { return bound - bound/10 }

// maxLogInMemory bounds the log in the memory of a member that may have others.
func (c *Coordinator) maxLogInMemory() int {
	return int(min(c.o.MaxLogBytes, member.MaxLogBytesInMemory))
}

// diskBytes returns the size of the log on disk.
func (c *Coordinator) diskBytes() int64 {
	c.mu.Lock()
	log := c.log
	c.mu.Unlock()
	if log == nil {
		return 0
	}
	return log.Bytes()
}

// LogState returns how often the log met a full disk, and why it cannot be written now; nil if it can.
func (c *Coordinator) LogState() (failures uint64, problem error) { return c.disk.state() }
