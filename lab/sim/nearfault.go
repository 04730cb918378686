package sim

import (
	"time"

	"github.com/causalstore/causalstore/topology"
)

// Faults between sidecars and the caches of their data center.

// nearPair draws a sidecar and a cache of its data center.
func (c *faultInjector) nearPair() (sidecar, cache *node, ok bool) {
	var sidecars []*node
	for _, n := range c.w.order {
		if n.id.Part == topology.Sidecar {
			sidecars = append(sidecars, n)
		}
	}
	if len(sidecars) == 0 {
		return nil, nil, false
	}
	sidecar = c.anyOf(sidecars)
	var caches []*node
	for _, n := range c.byPart[topology.Cache] {
		if n.id.DC == sidecar.id.DC {
			caches = append(caches, n)
		}
	}
	if len(caches) == 0 {
		return nil, nil, false
	}
	return sidecar, c.anyOf(caches), true
}

// nearCut partitions a sidecar from a cache, sometimes in one direction only.
func (c *faultInjector) nearCut(duration int64) {
	sidecar, cache, ok := c.nearPair()
	if !ok {
		return
	}
	c.w.countFault(NearCut)
	switch c.w.rng.IntN(3) {
	case 0:
		c.cutDirection(cache, sidecar, duration)
	case 1:
		c.cutDirection(sidecar, cache, duration)
	default:
		c.cutPair(cache, sidecar, duration)
	}
}

func (c *faultInjector) cutDirection(from, to *node, duration int64) {
	direction := pair{from.id, to.id}
	c.w.net.pairCuts[direction]++
	c.later(duration, func() { c.w.net.pairCuts[direction]-- })
}

// nearLag delays messages to a sidecar, by less than a read waits.
func (c *faultInjector) nearLag(duration int64) {
	if sidecar, cache, ok := c.nearPair(); ok {
		c.w.countFault(NearLag)
		c.lagPair(cache, sidecar, int64(20*time.Millisecond)+c.w.rng.Int64N(int64(200*time.Millisecond)), duration)
	}
}

// nearGrant delays a grant of a near lease and then partitions the sidecar and, sometimes, the cache from its
// middlemen.
func (c *faultInjector) nearGrant(int64) {
	sidecar, cache, ok := c.nearPair()
	if !ok {
		return
	}
	c.w.countFault(NearGrant)
	lease := int64(c.w.settings.Lease)
	duration := lease/12 + c.w.rng.Int64N(lease/6)
	c.lagPair(cache, sidecar, lease/12+c.w.rng.Int64N(lease/4), duration)
	far := c.w.rng.IntN(2) == 0
	c.later(duration, func() {
		c.cutPair(sidecar, cache, 2*lease)
		if far {
			c.cutPair(cache, c.anyOf(c.byPart[topology.Middleman]), 2*lease)
		}
	})
}

// restartCache restarts a cache, which cannot tell a sidecar for a while.
func (c *faultInjector) restartCache(duration int64) {
	sidecar, cache, ok := c.nearPair()
	if !ok {
		return
	}
	c.cutPair(sidecar, cache, duration)
	c.crashNode(cache, CacheRestart, c.w.rng.Int64N(int64(30*time.Millisecond)))
}
