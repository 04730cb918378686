package node

import (
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/topology"
	"github.com/causalstore/causalstore/sidecar/transport"
)

// Cache runs a causal.Cache.
type Cache struct{ *Host }

// NewCache makes an empty cache. Its incarnation is the wall clock in milliseconds.
func NewCache(cfg causal.CacheConfig, clock Clock, net transport.Network) *Cache {
	cfg.Incarnation = uint64(clock().WallMs)
	c := &Cache{newHost(cfg.Self, clock, net)}
	c.m = causal.NewCache(cfg)
	return c
}

// SetTopology takes a topology that differs from the one in use in the numbers of shards and caches only.
func (c *Cache) SetTopology(t *topology.Topology) {
	c.do(func(causal.Now) { c.m.(*causal.Cache).SetTopology(t) })
}

// Close stops the cache.
func (c *Cache) Close() { c.stop() }

// Machine gives f the machine to look at.
func (c *Cache) Machine(f func(*causal.Cache)) { c.View(func(m any) { f(m.(*causal.Cache)) }) }
