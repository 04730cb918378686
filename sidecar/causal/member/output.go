package member

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/coordinator"
	"github.com/causalstore/causalstore/sidecar/causal/group"
)

// Take appends the messages to be sent to dst: to other members, and those of the coordinator.
func (c *Coordinator) Take(dst []causal.Message) []causal.Message {
	c.messages = c.group.Take(c.now, c.messages[:0])
	for i := range c.messages {
		m := &c.messages[i]
		number, err := strconv.ParseUint(m.To.Name, 10, 8)
		if err != nil {
			continue // the register names a member that is none
		}
		dst = append(dst, causal.GroupMessage{Body: m.AppendTo(nil)}.Message(c.self, c.self.WithMember(uint8(number))))
	}
	clear(c.messages)
	if c.machine != nil {
		dst = c.machine.Take(dst)
	}
	return dst
}

// Writes appends the entries to be made durable, in this order, to dst. Appended says when they are; until then the data of their records is
// not changed, and afterwards it may be.
func (c *Coordinator) Writes(dst []group.Entry) []group.Entry { return c.group.Writes(dst) }

// TruncateBefore returns the index of the first entry that the disk has to keep.
func (c *Coordinator) TruncateBefore() uint64 { return c.group.TruncateBefore() }

// RegisterOps appends the requests to be sent to the register to dst. RegisterDone answers each of them once, however late.
func (c *Coordinator) RegisterOps(dst []group.RegisterOp) []group.RegisterOp {
	return c.group.RegisterOps(dst)
}

// NeedsReset reports whether the volume is damaged and the group does without it: it is to be emptied, and a new member started with another
// volume id.
func (c *Coordinator) NeedsReset() bool { return c.reset }

// Leadership returns the leadership in which this member serves; none unless it serves and, at the last input, held the lease.
func (c *Coordinator) Leadership() causal.Leadership {
	if c.machine == nil {
		return causal.Leadership{}
	}
	return c.group.Leadership(c.now)
}

// Serving returns the coordinator's machine; nil if this member does not serve. It must not be changed.
func (c *Coordinator) Serving() *coordinator.Coordinator { return c.machine }

// IsSettled reports whether nothing that was accepted here waits to be committed.
func (c *Coordinator) IsSettled() bool {
	return c.machine == nil || len(c.records.waiting) == 0 && c.completed+1 == c.records.next
}

// Failure returns why this member cannot serve although it is the primary; nil: it can.
func (c *Coordinator) Failure() error { return c.failure }

// Status returns what the group says about itself.
func (c *Coordinator) Status() group.Status { return c.group.Status() }

// Count is how many members a group has.
type Count struct {
	// Wanted are those that the topology gives the group, Present those of them that are in its configuration.
	Wanted, Present int
	// Leaving are those that the topology does not give the group, and whom commits wait for.
	Leaving int
}

// Count counts the members of the group, as far as this member knows.
func (c *Coordinator) Count() (n Count) {
	d, s := c.desired(), c.group.Status()
	n.Wanted = len(d.Names)
	for _, id := range s.Config.Members {
		if slices.Contains(d.Names, id.Name) {
			n.Present++
		} else {
			n.Leaving++
		}
	}
	for _, id := range s.Pending {
		if !slices.Contains(d.Names, id.Name) {
			n.Leaving++
		}
	}
	return n
}

// Health returns how this member finds its group.
func (c *Coordinator) Health(now causal.Now) group.Health { return c.group.Health(now) }

// LogBytes returns the size of the log with what waits to be appended, in bytes.
func (c *Coordinator) LogBytes() int { return c.group.LogBytes() + c.records.waitingBytes }

// Stats returns the counters.
func (c *Coordinator) Stats() Stats { return c.stats }

// StartAlone brings a member without a register to where it serves. write makes entries durable.
func (c *Coordinator) StartAlone(now causal.Now, write func([]group.Entry) error) error {
	c.now = now
	for idle := 0; c.machine == nil && c.failure == nil && idle < 2; idle++ {
		for entries := c.Writes(nil); len(entries) > 0; entries = c.Writes(nil) {
			if err := write(entries); err != nil {
				return err
			}
			c.Appended(now, entries[len(entries)-1].Index)
			idle = 0
		}
		c.group.Tick(now)
		c.settle(now)
	}
	if c.failure != nil {
		return c.failure
	}
	if s := c.Status(); c.machine == nil {
		return fmt.Errorf("the log belongs to a group with the members %v, and there is no register: configure the register that the group has used", s.Config.Members)
	}
	return nil
}
