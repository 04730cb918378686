package local

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/middleman"
	"github.com/causalstore/causalstore/sidecar/node"
	"github.com/causalstore/causalstore/topology"
)

// shardHost runs a shard: node.Middleman alone, or node.ShardMember with others.
type shardHost interface {
	node.Host
	LinkUp(n topology.Node)
	SetTopology(t *topology.Topology) error
	Inspect(f func(*middleman.Middleman))
	DataLost() (lost bool, known []topology.Node)
	Backfill() (p middleman.BackfillProgress, ok bool)
	StorageState() (failures uint64, problem error)
}

// shardLog returns the folder of the log of a member of a shard.
func (d *Deployment) shardLog(n topology.Node) string { return d.dir(n) + ".log" }

func (d *Deployment) startMiddleman(ctx context.Context, p *part) error {
	if err := d.openStore(ctx, p); err != nil {
		return err
	}
	cfg := middleman.DefaultConfig(d.current.Load(), p.id.Group())
	if d.o.Tune.Middleman != nil {
		d.o.Tune.Middleman(&cfg)
	}
	o := node.MiddlemanOptions{Config: cfg, Clock: d.clock, Net: d.net, Store: p.store,
		InlineReads: d.o.Engine == "embedded", Logger: d.o.Logger}
	if d.topo.DCs[p.id.DC].Members(topology.Middleman) > 1 {
		return d.startShardMember(ctx, p, o)
	}
	m, err := node.NewMiddleman(ctx, o)
	if err != nil {
		return err
	}
	p.shard, p.alone = m, m
	p.serves.Store(true)
	if err := d.join(p, m, d.observer.middleman(p.id, m.Handle), whenUp(m.LinkUp)); err != nil {
		return err
	}
	d.net.SetLeadership(p.id, m.Leadership())
	return nil
}

// startShardMember starts a member of a shard. The network knows it before it starts, since it may serve at once.
func (d *Deployment) startShardMember(ctx context.Context, p *part, o node.MiddlemanOptions) error {
	p.hang.set(false)
	var started atomic.Pointer[node.ShardMember]
	handle := d.observer.middleman(p.id, func(batch []causal.Message) {
		if m := started.Load(); m != nil {
			m.Handle(batch)
		}
	})
	if err := d.net.Register(p.id, p.hang.wrap(handle)); err != nil {
		return err
	}
	m, err := node.NewShardMember(ctx, node.ShardMemberOptions{Middleman: o, Member: p.id.Member, Dir: d.shardLog(p.id),
		Register: keysOf{d.o.Register, d.topo.DCs[p.id.DC].Name}, OnLeadership: func(l causal.Leadership) {
			p.serves.Store(!l.IsZero())
			d.net.SetLeadership(p.id, l)
		}})
	if err != nil {
		d.net.Deregister(p.id)
		return err
	}
	started.Store(m)
	p.shard, p.member = m, m
	d.watch(p, m, whenUp(m.LinkUp))
	return nil
}

// stopShard stops what runs a shard. Its storage stays open.
func (p *part) stopShard(crash bool) (err error) {
	switch {
	case p.alone != nil:
		p.alone.Close()
	case crash:
		err = p.member.Crash()
	default:
		err = p.member.Close()
	}
	p.shard, p.alone, p.member = nil, nil, nil
	p.serves.Store(false)
	return err
}

// middlemanState returns the state of a shard, of the member that serves.
func (d *Deployment) middlemanState(n topology.Node) MiddlemanState {
	s := MiddlemanState{Shard: n.Index}
	members := d.topo.MembersOf(n)
	if len(members) > 1 {
		g := d.groupState(n)
		s.Group = &g
	}
	for _, m := range members {
		p := d.parts[m]
		if p.shard == nil || !p.serves.Load() {
			continue
		}
		s.Up = true
		s.DataLost, _ = p.shard.DataLost()
		p.shard.Inspect(func(m *middleman.Middleman) {
			s.Puts, s.Processed, s.CachedAtBytes, s.HistoryBytes = m.Depth()
			s.Stats = m.Stats()
		})
		if b, ok := p.shard.Backfill(); ok {
			s.Backfill = d.describeBackfill(b)
		}
	}
	return s
}

func (d *Deployment) describeBackfill(b middleman.BackfillProgress) *BackfillState {
	s := &BackfillState{Stage: b.Stage, Keys: b.Keys, Expected: b.Expected, Bytes: b.Bytes}
	if b.Donors != topology.NoRing {
		s.From = d.topo.Rings[b.Donors].Name
	}
	for _, n := range b.Waiting {
		s.Waiting = append(s.Waiting, fmt.Sprintf("%s %d of %s", n.Part, n.Index, d.topo.DCs[n.DC].Name))
	}
	return s
}
