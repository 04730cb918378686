package process

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/metrics"
	"github.com/causalstore/causalstore/sidecar/node"
	"github.com/causalstore/causalstore/sidecar/topology"
)

type coordinator struct {
	c   *node.Coordinator
	dir string
	log *slog.Logger
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
	config := causal.DefaultCoordinatorConfig(p.topo(), p.self)
	if b := c.Limits.WriteBufferBytes; b > 0 {
		config.MaxBytes = int(b)
	}
	n, err := node.NewCoordinator(node.CoordinatorOptions{
		Config: config, Clock: p.clock, Net: p.net, Dir: filepath.Join(c.DataDir, "log"), MaxLogBytes: int64(c.Limits.LogBytes), Logger: p.log,
		Failed: func(err error) { p.fail(fmt.Errorf("the write buffer log failed: %w", err)) },
	})
	if err != nil {
		return nil, err
	}
	// Only now is it sure that no other process has the folder.
	if err := id.writeDir(c.DataDir); err != nil {
		return nil, fmt.Errorf("%w (and the log: %w)", err, n.Close())
	}
	p.metrics.MustRegister(metrics.Coordinator(p.topo(), func() *node.Coordinator { return n }))
	return &coordinator{n, c.DataDir, p.log}, nil
}

func (c *coordinator) host() *node.Host              { return c.c.Host }
func (c *coordinator) handle(batch []causal.Message) { c.c.Handle(batch) }
func (c *coordinator) linkDown(topology.Node)        {}
func (c *coordinator) linkUp(topology.Node)          {}
func (c *coordinator) unreached(topology.Node)       {}
func (c *coordinator) close() error                  { return nil }

// ready: it would have ended if its log had failed.
func (c *coordinator) ready() error {
	switch c.c.Membership() {
	case causal.Joining:
		return errors.New("joining: the first coordinator of the data centre has not let it in yet; see to it that it runs, and has this topology")
	case causal.Leaving:
		return errors.New("leaving: the topology does not count it any more, and it goes when all that it has taken is in every ring")
	case causal.Left:
		return errors.New("left: the topology does not count it any more, and nothing is left of it; it can be stopped")
	}
	return nil
}

// setTopology also leaves the epoch beside the log: no later start may go by an older one.
func (c *coordinator) setTopology(t *topology.Topology) error {
	c.c.SetTopology(t)
	return identityOf(t, c.c.ID).writeDir(c.dir)
}

// drainLook is how often the drain looks whether it is done.
const drainLook = 10 * time.Millisecond

// drain lets no put in any more, waits for what was accepted to be in every ring, and closes the log. What is left when the
// time is up is in the log, and goes on at the next start.
func (c *coordinator) drain(ctx context.Context) error {
	c.c.Refuse()
	look := time.NewTicker(drainLook)
	defer look.Stop()
	for !c.c.Drained() && ctx.Err() == nil {
		select {
		case <-look.C:
		case <-ctx.Done():
		}
	}
	err := c.c.Close()
	c.c.Machine(func(m *causal.Coordinator) {
		if writes, _ := m.Pending(); writes > 0 {
			c.log.Warn("stopping with writes that are not in every ring yet; they are in the log, and go on at the next start", "writes", writes)
		}
	})
	if err != nil {
		return fmt.Errorf("stop coordinator: %w", err)
	}
	return nil
}
