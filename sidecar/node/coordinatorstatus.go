package node

import (
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/coordinator"
	"github.com/causalstore/causalstore/sidecar/causal/member"
	"github.com/causalstore/causalstore/topology"
)

// Inspect calls f with the coordinator's machine, under the lock, if this member serves. f must not change the machine.
func (c *Coordinator) Inspect(f func(*coordinator.Coordinator)) {
	c.host.Inspect(func(m *member.Coordinator) {
		if serving := m.Serving(); serving != nil {
			f(serving)
		}
	})
}

// Membership returns the coordinator's state in the membership of its data center: Joining if this member does not
// serve.
func (c *Coordinator) Membership() (is coordinator.Membership) {
	c.Inspect(func(m *coordinator.Coordinator) { is = m.Membership() })
	return is
}

// Formats returns up to which format values are accepted; and unless those of this version are, a part that is not
// known to read them.
func (c *Coordinator) Formats() (usable causal.Format, lacking topology.Node, isLacking bool) {
	c.Inspect(func(m *coordinator.Coordinator) {
		usable = m.UsableFormat()
		lacking, isLacking = m.FormatLacking()
	})
	return usable, lacking, isLacking
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

// Salvage is how far a lost log is given up.
type Salvage struct {
	Collects bool            // what shards hold of the log; then that is completed in all rings
	Writes   int             // found so far; then those that are incomplete
	Awaited  []topology.Node // the parts that it waits for
}

// Salvage returns how far a lost log is given up, as of one moment; false if none is.
func (c *Coordinator) Salvage() (s Salvage, active bool) {
	c.Inspect(func(m *coordinator.Coordinator) {
		if active = m.Membership() == coordinator.Salvaging; !active {
			return
		}
		if s.Collects, s.Awaited, s.Writes = m.Salvaging(); !s.Collects {
			s.Awaited, s.Writes = m.Recovering()
		}
	})
	return s, active
}

// IsRetired is as for coordinator.Coordinator.
func (c *Coordinator) IsRetired() (retired bool) {
	c.Inspect(func(m *coordinator.Coordinator) { retired = m.IsRetired() })
	return retired
}

// Adoptions returns the adoptions of writes of silent coordinators, if this one is the leader of its data center.
func (c *Coordinator) Adoptions() (all []coordinator.Adoption) {
	c.Inspect(func(m *coordinator.Coordinator) { all = m.Adoptions() })
	return all
}

// IsDrained reports whether all accepted writes are in every ring. A member that does not serve has nothing to drain.
func (c *Coordinator) IsDrained() bool {
	drained := true
	c.Inspect(func(m *coordinator.Coordinator) { drained = m.IsDrained() })
	return drained
}

// CoordinatorsInUse returns the indices of the coordinators of the data center that are in use, if this is its first
// one.
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

// PendingRings returns the rings whose previous slot map the coordinator still uses: none of their middlemen has
// reported the new one.
func (c *Coordinator) PendingRings() (rings topology.RingSet) {
	c.Inspect(func(m *coordinator.Coordinator) { rings = m.PendingRings() })
	return rings
}

// BufferLimit returns the size of incomplete writes in memory at which the coordinator refuses puts, in bytes.
func (c *Coordinator) BufferLimit() int64 { return int64(c.options.Config.MaxBytes) }
