package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/sidecar/causal/group"
	"github.com/causalstore/causalstore/sidecar/metrics"
	"github.com/causalstore/causalstore/sidecar/node"
	"github.com/causalstore/causalstore/sidecar/register"
	"github.com/causalstore/causalstore/topology"
)

// memberPart is what a middleman has beyond its storage if it is a member of a group.
type memberPart struct {
	s        *node.ShardMember
	register register.Register
	admin    *adminServer
	done     chan struct{} // ends keepLinks
	ended    chan struct{}
}

// startMember starts the host of m as a member of the shard's group.
func (p *process) startMember(ctx context.Context, m *middlemanPart, o node.MiddlemanOptions) error {
	set := *p.o.Settings
	if set.Config.Register == nil { // the shard has one member now
		set.Config.Register = set.unusedRegister
		var problems problems
		if set.checkRegister(&problems); len(problems) > 0 {
			return errors.Join(problems...)
		}
	}
	c := set.Config
	if c.Register == nil || c.DataDir == "" {
		return errors.New(
			"storage: it is that of a member of a group, and what it should hold may be in the log of the member " +
				"only: give register.etcd and dataDir as before, also if the shard has one member now")
	}
	id := identityOf(p.topo(), p.self)
	if err := os.MkdirAll(c.DataDir, 0o700); err != nil {
		return fmt.Errorf("dataDir: %w", err)
	}
	if err := id.checkDir(c.DataDir); err != nil {
		return err
	}
	reg, err := p.openRegister(c.Register)
	if err != nil {
		return err
	}
	s, err := node.NewShardMember(ctx, node.ShardMemberOptions{Middleman: o, Member: p.self.Member,
		Dir:         filepath.Join(c.DataDir, logDir),
		MaxLogBytes: int64(c.Limits.LogBytes), Register: reg, OnLeadership: p.onLeadership()})
	if err != nil {
		return errors.Join(explainDamagedLog(err), reg.Close())
	}
	// The log is locked now, so no other process uses the folder.
	if err := id.writeDir(c.DataDir); err != nil {
		return errors.Join(err, s.Crash(), reg.Close())
	}
	m.m, m.member = s, &memberPart{s: s, register: reg, done: make(chan struct{}), ended: make(chan struct{})}
	m.member.admin = (&adminServer{c: s, shard: m.member, topo: p.topo, log: p.log}).serve(c.DataDir)
	p.metrics.MustRegister(metrics.ShardGroup(func() *node.ShardMember { return s }))
	go m.member.keepLinks(p)
	return nil
}

// linksInterval is how often a member looks whether its links are there.
const linksInterval = time.Minute

// keepLinks keeps the links that a member needs when it begins to serve, so that a failover does not wait until they
// are up.
func (m *memberPart) keepLinks(p *process) {
	defer close(m.ended)
	tick := time.NewTicker(linksInterval)
	defer tick.Stop()
	for {
		t := p.topo()
		t.Nodes(func(n topology.Node) {
			if n != p.self.Group() && (n.Part != topology.Middleman || t.RingOf(n.DC) == t.RingOf(p.self.DC)) {
				p.net.Open(n)
			}
		})
		select {
		case <-m.done:
			return
		case <-tick.C:
		}
	}
}

// ready returns why the member can neither serve nor take over.
func (m *memberPart) ready() error {
	if _, err := m.s.LogState(); err != nil {
		return inState(contract.StateLogFull, fmt.Errorf("the log of the shard takes no writes: %w", err))
	}
	switch role := m.s.Role(); role {
	case group.Serving, group.Following:
		return nil
	case group.Starting, group.Outside, group.Broken:
		return fmt.Errorf("%s: it does not take part in the shard's group, which has %s", role, m.s.Describe())
	default:
		return fmt.Errorf("%s: it holds a copy of the shard, and does not serve; the group has %s", role,
			m.s.Describe())
	}
}

// drain makes another member serve, if there is one, and stops this one.
func (m *memberPart) drain(ctx context.Context) error {
	close(m.done)
	<-m.ended
	if len(m.s.Status().Config.Members) > 1 {
		m.s.HandOver()
		within, cancel := context.WithTimeout(ctx, handOverTimeout)
		awaitTrue(within, func() bool { return m.s.Role() != group.Serving })
		cancel()
	}
	if err := m.s.Close(); err != nil {
		return fmt.Errorf("stop the member of the shard: %w", err)
	}
	return nil
}

func (m *memberPart) close() error {
	m.admin.close()
	return m.register.Close()
}
