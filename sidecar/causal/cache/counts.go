package cache

import (
	"fmt"

	"github.com/causalstore/causalstore/sidecar/causal"
)

// CheckCounts compares what is counted with what there is.
func (c *Cache) CheckCounts() (counts causal.Counts) {
	waiting := 0
	for _, f := range c.flights.byKey {
		for _, w := range f.waiters {
			waiting += w.size
		}
	}
	counts.Compare("bytes of reads that wait", c.flights.quota.Held(), waiting)
	copies, streams := 0, 0
	for _, s := range c.order {
		for _, n := range s.near {
			streams++
			copies += len(n.copies)
		}
	}
	counts.Compare("near streams", len(c.near.byID), streams)
	counts.Compare("near copies", c.near.quota.Held(), copies)
	bytes := 0
	for _, e := range c.entries.Values() {
		bytes += e.size()
	}
	counts.Compare("bytes of entries", c.bytes, bytes)
	return counts
}

// CheckRest returns what is left of the past while nothing is under way, and has been for longer than any lease of near
// copies.
func (c *Cache) CheckRest() (left causal.Counts) {
	left.CheckEmpty("flights by key", len(c.flights.byKey))
	left.CheckEmpty("flights by id", len(c.flights.byID))
	left.CheckEmpty("flights in order", len(c.flights.order))
	for _, s := range c.order {
		left.CheckEmpty(fmt.Sprintf("confirmations of near copies from %s", s.mm), len(s.nearWaits))
		left.CheckEnded(fmt.Sprintf("a stream from %s that waits for near copies", s.mm), s.reopening)
		for _, n := range s.near {
			left.CheckEnded(fmt.Sprintf("near stream %d to %s without a lease", n.id, n.to), n.leaseUntil == 0)
			left.CheckEnded(fmt.Sprintf("a wait for %s", n.to), n.waitsSince != 0)
		}
	}
	return left
}
