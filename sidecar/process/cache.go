package process

import (
	"context"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/cache"
	"github.com/causalstore/causalstore/sidecar/metrics"
	"github.com/causalstore/causalstore/sidecar/node"
	"github.com/causalstore/causalstore/topology"
)

type cachePart struct{ c *node.Cache }

func (p *process) startCache() part {
	config := cache.DefaultConfig(p.topo(), p.self)
	config.Broken, config.OwnerOf = brokenRules(), p.net.OwnerOf
	// whatever the sidecars are configured to: an earlier start may have given them copies
	config.NearLease = cache.DefaultNearLease
	if b := p.o.Settings.Config.Limits.CacheBytes; b > 0 {
		config.MaxBytes = int(b)
	}
	config.Rings = p.o.Settings.Binding.Rings(p.topo(), p.self.DC)
	n := node.NewCache(config, p.clock, p.net)
	p.metrics.MustRegister(metrics.Cache(func() *node.Cache { return n }))
	return &cachePart{n}
}

func (c *cachePart) host() node.Host               { return c.c }
func (c *cachePart) handle(batch []causal.Message) { c.c.Handle(batch) }
func (c *cachePart) linkDown(n topology.Node)      { c.c.LinkDown(n) }
func (c *cachePart) linkEnded(n topology.Node)     { c.c.LinkDown(n) }
func (c *cachePart) linkUp(n topology.Node, _ causal.Leadership) {
	c.c.LinkUp(n)
}
func (c *cachePart) memberUp(topology.Node) {}
func (c *cachePart) unsent(causal.Message)  {}
func (c *cachePart) ready() error           { return nil }

func (c *cachePart) setTopology(t *topology.Topology) error {
	c.c.SetTopology(t)
	return nil
}

func (c *cachePart) drain(context.Context) (answered bool, err error) {
	c.c.Close()
	return false, nil
}

func (c *cachePart) close() error { return nil }
