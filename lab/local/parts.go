package local

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/causalstore/causalstore/lab/redisserver"
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/cache"
	"github.com/causalstore/causalstore/sidecar/causal/coordinator"
	"github.com/causalstore/causalstore/sidecar/causal/middleman"
	"github.com/causalstore/causalstore/sidecar/node"
	"github.com/causalstore/causalstore/sidecar/storage/embedded"
	"github.com/causalstore/causalstore/sidecar/storage/redis"
	"github.com/causalstore/causalstore/sidecar/topology"
	"github.com/causalstore/causalstore/sidecar/transport"
)

// tokenKey returns the given key, or that of the data directory, which it generates once.
func tokenKey(dir string, given []byte) ([]byte, error) {
	if len(given) > 0 {
		return given, nil
	}
	path := filepath.Join(dir, "token.key")
	if key, err := os.ReadFile(path); err == nil && len(key) >= 16 {
		return key, nil
	}
	key := make([]byte, 32)
	if _, err := rand.Read(key); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("create the data directory: %w", err)
	}
	if err := os.WriteFile(path, key, 0o600); err != nil {
		return nil, fmt.Errorf("write the key of session tokens: %w", err)
	}
	return key, nil
}

// startPart starts a part with the data that its last run left on disk.
func (d *Deployment) startPart(ctx context.Context, p *part) error {
	var err error
	switch p.id.Part {
	case topology.Coordinator:
		err = d.startCoordinator(p)
	case topology.Middleman:
		err = d.startMiddleman(ctx, p)
	case topology.Cache:
		err = d.startCache(p)
	}
	if err != nil {
		return fmt.Errorf("start %s %d of %s: %w", p.id.Part, p.id.Index, d.topo.DCs[p.id.DC].Name, err)
	}
	return nil
}

// join connects a started host to the network. reachable, if not nil, is told of nodes that can be reached.
func (d *Deployment) join(h node.Host, reachable func(topology.Node)) error {
	handle := transport.Handler(h.Handle)
	if h.ID().Part == topology.Coordinator {
		handle = d.observer.coordinator(handle)
	}
	p := d.parts[h.ID()]
	hang := &p.hang
	hang.set(false)
	if err := d.net.Register(process(h.ID()), hang.wrap(handle)); err != nil {
		return err
	}
	p.unwatch = func() {}
	if reachable != nil {
		p.unwatch = d.net.Watch(transport.Watcher{Up: func(n topology.Node, _ causal.Leadership) { reachable(n) }})
	}
	if h.ID().HasGroup() { // of one member: each start is another leadership
		d.net.SetLeadership(process(h.ID()), causal.Leadership{Epoch: 1, Life: d.lives.Add(1)})
	}
	d.ticker.Add(h)
	return nil
}

// process returns the address of a node in the network: that of the only member of its group, if it has one.
func process(n topology.Node) topology.Node {
	if n.HasGroup() {
		return n.WithMember(1)
	}
	return n
}

func (d *Deployment) leave(h node.Host) {
	d.parts[h.ID()].unwatch()
	d.net.Deregister(process(h.ID()))
	d.ticker.Remove(h)
}

// leadership is under which a coordinator serves: no other start has the same one.
func (p *part) leadership() causal.Leadership { return causal.Leadership{Epoch: 1, Life: p.starts} }

func (d *Deployment) startCoordinator(p *part) error {
	p.starts++
	cfg := coordinator.DefaultConfig(d.topo, p.id)
	cfg.Leadership = p.leadership()
	if d.o.Tune.Coordinator != nil {
		d.o.Tune.Coordinator(&cfg)
	}
	c, err := node.NewCoordinator(node.CoordinatorOptions{Config: cfg, Clock: d.clock, Net: d.net, Dir: d.dir(p.id), Logger: d.o.Logger})
	if err != nil {
		return err
	}
	p.coordinator = c
	return d.join(c, c.LinkUp)
}

func (d *Deployment) startMiddleman(ctx context.Context, p *part) error {
	if err := d.openStore(ctx, p); err != nil {
		return err
	}
	cfg := middleman.DefaultConfig(d.topo, p.id)
	if d.o.Tune.Middleman != nil {
		d.o.Tune.Middleman(&cfg)
	}
	m, err := node.NewMiddleman(ctx, node.MiddlemanOptions{Config: cfg, Clock: d.clock, Net: d.net, Store: p.store,
		InlineReads: d.o.Engine == "embedded", Logger: d.o.Logger})
	if err != nil {
		return err
	}
	p.middleman = m
	return d.join(m, nil)
}

// openStore opens the storage of a shard, unless a crashed middleman has left it open.
func (d *Deployment) openStore(ctx context.Context, p *part) error {
	if p.store != nil {
		return nil
	}
	if d.o.Engine == "embedded" {
		s, err := embedded.Open(d.dir(p.id), embedded.Options{Cache: d.blocks, Logger: d.o.Logger})
		if err != nil {
			return err
		}
		p.store = d.observer.store(p.id.DC, s)
		return nil
	}
	server, err := redisserver.Start(ctx, redisserver.Options{Dir: d.dir(p.id)})
	if err != nil {
		return err
	}
	p.server = server
	s, err := redis.Open(ctx, redis.Options{Socket: server.Socket, Logger: d.o.Logger})
	if err != nil {
		return err
	}
	p.store = d.observer.store(p.id.DC, s)
	return nil
}

func (d *Deployment) startCache(p *part) error {
	cfg := cache.DefaultConfig(d.topo, p.id)
	if d.o.Static {
		cfg.Rings = topology.RingsOf(d.topo.RingOf(p.id.DC))
	}
	if d.o.Tune.Cache != nil {
		d.o.Tune.Cache(&cfg)
	}
	p.cache = node.NewCache(cfg, d.clock, d.net)
	return d.join(p.cache, p.cache.LinkUp)
}

// stopPart ends the running half of a part: by a crash, or after everything accepted is durable.
func (d *Deployment) stopPart(_ context.Context, p *part, crash bool) error {
	var err error
	switch {
	case p.coordinator != nil:
		d.leave(p.coordinator)
		if crash {
			err = p.coordinator.Crash()
		} else {
			_, err = p.coordinator.Close()
		}
		p.coordinator = nil
	case p.middleman != nil:
		d.leave(p.middleman)
		p.middleman.Close()
		p.middleman = nil
	case p.cache != nil:
		d.leave(p.cache)
		p.cache.Close()
		p.cache = nil
	}
	return err
}

// selected returns the parts of a data center that a fault names.
func (d *Deployment) selected(dcName, kind string) ([]*part, error) {
	dc, ok := d.topo.ByName(dcName)
	if !ok {
		return nil, fmt.Errorf("unknown data center %q", dcName)
	}
	want := map[string]topology.Part{"coordinator": topology.Coordinator, "middleman": topology.Middleman, "cache": topology.Cache}[kind]
	if want == topology.PartNone && kind != "all" {
		return nil, fmt.Errorf("unknown part %q; use coordinator, middleman, cache or all", kind)
	}
	var parts []*part
	d.topo.Nodes(func(n topology.Node) {
		if n.DC == dc && (kind == "all" || n.Part == want) {
			parts = append(parts, d.parts[n])
		}
	})
	return parts, nil
}

// Crash stops parts of a data center immediately. Data that was not durable is lost.
func (d *Deployment) Crash(dc, kind string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	parts, err := d.selected(dc, kind)
	for _, p := range parts {
		if p.up() {
			err = errors.Join(err, d.stopPart(context.Background(), p, true))
		}
	}
	return err
}

// Restart starts the crashed parts of a data center.
func (d *Deployment) Restart(ctx context.Context, dc, kind string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	parts, err := d.selected(dc, kind)
	for _, p := range parts {
		if !p.up() {
			err = errors.Join(err, d.startPart(ctx, p))
		}
	}
	return err
}

// Heal ends cuts and congestion, and restarts and resumes parts.
func (d *Deployment) Heal(ctx context.Context) error {
	if d.wan != nil {
		d.wan.HealAll()
	}
	var err error
	for _, dc := range d.topo.DCs {
		err = errors.Join(err, d.Resume(dc.Name, "all"), d.Restart(ctx, dc.Name, "all"))
	}
	return err
}
