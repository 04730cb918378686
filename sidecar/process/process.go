// Package process runs one part of a deployment (a sidecar, coordinator, middleman or cache) as a process of its own,
// joined to the others by gRPC: flags, configuration, HTTP, signals. Another package, sidecar/causal/process, is a pure
// state machine: in which order a part uses its storage.
//
// A process serves HTTP from the start: /healthz reports liveness, /readyz readiness, and /metrics metrics. It reads
// its configuration again when the file changes: it applies changes of addresses, the log level, the users of
// clients and the counts of a topology (contract.AppliesLive), and reports every other change as waiting for a restart.
//
// Failure model: a process may be killed at any time. A coordinator recovers from its log and a middleman from its
// storage; caches start empty, and sessions end with their sidecar. A process that can no longer work (its log failed,
// another process has taken over its storage) ends with an error.
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

	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/metrics"
	"github.com/causalstore/causalstore/sidecar/node"
	"github.com/causalstore/causalstore/sidecar/transport"
	"github.com/causalstore/causalstore/sidecar/transport/wan"
	"github.com/causalstore/causalstore/sidecar/transport/wire"
	"github.com/causalstore/causalstore/topology"
	"github.com/causalstore/causalstore/version"
)

// Options are what a process is started with.
type Options struct {
	// Settings were loaded from Source.
	Settings *Settings
	// Source is read again when its file changes.
	Source Source
	Logger *slog.Logger
	// Level is the level of the logger.
	Level *slog.LevelVar
	// DrainDelay is how long a sidecar that is told to stop serves as before, new connections included, while it
	// reports that it is not ready: those who balance connections over sidecars need a moment to notice. Other parts do
	// not use it, since their peers do.
	DrainDelay time.Duration
	// DrainTimeout bounds how long a stop waits for clients to get their answers, and for accepted writes to be in
	// every ring.
	DrainTimeout time.Duration
	// DropFutureVersions makes a middleman remove the values from its storage whose timestamps are too far ahead of the
	// clock, before it serves. It is for repairs: with a clock that is behind, it would remove everything that is
	// newer.
	DropFutureVersions bool
	// Pprof serves /debug/pprof.
	Pprof bool
	// EmulateWAN delays what goes to other data centers by half of the topology's round-trip times. It is for tests
	// that run a deployment on one machine; no configuration file turns it on.
	EmulateWAN bool
}

// part is the part that a process runs.
type part interface {
	host() node.Host
	handle(batch []causal.Message)
	// linkDown reports that a node cannot be reached: messages in flight to it will not be answered.
	linkDown(n topology.Node)
	// linkEnded reports that a node has stopped, and that messages in flight to it that it has not answered had no
	// effect.
	linkEnded(n topology.Node)
	// linkUp reports that a node can be reached; with a group, in a leadership, and again in each later one.
	linkUp(n topology.Node, l causal.Leadership)
	// memberUp reports that a member of a group can be reached, whether or not it serves.
	memberUp(member topology.Node)
	// unsent reports a put that was dropped before it was sent.
	unsent(put causal.Message)
	// setTopology switches to a topology that applies live (contract.AppliesLive).
	setTopology(t *topology.Topology) error
	// ready returns why the part cannot do its work now, or nil.
	ready() error
	// drain ends the work in order until ctx is done. Messages are still sent. answered says that all requests that had
	// an effect have been answered, and that later ones have none.
	drain(ctx context.Context) (answered bool, err error)
	// close frees the resources of the part. No message arrives any more.
	close() error
}

// process is one run of a part.
type process struct {
	o       Options
	log     *slog.Logger
	inUse   atomic.Pointer[topology.Topology]
	self    topology.Node
	version string // of the build
	book    *addressBook
	clock   node.Clock
	ticker  *node.Ticker
	net     *transport.GRPC
	metrics prometheus.Registerer // with the labels of this part
	health  *health
	files   *reloader
	failed  chan error // buffers one error: only the first counts

	serving sync.WaitGroup
	part    atomic.Pointer[part] // nil until it has started
}

// Run runs the part that the settings are for until ctx is done, and then stops it in order. It returns an error if the
// part could not start or had to stop.
func Run(ctx context.Context, o Options) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p := newProcess(o)
	if err := p.health.serve(o.Settings.Config.Listen.HTTP, o.Pprof, p.fail); err != nil {
		return err
	}
	err := p.start(ctx)
	if err == nil {
		unwatch := p.files.watch(p.log)
		p.health.setPhase(contract.PhaseRunning)
		p.log.Info("started", "part", p.self.Part, "dataCenter", p.topo().DCs[p.self.DC].Name, "index",
			o.Settings.Config.Index,
			"epoch", p.topo().Epoch)
		select {
		case <-ctx.Done():
		case err = <-p.failed:
			p.log.Error("stopping: this process can no longer work", "error", err)
		}
		unwatch()
		cancel() // a storage must not wait any longer for space on a full disk
	} else if ctx.Err() != nil {
		err = nil // ctx ended before the start was complete
	}
	return errors.Join(err, p.stop(err == nil))
}

func newProcess(o Options) *process {
	set := o.Settings
	p := &process{o: o, log: o.Logger, self: set.Self, book: newAddressBook(set.addresses), clock: node.NewClock(),
		failed: make(chan error, 1)}
	p.inUse.Store(set.Topology)
	p.version = version.Exact()
	p.version = p.version[:min(len(p.version), wire.MaxVersion)]
	if p.self.Part == topology.Sidecar {
		p.self.Index = node.NewSidecarIndex()
	}
	registry := metrics.NewRegistry()
	p.metrics = prometheus.WrapRegistererWith(metrics.PartLabels(p.topo(), p.self), registry)
	p.files = newReloader(set, o.Source, p.book, o.Level, p.setTopology, p.setUsers)
	p.health = newHealth(p, registry)
	p.metrics.MustRegister(metrics.Topology(p.topo), p.files, p.health)
	return p
}

// topo returns the topology in use.
func (p *process) topo() *topology.Topology { return p.inUse.Load() }

// setTopology switches to a topology that applies live.
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

// setUsers replaces the users of the clients of a sidecar.
func (p *process) setUsers(users []contract.User) {
	if s, ok := p.running().(*sidecarPart); ok {
		s.server.SetUsers(users)
	}
}

// fail ends the process; only the first reason counts.
func (p *process) fail(err error) {
	select {
	case p.failed <- err:
	default:
	}
}

// endAtOnce ends the process as kill -9 does, for what must not go on even for an orderly stop.
func (p *process) endAtOnce(err error) {
	p.log.Error("the process ends at once", "error", err)
	os.Exit(1)
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
		return fmt.Errorf("start %s %d of %s: %w", p.self.Part, p.o.Settings.Config.Index,
			p.topo().DCs[p.self.DC].Name, err)
	}
	p.part.Store(&r)
	p.ticker = node.NewTicker()
	p.ticker.Add(r.host())
	if p.self.Part == topology.Sidecar {
		return nil // peers use the links that it opens
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
		Process: p.name(), Nodes: []topology.Node{p.self}, Members: func(n topology.Node) []topology.Node {
			return p.topo().MembersOf(n)
		}, Resolve: p.book.addressOf, Via: p.book.viaOf, QueueBytes: int(c.Limits.QueueBytes), Log: p.log,
		Epoch: func() uint64 {
			return p.topo().Epoch
		}, Topology: p.topo, TLS: c.TLS, Binding: p.o.Settings.Binding.String(), Version: p.version,
		MaxLinks: c.Limits.Links, MaxLinksPerIdentity: c.Limits.LinksPerIdentity,
		Handler: func(batch []causal.Message) {
			if r := p.running(); r != nil { // until then messages are dropped, as if the process had not started
				r.handle(batch)
			}
		},
		Down: func(n topology.Node) {
			if r := p.running(); r != nil {
				r.linkDown(n)
			}
		},
		Ended: func(n topology.Node) {
			if r := p.running(); r != nil {
				r.linkEnded(n)
			}
		},
		Up: func(n topology.Node, l causal.Leadership) {
			if r := p.running(); r != nil {
				r.linkUp(n, l)
			}
		},
		MemberUp: func(member topology.Node) {
			if r := p.running(); r != nil {
				r.memberUp(member)
			}
		},
		Unsent: func(put causal.Message) {
			if r := p.running(); r != nil {
				r.unsent(put)
			}
		},
	}
	var err error
	if p.o.EmulateWAN {
		if config.WAN, err = wan.New(p.topo(), wan.Options{Jitter: 0.05}); err != nil {
			return fmt.Errorf("emulate the WAN: %w", err)
		}
	}
	if p.net, err = transport.NewGRPC(config); err != nil {
		return err
	}
	p.metrics.MustRegister(metrics.Network(p.net.Stats, config.Epoch))
	return nil
}

// name returns the name of this process in the logs of its peers.
func (p *process) name() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	if p.self.Part == topology.Sidecar {
		return fmt.Sprintf("sidecar@%s on %s", p.topo().DCs[p.self.DC].Name, host)
	}
	name := fmt.Sprintf("%s-%d", p.self.Part, p.self.Index)
	if p.self.Member > 1 {
		name += fmt.Sprintf("-%d", p.self.Member)
	}
	return fmt.Sprintf("%s@%s on %s", name, p.topo().DCs[p.self.DC].Name, host)
}

func (p *process) startPart(ctx context.Context) (part, error) {
	switch p.self.Part {
	case topology.Sidecar:
		return p.startSidecar()
	case topology.Coordinator:
		return p.startWhenThereIsSpace(ctx, p.startCoordinator)
	case topology.Middleman:
		return p.startWhenThereIsSpace(ctx, func() (part, error) { return p.startMiddleman(ctx) })
	case topology.Cache:
		return p.startCache(), nil
	}
	return nil, fmt.Errorf("unknown part %s", p.self.Part)
}

// serveUntilUnrouted serves for the drain delay, unless the process fails.
func (p *process) serveUntilUnrouted() {
	if p.o.DrainDelay > 0 {
		p.log.Info("stopping; clients are served until those who balance connections have noticed", "delay",
			p.o.DrainDelay)
	}
	select {
	case <-time.After(p.o.DrainDelay):
	case err := <-p.failed:
		p.log.Error("this process can no longer work", "error", err)
	}
}

// stop stops first the work, then the network, then the storage that they used.
func (p *process) stop(inOrder bool) error {
	p.health.setPhase(contract.PhaseStopping)
	if inOrder && p.self.Part == topology.Sidecar && p.running() != nil {
		p.serveUntilUnrouted()
	}
	ctx, cancel := context.WithTimeout(context.Background(), p.o.DrainTimeout)
	defer cancel()
	if !inOrder {
		cancel() // wait for nothing
	}
	var errs []error
	r := p.running()
	if r != nil {
		answered, err := r.drain(ctx)
		errs = append(errs, err)
		if answered && p.net != nil {
			p.net.Answered()
		}
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
