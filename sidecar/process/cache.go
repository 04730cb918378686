package process

import (
	"context"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/metrics"
	"github.com/causalstore/causalstore/sidecar/node"
	"github.com/causalstore/causalstore/sidecar/topology"
)

type cache struct{ c *node.Cache }

func (p *process) startCache() part {
	config := causal.DefaultCacheConfig(p.topo(), p.self)
	if b := p.o.Settings.Config.Limits.CacheBytes; b > 0 {
		config.MaxBytes = int(b)
	}
	if p.o.Settings.Static {
		config.Rings = topology.RingsOf(p.topo().RingOf(p.self.DC))
	}
	n := node.NewCache(config, p.clock, p.net)
	p.metrics.MustRegister(metrics.Cache(func() *node.Cache { return n }))
	return &cache{n}
}

func (c *cache) host() *node.Host              { return c.c.Host }
func (c *cache) handle(batch []causal.Message) { c.c.Handle(batch) }
func (c *cache) linkDown(topology.Node)        {}
func (c *cache) linkUp(topology.Node)          {}
func (c *cache) unreached(topology.Node)       {}
func (c *cache) ready() error                  { return nil }

func (c *cache) setTopology(t *topology.Topology) error {
	c.c.SetTopology(t)
	return nil
}

func (c *cache) drain(context.Context) error {
	c.c.Close()
	return nil
}

func (c *cache) close() error { return nil }
