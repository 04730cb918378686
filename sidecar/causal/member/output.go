package member

import (
	"fmt"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/coordinator"
	"github.com/causalstore/causalstore/sidecar/causal/group"
)

// Take appends the messages to be sent to dst: to other members, and those of the coordinator.
func (c *Coordinator) Take(dst []causal.Message) []causal.Message {
	dst = append(c.takeGroup(dst), c.asMember...)
	c.asMember = causal.Recycle(c.asMember)
	if c.machine != nil {
		dst = c.machine.Take(dst)
	}
	return dst
}

// Leadership returns the leadership in which this member serves; none unless it serves and, at the last input, held the
// lease.
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

// LogBytes returns the size of the log with what waits to be appended, in bytes.
func (c *Coordinator) LogBytes() int { return c.group.LogBytes() + c.records.waitingBytes }

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
		return fmt.Errorf(
			"the log belongs to a group with the members %v, this is not one of them, and there is no register. If "+
				"the group has used a register, configure it. If it has not, the file volume in the directory of the "+
				"log, which names the disk, is damaged: write the number behind the @ of this member to it",
			s.Config.Members)
	}
	return nil
}
