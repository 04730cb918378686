package local

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/causalstore/causalstore/lab/redisserver"
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/cache"
	"github.com/causalstore/causalstore/sidecar/causal/coordinator"
	"github.com/causalstore/causalstore/sidecar/node"
	"github.com/causalstore/causalstore/sidecar/register"
	"github.com/causalstore/causalstore/sidecar/storage/embedded"
	"github.com/causalstore/causalstore/sidecar/storage/redis"
	"github.com/causalstore/causalstore/sidecar/transport"
	"github.com/causalstore/causalstore/topology"
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

// join connects a started host to the network, which passes its messages to handle, and in which w is told of nodes
// that can be reached.
func (d *Deployment) join(p *part, h node.Host, handle transport.Handler, w transport.Watcher) error {
	p.hang.set(false)
	if err := d.net.Register(p.id, p.hang.wrap(handle)); err != nil {
		return err
	}
	d.watch(p, h, w)
	return nil
}

// watch makes a host that the network knows hear of others, and of the time.
func (d *Deployment) watch(p *part, h node.Host, w transport.Watcher) {
	p.unwatch = d.net.Watch(w)
	d.ticker.Add(h)
}

// whenUp returns a watcher of nodes that can be reached.
func whenUp(up func(topology.Node)) transport.Watcher {
	return transport.Watcher{Up: func(n topology.Node, _ causal.Leadership) { up(n) }}
}

func (d *Deployment) leave(p *part, h node.Host) {
	p.unwatch()
	d.net.Deregister(p.id)
	d.ticker.Remove(h)
}

// startCoordinator starts a member of a coordinator. The network knows it before it starts, since it may serve at once.
func (d *Deployment) startCoordinator(p *part) error {
	cfg := coordinator.DefaultConfig(d.current.Load(), p.id.Group())
	cfg.Home = d.o.Scope == node.ScopeDataCenter
	if d.o.Tune.Coordinator != nil {
		d.o.Tune.Coordinator(&cfg)
	}
	p.hang.set(false)
	var started atomic.Pointer[node.Coordinator]
	handle := d.observer.coordinator(func(batch []causal.Message) {
		if c := started.Load(); c != nil {
			c.Handle(batch)
		}
	})
	if err := d.net.Register(p.id, p.hang.wrap(handle)); err != nil {
		return err
	}
	o := node.CoordinatorOptions{Config: cfg, Member: p.id.Member, Clock: d.clock, Net: d.net, Dir: d.dir(p.id),
		Logger:       d.o.Logger,
		OnLeadership: func(l causal.Leadership) { d.net.SetLeadership(p.id, l) }}
	if d.needsRegister(p.id) {
		o.Register = keysOf{d.o.Register, d.topo.DCs[p.id.DC].Name}
	}
	c, err := node.NewCoordinator(o)
	if err != nil {
		d.net.Deregister(p.id)
		return err
	}
	started.Store(c)
	p.coordinator = c
	d.watch(p, c, whenUp(c.LinkUp))
	return nil
}

// needsRegister reports whether the group of a coordinator is in the register: it has several members, or had. The
// register of the data directory says so itself; one that was given is used in any case.
func (d *Deployment) needsRegister(n topology.Node) bool {
	dc := d.topo.DCs[n.DC]
	if dc.Members(topology.Coordinator) > 1 {
		return true
	}
	m, ok := d.o.Register.(*register.Memory)
	return !ok || m.Has(dc.Name+"/"+register.KeyOf(n.Group()))
}

// keysOf is the part of a register that a data center uses.
type keysOf struct {
	register.Register
	dataCenter string
}

// Key implements register.Register.
func (k keysOf) Key(name string, changed func()) register.Key {
	return k.Register.Key(k.dataCenter+"/"+name, changed)
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
		p.store = d.observer.store(p, s)
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
	p.store = d.observer.store(p, s)
	return nil
}

func (d *Deployment) startCache(p *part) error {
	cfg := cache.DefaultConfig(d.current.Load(), p.id)
	if d.o.NearBytes > 0 {
		cfg.NearLease = cache.DefaultNearLease
	}
	cfg.Rings = d.o.Binding.Rings(d.topo, p.id.DC)
	if d.o.Tune.Cache != nil {
		d.o.Tune.Cache(&cfg)
	}
	p.cache = node.NewCache(cfg, d.clock, d.net)
	w := whenUp(p.cache.LinkUp)
	w.Down = p.cache.LinkDown
	return d.join(p, p.cache, d.observer.cache(p.id, p.cache.Handle), w)
}

// stopPart ends the running half of a part: by a crash, or after everything accepted is durable.
func (d *Deployment) stopPart(_ context.Context, p *part, crash bool) error {
	var err error
	switch {
	case p.coordinator != nil:
		d.leave(p, p.coordinator)
		if crash {
			err = p.coordinator.Crash()
		} else {
			_, err = p.coordinator.Close()
		}
		p.coordinator = nil
	case p.shard != nil:
		d.leave(p, p.shard)
		err = p.stopShard(crash)
	case p.cache != nil:
		d.leave(p, p.cache)
		p.cache.Close()
		p.cache = nil
	}
	return err
}

// selected returns the parts of a data center that a fault names.
func (d *Deployment) selected(f Fault) ([]*part, error) {
	dc, ok := d.topo.ByName(f.DC)
	if !ok {
		return nil, fmt.Errorf("unknown data center %q", f.DC)
	}
	want := map[string]topology.Part{"coordinator": topology.Coordinator, "middleman": topology.Middleman,
		"cache": topology.Cache}[f.Part]
	switch {
	case want == topology.PartNone && f.Part != "all":
		return nil, fmt.Errorf("unknown part %q; use coordinator, middleman, cache or all", f.Part)
	case f.Member != 0 && !(topology.Node{Part: want}).HasGroup():
		return nil,
			errors.New("only coordinators and middlemen have members; leave member out, or set part to one of them")
	}
	var parts []*part
	d.topo.Nodes(func(n topology.Node) {
		for _, m := range d.topo.MembersOf(n) {
			if n.DC == dc && (f.Part == "all" || n.Part == want) && (f.Index == nil || n.Index == *f.Index) &&
				(f.Member == 0 || m.Member == f.Member) {
				parts = append(parts, d.parts[m])
			}
		}
	})
	if len(parts) == 0 && want != topology.PartNone {
		return nil, fmt.Errorf("%s has no such %s; /state lists what there is", f.DC, want)
	}
	return parts, nil
}

// crash stops parts immediately. Data that was not durable is lost.
func (d *Deployment) crash(f Fault) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	parts, err := d.selected(f)
	for _, p := range parts {
		if p.up() {
			err = errors.Join(err, d.stopPart(context.Background(), p, true))
		}
	}
	return err
}

// restart starts crashed parts.
func (d *Deployment) restart(ctx context.Context, f Fault) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	parts, err := d.selected(f)
	for _, p := range parts {
		if !p.up() {
			err = errors.Join(err, d.startPart(ctx, p))
		}
	}
	return err
}

// heal ends cuts and congestion, and restarts and resumes parts.
func (d *Deployment) heal(ctx context.Context) error {
	if d.wan != nil {
		d.wan.HealAll()
	}
	var err error
	for _, dc := range d.topo.DCs {
		all := Fault{DC: dc.Name, Part: "all"}
		err = errors.Join(err, d.resumeParts(all), d.restart(ctx, all))
	}
	return err
}
