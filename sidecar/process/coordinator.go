package process

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/coordinator"
	"github.com/causalstore/causalstore/sidecar/causal/group"
	"github.com/causalstore/causalstore/sidecar/metrics"
	"github.com/causalstore/causalstore/sidecar/node"
	"github.com/causalstore/causalstore/sidecar/register"
	"github.com/causalstore/causalstore/sidecar/signature"
	"github.com/causalstore/causalstore/topology"
)

type coordinatorPart struct {
	c        *node.Coordinator
	register register.Register // nil: there is none
	self     topology.Node     // a member of its group
	dir      string
	log      *slog.Logger
	topo     func() *topology.Topology
	admin    *adminServer
	closed   chan struct{}
}

func (p *process) startCoordinator() (part, error) {
	c := p.o.Settings.Config
	id := identityOf(p.topo(), p.self)
	if err := os.MkdirAll(c.DataDir, 0o700); err != nil {
		return nil, fmt.Errorf("dataDir: %w", err)
	}
	if err := id.checkDir(c.DataDir); err != nil {
		return nil, err
	}
	if err := checkLogDir(c.DataDir); err != nil {
		return nil, err
	}
	config := coordinator.DefaultConfig(p.topo(), p.self.Group())
	config.Home = p.o.Settings.Scope == node.ScopeDataCenter
	config.Broken, config.OwnerOf = brokenRules(), p.net.OwnerOf
	if b := c.Limits.WriteBufferBytes; b > 0 {
		config.MaxBytes = int(b)
	}
	var refused func(topology.DC) uint64
	if c.TLS != nil {
		signer := signature.NewVectors(p.net.Credentials, p.topo, time.Now, p.log)
		config.Signer, refused = signer, signer.Refused
	}
	reg, err := p.openRegister(c.Register)
	if err != nil {
		return nil, err
	}
	n, err := node.NewCoordinator(node.CoordinatorOptions{
		Config: config, Member: p.self.Member, Register: reg, OnLeadership: p.onLeadership(), Clock: p.clock,
		Net: p.net, Dir: filepath.Join(c.DataDir, logDir), MaxLogBytes: int64(c.Limits.LogBytes), Logger: p.log,
		OnFailure: func(err error) { p.fail(fmt.Errorf("the write buffer log failed: %w", err)) },
	})
	if err != nil {
		return nil, explainDamagedLog(err)
	}
	// The log is locked now, so no other process uses the folder.
	if err := id.writeDir(c.DataDir); err != nil {
		return nil, fmt.Errorf("%w (and the log: %w)", err, n.Crash())
	}
	p.metrics.MustRegister(metrics.Coordinator(p.topo(), func() *node.Coordinator {
		return n
	}), metrics.SignedVectors(p.topo(), n, refused))
	part := &coordinatorPart{c: n, register: reg, self: p.self, dir: c.DataDir, log: p.log, topo: p.topo,
		closed: make(chan struct{})}
	go part.logProgress()
	part.admin = (&adminServer{c: part.c, coordinator: part, log: part.log}).serve(c.DataDir)
	p.metrics.MustRegister(metrics.Peers(p.topo(), p.self.DC, func() []contract.Peer {
		return p.peers(part)
	}, p.net.Stats))
	return part, nil
}

// onLeadership returns what is called when this member begins to serve, or ends. It logs that the member serves under
// another configuration of its group than before; that a lease has run out for a moment is not logged.
func (p *process) onLeadership() func(causal.Leadership) {
	var logged uint64
	return func(l causal.Leadership) {
		if l.Epoch > logged {
			logged = l.Epoch
			p.log.Info("this member serves", "groupEpoch", l.Epoch)
		}
		p.net.SetLeadership(l)
	}
}

// openRegister opens the register of groups; nil if none is configured.
func (p *process) openRegister(r *contract.Register) (register.Register, error) {
	if r == nil {
		return nil, nil
	}
	c := p.o.Settings.Config
	o := register.Options{Etcd: *r.Etcd, DataCenter: c.DataCenter, Log: p.log}
	if c.TLS != nil {
		o.Credentials = p.net.Credentials
	}
	counters := metrics.NewRegister()
	o.Metrics = counters
	p.metrics.MustRegister(counters)
	return register.Open(o)
}

func (c *coordinatorPart) host() node.Host               { return c.c }
func (c *coordinatorPart) handle(batch []causal.Message) { c.c.Handle(batch) }
func (c *coordinatorPart) linkDown(topology.Node)        {}
func (c *coordinatorPart) linkEnded(topology.Node)       {}
func (c *coordinatorPart) linkUp(n topology.Node, _ causal.Leadership) {
	c.c.LinkUp(n)
}
func (c *coordinatorPart) memberUp(m topology.Node) { c.c.LinkUp(m) }
func (c *coordinatorPart) unsent(causal.Message)    {}

func (c *coordinatorPart) close() error {
	close(c.closed)
	c.admin.close()
	if c.register == nil {
		return nil
	}
	return c.register.Close()
}

// memberships are the stages of a coordinator, as the readiness report names them.
var memberships = map[coordinator.Membership]contract.Membership{
	coordinator.Joining: contract.MembershipJoining, coordinator.Serving: contract.MembershipServing,
	coordinator.Leaving: contract.MembershipLeaving, coordinator.Left: contract.MembershipLeft,
	coordinator.LogLost: contract.MembershipLogLost, coordinator.Salvaging: contract.MembershipSalvaging,
}

// ready returns why the coordinator does not serve. A coordinator whose log has failed does not get here: its process
// has ended.
func (c *coordinatorPart) ready() error {
	if _, err := c.c.LogState(); err != nil {
		return inState(contract.StateLogFull, fmt.Errorf("accepts no writes: %w", err))
	}
	switch role := c.c.Role(); role {
	case group.Serving:
	case group.Following:
		return nil // it can take over at any time
	case group.Starting, group.Outside, group.Broken:
		return fmt.Errorf("%s: it does not take part in the coordinator's group, which has %s", role, c.c.Describe())
	default:
		return fmt.Errorf("%s: it holds a copy of the coordinator's log, and does not serve; the group has %s", role,
			c.c.Describe())
	}
	switch c.c.Membership() {
	case coordinator.LogLost:
		return inState(contract.StateDataLost, c.explainLostLog(c.topo()))
	case coordinator.Joining:
		if nodes := c.c.Unanswered(); len(nodes) > 0 {
			return c.explainUnanswered(c.topo(), nodes)
		}
		return errors.New(
			"joining: the first coordinator of the data center has not admitted it yet; check that it runs with this " +
				"topology")
	case coordinator.Salvaging:
		return errors.New(c.describeLoss().Reason)
	case coordinator.Leaving:
		return errors.New(
			"leaving: the topology no longer includes it; it has left when all writes that it has accepted are in " +
				"every ring")
	case coordinator.Left:
		return errors.New(
			"left: the topology no longer includes it, and all of its writes are in every ring; it can be stopped")
	}
	return nil
}

// setTopology also records the epoch beside the log, so that no later start uses an older one.
func (c *coordinatorPart) setTopology(t *topology.Topology) error {
	c.c.SetTopology(t)
	return identityOf(t, c.self).writeDir(c.dir)
}

// drainPollInterval is how often a drain checks whether it has finished.
const drainPollInterval = 10 * time.Millisecond

// handOverTimeout bounds how long a member that is about to stop waits for another one to serve.
const handOverTimeout = 5 * time.Second

// drain makes another member serve, if there is one. Otherwise it refuses new puts and waits until accepted writes are
// in every ring. Then it closes the log. Writes that are incomplete at the end of ctx are replayed from the log at the
// next start.
func (c *coordinatorPart) drain(ctx context.Context) (answered bool, err error) {
	if len(c.c.Status().Config.Members) > 1 {
		c.c.HandOver()
		within, cancel := context.WithTimeout(ctx, handOverTimeout)
		awaitTrue(within, func() bool { return c.c.Role() != group.Serving })
		cancel()
	}
	c.c.RefusePuts()
	awaitTrue(ctx, c.c.IsDrained)
	answered, err = c.c.Close()
	c.c.Inspect(func(m *coordinator.Coordinator) {
		if writes, _ := m.Pending(); writes > 0 {
			c.log.Warn("stopping with incomplete writes; the next start replays them from the log", "writes", writes)
		}
	})
	if err != nil {
		return answered, fmt.Errorf("stop coordinator: %w", err)
	}
	return answered, nil
}

// awaitTrue waits until cond is true or ctx is done.
func awaitTrue(ctx context.Context, cond func() bool) {
	poll := time.NewTicker(drainPollInterval)
	defer poll.Stop()
	for !cond() && ctx.Err() == nil {
		select {
		case <-poll.C:
		case <-ctx.Done():
		}
	}
}
