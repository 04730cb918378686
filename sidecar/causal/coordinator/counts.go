package coordinator

import (
	"fmt"

	"github.com/causalstore/causalstore/sidecar/causal"
)

// CheckCounts compares what is counted with what there is.
func (c *Coordinator) CheckCounts() (counts causal.Counts) {
	bytes := 0
	for _, w := range c.incomplete {
		bytes += w.size
	}
	counts.Compare("bytes of incomplete writes", c.bytes, bytes)
	counts.Compare("sessions", c.quota.Held(), len(c.sessions))
	bytes = 0
	for _, p := range c.undurable.queue[c.undurable.head:] {
		bytes += p.size
	}
	counts.Compare("bytes that are not durable", c.undurable.quota.Held(), bytes)
	for _, l := range c.laneOrder {
		bytes = 0
		for _, e := range l.queue[l.head:l.next] {
			if !e.w.acked.Has(l.ring) {
				bytes += e.w.flying
			}
		}
		counts.Compare(fmt.Sprintf("bytes in flight to %s", l.mm), l.flow.inFlight, bytes)
	}
	bytes = 0
	for _, a := range c.adopter.cases {
		bytes += a.bytes
	}
	counts.Compare("bytes of adopted writes", c.adopter.bytes, bytes)
	bytes = len(c.home.complete) * homeEntryBytes
	waits, readers := 0, 0
	for name, k := range c.home.keys {
		bytes += homeKeyBytes + len(name) + len(k.top.Value.Data)
		waits += len(k.waiting)
		readers += k.readers
	}
	counts.Compare("bytes of the home", c.home.bytes, bytes)
	counts.Compare("reads that wait at the home", c.home.waits.Held(), waits)
	reads := 0
	for _, w := range c.writes {
		if !w.durable {
			reads += len(w.reads)
		}
	}
	waiting := 0
	for _, l := range c.locks.order {
		if l.taken {
			reads += len(l.part.Keys)
		} else {
			waiting++
		}
	}
	locks := 0
	for _, f := range c.locks.fences {
		locks += f.locks
	}
	counts.Compare("parts of commits that have not ended", locks, len(c.locks.order))
	counts.Compare("commits that wait for keys", c.locks.waiting, waiting)
	counts.Compare("commits that go by a key", readers, reads)
	return counts
}

// CheckRest returns what is left of the past while nothing is under way.
func (c *Coordinator) CheckRest() (left causal.Counts) {
	left.CheckEmpty("writes", len(c.writes))
	left.CheckEmpty("incomplete writes", len(c.incomplete))
	left.CheckEmpty("puts that are not durable", len(c.undurable.queue)-c.undurable.head)
	left.CheckEmpty("completions that are not told", len(c.completed))
	left.CheckEnded("an inquiry into the past", c.past.active && len(c.past.lostTo) == 0) // else a person decides
	for _, l := range c.laneOrder {
		left.CheckEmpty(fmt.Sprintf("writes for %s", l.mm), len(l.queue)-l.head)
		left.CheckEmpty(fmt.Sprintf("stable marks for %s", l.mm), len(l.stableMarks))
	}
	left.CheckEmpty("locks", len(c.locks.order))
	left.CheckEmpty("decisions that are not confirmed", len(c.locks.decisions))
	left.CheckEmpty("adoptions", len(c.adopter.inProgress()))
	left.CheckEmpty("bytes of adopted writes", c.adopter.bytes)
	empty := 0
	for _, k := range c.home.keys {
		if k.isEmpty() {
			empty++
		}
	}
	left.CheckEmpty("keys of which the home knows nothing", empty)
	return left
}
