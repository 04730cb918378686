// Package process runs one part of a deployment (a sidecar, coordinator, middleman or cache) as a process of its own,
// joined to the others by gRPC.
//
// A process serves HTTP from its first moment: /healthz says that it is alive, /readyz whether it can do its work, /metrics
// what it has done. It reads its configuration again when the file changes: addresses and the log level are taken over,
// everything else is reported as waiting for a restart.
//
// Failure model: a process may be killed at any time. A coordinator goes on with its log and a middleman with its storage;
// caches start empty, and sessions end with their sidecar. A process that cannot do its work any more (its log failed,
// another one has taken over its storage) ends with an error instead of staying as if it could.
package process

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/metrics"
	"github.com/causalstore/causalstore/sidecar/node"
	"github.com/causalstore/causalstore/sidecar/topology"
	"github.com/causalstore/causalstore/sidecar/transport"
	"github.com/causalstore/causalstore/sidecar/transport/wan"
)

// Options are what a process is started with.
type Options struct {
	// Settings are what Source has loaded.
	Settings *Settings
	// Source is read again while the process runs.
	Source Source
	Logger *slog.Logger
	// Level is what the logger obeys.
	Level *slog.LevelVar
	// DrainTimeout bounds how long the end waits: for clients to get their answers, and for accepted writes to be in every ring.
	DrainTimeout time.Duration
	// Pprof serves /debug/pprof.
	Pprof bool
}

// part is what the process runs.
type part interface {
	host() *node.Host
	handle(batch []causal.Message)
	// linkDown says that what is under way to a node will not be answered.
	linkDown(n topology.Node)
	// linkUp says that a node can be reached.
	linkUp(n topology.Node)
	// unreached says that a node cannot be reached, and nothing was ever sent to it.
	unreached(n topology.Node)
	// setTopology takes a topology that differs from the one in use in numbers of coordinators, shards and caches only.
	setTopology(t *topology.Topology) error
	// ready says why the part cannot do its work now, or nil.
	ready() error
	// drain ends the work in good order, within the time of ctx; messages still go out.
	drain(ctx context.Context) error
	// close frees what the part holds. No message comes any more.
	close() error
}

// process is one run of a part.
type process struct {
	o       Options
	log     *slog.Logger
	inUse   atomic.Pointer[topology.Topology]
	self    topology.Node
	book    *book
	clock   node.Clock
	ticker  *node.Ticker
	net     *transport.GRPC
	metrics prometheus.Registerer // with the labels of this part
	health  *health
	files   *reloader
	failed  chan error // has room for one: the first is the reason

	serving sync.WaitGroup
	part    atomic.Pointer[part] // nil until it has started
}

// Run runs the part that the settings are for until ctx ends, and then ends it in good order. It returns an error if the part
// could not start or had to stop.
func Run(ctx context.Context, o Options) error {
	p := newProcess(o)
	if err := p.health.serve(o.Settings.Config.Listen.HTTP, o.Pprof, p.fail); err != nil {
		return err
	}
	err := p.start(ctx)
	if err == nil {
		unwatch := p.files.watch(p.log)
		p.health.set(phaseRunning)
		p.log.Info("started", "part", p.self.Part, "dataCenter", p.topo().DCs[p.self.DC].Name, "index", o.Settings.Config.Index, "epoch", p.topo().Epoch)
		select {
		case <-ctx.Done():
		case err = <-p.failed:
			p.log.Error("stopping, because this process cannot do its work any more", "error", err)
		}
		unwatch()
	} else if ctx.Err() != nil {
		err = nil // it was told to stop before it had started
	}
	return errors.Join(err, p.stop(err == nil))
}

func newProcess(o Options) *process {
	set := o.Settings
	p := &process{o: o, log: o.Logger, self: set.Self, book: newBook(set.directory), clock: node.NewClock(), failed: make(chan error, 1)}
	p.inUse.Store(set.Topology)
	if p.self.Part == topology.Sidecar {
		p.self.Index = node.NewSidecarIndex()
	}
	registry := metrics.NewRegistry()
	p.metrics = prometheus.WrapRegistererWith(metrics.PartLabels(p.topo(), p.self), registry)
	p.files = newReloader(set, o.Source, p.book, o.Level, p.setTopology)
	p.health = newHealth(p, registry)
	p.metrics.MustRegister(metrics.Topology(p.topo), p.files, p.health)
	return p
}

// topo returns the topology in use.
func (p *process) topo() *topology.Topology { return p.inUse.Load() }

// setTopology takes a topology that differs from the one in use in numbers of coordinators, shards and caches only.
func (p *process) setTopology(t *topology.Topology) error {
	r := p.running()
	if r == nil {
		return errors.New("this process has not started yet")
	}
	if err := r.setTopology(t); err != nil {
		return err
	}
	p.inUse.Store(t)
	return nil
}

// fail ends the process; only the first reason counts.
func (p *process) fail(err error) {
	select {
	case p.failed <- err:
	default:
	}
}

// running returns the part, or nil before it has started.
func (p *process) running() part {
	if r := p.part.Load(); r != nil {
		return *r
	}
	return nil
}

// start joins the network and starts the part.
func (p *process) start(ctx context.Context) error {
	if err := p.join(); err != nil {
		return err
	}
	r, err := p.startPart(ctx)
	if err != nil {
		return fmt.Errorf("start %s %d of %s: %w", p.self.Part, p.o.Settings.Config.Index, p.topo().DCs[p.self.DC].Name, err)
	}
	p.part.Store(&r)
	p.ticker = node.NewTicker()
	p.ticker.Add(r.host())
	if p.self.Part == topology.Sidecar {
		return nil // the others reach it over the links that it opens
	}
	l, err := net.Listen("tcp", p.o.Settings.Config.Listen.GRPC)
	if err != nil {
		return fmt.Errorf("listen.grpc: %w", err)
	}
	p.serving.Go(func() {
		if err := p.net.Serve(l); err != nil {
			p.fail(err)
		}
	})
	return nil
}

func (p *process) join() error {
	c := p.o.Settings.Config
	config := transport.Config{
		Process: p.name(), Nodes: []topology.Node{p.self}, Resolve: p.book.resolve, QueueBytes: int(c.Limits.QueueBytes), Log: p.log,
		Epoch: func() uint64 { return p.topo().Epoch },
		Handler: func(batch []causal.Message) {
			if r := p.running(); r != nil { // before, messages are lost, as for a process that is not there yet
				r.handle(batch)
			}
		},
		Down: func(addr string) {
			if n, ok := p.book.at(addr); ok && p.running() != nil {
				p.running().linkDown(n)
			}
		},
		Up: func(addr string) {
			if n, ok := p.book.at(addr); ok && p.running() != nil {
				p.running().linkUp(n)
			}
		},
		Unreached: func(addr string) {
			if n, ok := p.book.at(addr); ok && p.running() != nil && !p.book.moved(n) {
				p.running().unreached(n)
			}
		},
	}
	if c.TLS != nil {
		config.TLS = &transport.TLSFiles{Cert: c.TLS.Cert, Key: c.TLS.Key, CA: c.TLS.CA, ServerName: c.TLS.ServerName}
	}
	var err error
	if c.EmulateWAN {
		if config.WAN, err = wan.New(p.topo(), wan.Options{Jitter: 0.05}); err != nil {
			return fmt.Errorf("emulateWAN: %w", err)
		}
	}
	if p.net, err = transport.NewGRPC(config); err != nil {
		return err
	}
	p.metrics.MustRegister(metrics.Network(p.net.Stats, config.Epoch))
	return nil
}

// name is what the peers call this process in their logs.
func (p *process) name() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	if p.self.Part == topology.Sidecar {
		return fmt.Sprintf("sidecar@%s on %s", p.topo().DCs[p.self.DC].Name, host)
	}
	return fmt.Sprintf("%s-%d@%s on %s", p.self.Part, p.self.Index, p.topo().DCs[p.self.DC].Name, host)
}

func (p *process) startPart(ctx context.Context) (part, error) {
	switch p.self.Part {
	case topology.Sidecar:
		return p.startSidecar()
	case topology.Coordinator:
		return p.startCoordinator()
	case topology.Middleman:
		return p.startMiddleman(ctx)
	case topology.Cache:
		return p.startCache(), nil
	}
	return nil, fmt.Errorf("there is no part %s", p.self.Part)
}

// stop ends what has started: first the work, then the network, then what they stood on.
func (p *process) stop(inOrder bool) error {
	p.health.set(phaseStopping)
	ctx, cancel := context.WithTimeout(context.Background(), p.o.DrainTimeout)
	defer cancel()
	if !inOrder {
		cancel() // nothing to wait for
	}
	var errs []error
	r := p.running()
	if r != nil {
		errs = append(errs, r.drain(ctx))
	}
	if p.ticker != nil {
		p.ticker.Stop()
	}
	if p.net != nil {
		errs = append(errs, p.net.Close())
	}
	p.serving.Wait()
	if r != nil {
		errs = append(errs, r.close())
	}
	p.health.close()
	return errors.Join(errs...)
}
