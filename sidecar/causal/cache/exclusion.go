package cache

import "github.com/causalstore/causalstore/sidecar/causal"

// applyExclusions applies further exclusions of data centers (PROTOCOL EXC-10). Copies from their
// shards may be older than what was completed without these: the streams that have brought them end, and with them the
// fills under way.
func (c *Cache) applyExclusions(now causal.Now, x causal.Exclusions) {
	before := c.exclusions
	c.exclusions = before.With(x)
	c.SetExclusions(c.exclusions)
	if c.cfg.Broken.Has(causal.ExcludedCopiesStay) {
		return
	}
	for _, s := range c.order {
		if c.exclusions.Of(s.mm.DC) > before.Of(s.mm.DC) {
			s.epoch++
			s.open, s.incarnation, s.seq, s.acked, s.leaseUntil, s.renewals, s.openedAt, s.reopening = false, 0, 0, 0,
				0, nil, 0, false
			c.endNearStreams(now, s)
			c.stats.Resets++
		}
	}
}
