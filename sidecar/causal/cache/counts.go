package cache

import "github.com/causalstore/causalstore/sidecar/causal"

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
