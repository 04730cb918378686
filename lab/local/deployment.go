// Package local runs a whole deployment of many data centers in one process: for the demo, the benchmarks and tests.
//
// The nodes are the same that production runs in separate processes. Only the network between them is function calls
// and queues instead of sockets, with WAN delays between the data centers. Clients connect over real sockets.
package local

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/causalstore/causalstore/console"
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/cache"
	"github.com/causalstore/causalstore/sidecar/causal/coordinator"
	"github.com/causalstore/causalstore/sidecar/causal/group"
	"github.com/causalstore/causalstore/sidecar/causal/middleman"
	"github.com/causalstore/causalstore/sidecar/causal/session"
	"github.com/causalstore/causalstore/sidecar/metrics"
	"github.com/causalstore/causalstore/sidecar/node"
	"github.com/causalstore/causalstore/sidecar/register"
	"github.com/causalstore/causalstore/sidecar/storage"
	"github.com/causalstore/causalstore/sidecar/transport"
	"github.com/causalstore/causalstore/sidecar/transport/wan"
	"github.com/causalstore/causalstore/topology"
)

// Options configure a deployment.
type Options struct {
	Topology *topology.Topology
	// Engine is "embedded" or "redis".
	Engine string
	// DataDir holds all durable data; empty means a temporary directory that Close removes.
	DataDir string
	Scope   node.Scope
	// Level is that of the sessions, and Binding that of the deployment.
	Level   causal.Level
	Binding causal.Binding
	Cache   bool
	// NearBytes bounds the near copies of each sidecar, in bytes; 0: there are none.
	NearBytes int
	// WAN emulates the topology's round-trip times between data centers.
	WAN bool
	// Sidecars is the number of sidecars of each data center, each with a Redis port of its own; 0: one.
	Sidecars int
	// Host and Port are where the first sidecar of the first data center listens for Redis clients. Those of the other
	// data centers use the next ports, then the second ones of all, and so on. With port 0 the system chooses.
	Host string
	Port int
	// TokenKey authenticates session tokens; if it is empty, a key is generated.
	TokenKey []byte
	Logger   *slog.Logger
	// Members is the number of members of each coordinator and of each shard, instead of the topology's; 0: as the
	// topology says.
	Members int
	// Register holds the configurations of the groups that have several members; nil: a file in DataDir.
	Register register.Register
	// Tune may change the configurations of the machines before they start.
	Tune Tune
}

// Tune changes the configurations of machines; nil functions change nothing.
type Tune struct {
	Coordinator func(*coordinator.Config)
	Middleman   func(*middleman.Config)
	Cache       func(*cache.Config)
	Sidecar     func(*session.Config)
}

// Deployment is a running deployment.
type Deployment struct {
	o        Options
	topo     *topology.Topology
	current  atomic.Pointer[topology.Topology] // topo with the exclusions since
	clock    node.Clock
	wan      *wan.Emulator
	net      *transport.Local
	ticker   *node.Ticker
	observer *observer // of writes
	blocks   *pebble.Cache
	tempDir  string
	metrics  *prometheus.Registry

	mu     sync.Mutex // guards starts and stops of parts
	parts  map[topology.Node]*part
	fronts []*redisFront // by data center, and then by number

	probes      probes
	pageClients pageClients
	recording   sync.Mutex // guards recorder
	recorder    *console.Recorder
}

// part is a member of a coordinator or of a shard, or a cache; its running half is nil after a crash.
type part struct {
	id          topology.Node
	coordinator *node.Coordinator
	shard       shardHost         // nil, or alone, or member
	alone       *node.Middleman   // of a shard with one member
	member      *node.ShardMember // of several
	serves      atomic.Bool       // of a shard: readers get what this part has
	cache       *node.Cache
	store       storage.Store
	server      stopper // of the store, if it is a process
	hang        hang
	unwatch     func() // what it watches in the network while it is up
}

type stopper interface{ Stop(context.Context) error }

func (p *part) up() bool { return p.coordinator != nil || p.shard != nil || p.cache != nil }

// Start starts everything and returns when the deployment is ready for clients.
func Start(ctx context.Context, o Options) (*Deployment, error) {
	if o.Engine != "embedded" && o.Engine != "redis" {
		return nil, fmt.Errorf("unknown storage %q; use embedded or redis", o.Engine)
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if err := errors.Join(o.setSidecars(), o.setMembers()); err != nil {
		return nil, err
	}
	d := &Deployment{o: o, topo: o.Topology, clock: node.NewClock(), metrics: metrics.NewRegistry(),
		parts: map[topology.Node]*part{}}
	if err := d.start(ctx); err != nil {
		_ = d.Close() // err says what went wrong first
		return nil, err
	}
	return d, nil
}

// setMembers gives the coordinators and shards of the topology the number of members that is asked for.
func (o *Options) setMembers() error {
	if o.Members > 0 {
		dcs := slices.Clone(o.Topology.DCs)
		for i := range dcs {
			dcs[i].CoordinatorMembers, dcs[i].ShardMembers = o.Members, o.Members
		}
		t, err := topology.New(o.Topology.Epoch, dcs, o.Topology.Rings, o.Topology.RTT)
		if err != nil {
			return err
		}
		o.Topology = t
	}
	return nil
}

// openRegister opens the register of the groups: what they have agreed on lives as long as their data.
func (o *Options) openRegister() error {
	if o.Register != nil {
		return nil
	}
	err := os.MkdirAll(o.DataDir, 0o700)
	if err == nil {
		o.Register, err = register.OpenFile(filepath.Join(o.DataDir, "register.json"))
	}
	return err
}

func (d *Deployment) start(ctx context.Context) error {
	if d.o.DataDir == "" {
		dir, err := os.MkdirTemp("", "causalstore-")
		if err != nil {
			return fmt.Errorf("create a data directory: %w", err)
		}
		d.tempDir, d.o.DataDir = dir, dir
	}
	key, err := tokenKey(d.o.DataDir, d.o.TokenKey)
	if err != nil {
		return err
	}
	d.o.TokenKey = key
	t, err := d.loadExclusions(d.topo)
	if err != nil {
		return err
	}
	d.current.Store(t)
	if err := d.o.openRegister(); err != nil {
		return err
	}
	if d.o.WAN {
		if d.wan, err = wan.New(d.topo, wan.Options{Jitter: 0.05}); err != nil {
			return err
		}
	}
	d.net = transport.NewLocal(d.wan)
	d.net.Validate(d.topo)
	d.observer = newObserver(d.topo, d.clock)
	d.ticker = node.NewTicker()
	d.blocks = pebble.NewCache(64 << 20)
	var nodes []topology.Node
	d.topo.Nodes(func(n topology.Node) { nodes = append(nodes, d.topo.MembersOf(n)...) })
	for _, n := range nodes {
		d.parts[n] = &part{id: n}
	}
	if err := d.each(nodes, func(n topology.Node) error { return d.startPart(ctx, d.parts[n]) }); err != nil {
		return err
	}
	if err := d.awaitEstablished(ctx); err != nil {
		return err
	}
	if err := d.startFronts(); err != nil {
		return err
	}
	d.register()
	return nil
}

// establishTimeout bounds the wait of awaitEstablished. The answers of all data centers take a round trip or two.
const establishTimeout = 30 * time.Second

// awaitEstablished waits until no part with an empty disk waits for the others to answer whether it is new.
func (d *Deployment) awaitEstablished(ctx context.Context) error {
	limit := time.After(establishTimeout)
	for _, p := range d.parts {
		for !d.isEstablished(p) {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-limit:
				return fmt.Errorf(
					"%s %d of %s has an empty disk, and not all parts have answered within %s whether it is new",
					p.id.Part, p.id.Index, d.topo.DCs[p.id.DC].Name, establishTimeout)
			case <-time.After(time.Millisecond):
			}
		}
	}
	return nil
}

// isEstablished reports whether a part takes part: it does not if its disk is empty and others have not answered yet.
// Of several members, one serves and the others follow.
func (d *Deployment) isEstablished(p *part) bool {
	switch {
	case p.coordinator != nil:
		s := p.coordinator.Status()
		if s.Role == group.Following {
			return true
		}
		is := p.coordinator.Membership()
		return (is == coordinator.Serving || is == coordinator.LogLost) &&
			len(s.Config.Members) == d.topo.DCs[p.id.DC].Members(topology.Coordinator)
	case p.member != nil:
		s := p.member.Status()
		return s.Role == group.Following || p.member.Serves() &&
			len(s.Config.Members) == d.topo.DCs[p.id.DC].Members(topology.Middleman)
	case p.alone != nil:
		return p.alone.Serves()
	}
	return true
}

// each calls f concurrently for all nodes and joins the errors.
func (d *Deployment) each(nodes []topology.Node, f func(topology.Node) error) error {
	errs := make([]error, len(nodes))
	var all sync.WaitGroup
	for i, n := range nodes {
		all.Go(func() { errs[i] = f(n) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// dir returns the directory of one part.
func (d *Deployment) dir(n topology.Node) string {
	name := fmt.Sprintf("%s-%d", n.Part, n.Index)
	if n.Member > 1 {
		name += fmt.Sprintf("-%d", n.Member)
	}
	return filepath.Join(d.o.DataDir, d.topo.DCs[n.DC].Name, name)
}

// Close stops everything: first clients, then what they use.
func (d *Deployment) Close() error {
	ctx := context.Background()
	var errs []error
	d.recording.Lock()
	if d.recorder != nil {
		d.recorder.Close()
	}
	d.recording.Unlock()
	d.closeProbes()
	for _, f := range d.fronts {
		errs = append(errs, f.server.Shutdown(ctx))
		f.sidecar.Close()
	}
	if d.ticker != nil {
		d.ticker.Stop()
	}
	if d.net != nil {
		errs = append(errs, d.net.Close())
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, p := range d.parts {
		errs = append(errs, d.stopPart(ctx, p, false))
		if p.store != nil {
			errs = append(errs, p.store.Close())
		}
		if p.server != nil {
			errs = append(errs, p.server.Stop(ctx))
		}
	}
	if d.o.Register != nil {
		errs = append(errs, d.o.Register.Close())
	}
	if d.blocks != nil {
		d.blocks.Unref()
	}
	if d.tempDir != "" {
		errs = append(errs, os.RemoveAll(d.tempDir))
	}
	return errors.Join(errs...)
}
