package node

import (
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/cache"
	"github.com/causalstore/causalstore/sidecar/transport"
	"github.com/causalstore/causalstore/topology"
)

// Cache runs a cache.Cache.
type Cache struct{ *host[*cache.Cache] }

// NewCache returns an empty cache. Its incarnation is the wall clock in milliseconds.
func NewCache(cfg cache.Config, clock Clock, net transport.Network) *Cache {
	cfg.Incarnation = uint64(clock().WallMs)
	return &Cache{newHost(cfg.Self, clock, net, cache.New(cfg))}
}

// SetTopology replaces the topology by one that differs only in the numbers of shards and caches.
func (c *Cache) SetTopology(t *topology.Topology) {
	c.step(func(_ causal.Now, m *cache.Cache) { m.SetTopology(t) })
}

// LinkDown tells the machine that a middleman cannot be reached.
func (c *Cache) LinkDown(n topology.Node) {
	c.step(func(now causal.Now, m *cache.Cache) { m.LinkDown(now, n) })
}

// LinkUp tells the machine that a node is reachable.
func (c *Cache) LinkUp(n topology.Node) {
	c.step(func(now causal.Now, m *cache.Cache) { m.LinkUp(now, n) })
}

// Close stops the cache.
func (c *Cache) Close() { c.stop() }
