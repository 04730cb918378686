package sim

import (
	"time"

	"github.com/causalstore/causalstore/sidecar/causal/coordinator"
	"github.com/causalstore/causalstore/topology"
)

// Faults between sidecars and the caches of their data center.

// nearPair draws a sidecar and a cache of its data center.
func (c *faultInjector) nearPair() (sidecar, cache *node, ok bool) {
	return c.sidecarAnd(topology.Cache)
}

// sidecarAnd draws a sidecar and another part of its data center.
func (c *faultInjector) sidecarAnd(part topology.Part) (sidecar, other *node, ok bool) {
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
	var others []*node
	for _, n := range c.byPart[part] {
		if n.id.DC == sidecar.id.DC {
			others = append(others, n)
		}
	}
	if len(others) == 0 {
		return nil, nil, false
	}
	return sidecar, c.anyOf(others), true
}

// nearCut partitions a sidecar from a cache, sometimes in one direction only.
func (c *faultInjector) nearCut(duration int64) {
	if sidecar, cache, ok := c.nearPair(); ok {
		c.w.countFault(NearCut)
		c.cutSomehow(sidecar, cache, duration)
	}
}

func (c *faultInjector) cutSomehow(sidecar, other *node, duration int64) {
	switch c.w.rng.IntN(3) {
	case 0:
		c.cutDirection(other, sidecar, duration)
	case 1:
		c.cutDirection(sidecar, other, duration)
	default:
		c.cutPair(other, sidecar, duration)
	}
}

// homeCut is nearCut for a sidecar and a home.
func (c *faultInjector) homeCut(duration int64) {
	if sidecar, home, ok := c.sidecarAnd(topology.Coordinator); ok {
		c.w.countFault(HomeCut)
		c.cutSomehow(sidecar, home, duration)
	}
}

// homeGrant delays what a home sends to a sidecar, and then partitions them.
func (c *faultInjector) homeGrant(int64) {
	sidecar, home, ok := c.sidecarAnd(topology.Coordinator)
	if !ok {
		return
	}
	c.w.countFault(HomeGrant)
	lease := int64(coordinator.HomeLease)
	duration := lease/4 + c.w.rng.Int64N(lease/2)
	c.lagPair(home, sidecar, lease/5+c.w.rng.Int64N(lease/3), duration)
	c.later(duration, func() { c.cutDirection(home, sidecar, 2*lease) })
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
