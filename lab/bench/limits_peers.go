package bench

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/transport"
	"github.com/causalstore/causalstore/topology"
)

// peer is a client of the protocol between the parts, which sends what it likes and waits for nothing.
type peer struct {
	self topology.Node
	topo *topology.Topology
	net  *transport.GRPC
	// serving is the leadership of the coordinator, once there is one.
	serving atomic.Pointer[causal.Leadership]
	id      uint64
}

// peerIndex is the index of a sidecar that attacks. Those of the deployment draw theirs.
const peerIndex = 1 << 40

// join makes the siege a peer of all parts.
func (s *siege) join(ctx context.Context, self topology.Node) (*peer, error) {
	top, err := s.p.topology.Topology()
	if err != nil {
		return nil, err
	}
	a := &peer{self: self, topo: top}
	a.net, err = transport.NewGRPC(transport.Config{
		Process: "attacker", Nodes: []topology.Node{self}, Handler: func([]causal.Message) {},
		Topology: func() *topology.Topology { return top },
		Members:  top.MembersOf, Resolve: s.p.addressOf(top), Log: slog.New(slog.DiscardHandler),
		Up: func(n topology.Node, l causal.Leadership) {
			if n == top.Leader(0) && !l.IsZero() {
				a.serving.Store(&l)
			}
		},
	})
	if err != nil {
		return nil, err
	}
	s.peers = append(s.peers, a.net)
	for a.serving.Load() == nil {
		a.net.Send(causal.Subscribe{}.Message(self, top.Leader(0)))
		if err := sleep(ctx, 20*time.Millisecond); err != nil {
			return nil, errors.New("the coordinator cannot be reached")
		}
	}
	return a, nil
}

// addressOf returns where the parts are.
func (p *processes) addressOf(top *topology.Topology) func(topology.Node) (string, bool) {
	return func(n topology.Node) (string, bool) {
		of := p.config.Addresses[top.DCs[n.DC].Name]
		list := map[topology.Part][]string{topology.Coordinator: of.Coordinators, topology.Middleman: of.Middlemen,
			topology.Cache: of.Caches}[n.Part]
		if n.Index >= uint64(len(list)) || n.HasGroup() && n.Part == topology.Middleman && n.Member > 1 {
			return "", false
		}
		return list[n.Index], true
	}
}

// flood sends messages until ctx ends, as fast as the link takes them.
func (a *peer) flood(ctx context.Context, next func(id uint64) causal.Message) error {
	for ctx.Err() == nil {
		m := next(a.id)
		a.id++
		for a.net.Room(m.To) < 1<<20 && ctx.Err() == nil {
			_ = sleep(ctx, 100*time.Microsecond) // the loop looks at ctx
		}
		a.net.Send(m)
	}
	return nil
}

// put returns a put to the first coordinator.
func (a *peer) put(id uint64, key string, value []byte, deps []causal.Dep) causal.Message {
	return causal.Put{ID: id + 1, Session: 1, Seq: id + 1, Leadership: *a.serving.Load(), Key: key,
		Value: causal.Value{Data: value}, Deps: deps}.
		Message(a.self, a.topo.Leader(0))
}

// asSidecar makes an attack of a peer that is a sidecar.
func asSidecar(next func(a *peer) func(id uint64) causal.Message) func(context.Context, *siege) error {
	return func(ctx context.Context, s *siege) error {
		a, err := s.join(ctx, topology.Node{Part: topology.Sidecar, Index: peerIndex})
		if err != nil {
			return err
		}
		return a.flood(ctx, next(a))
	}
}

// peerAttacks are those of a peer with the certificate of a part.
var peerAttacks = []attack{
	{name: "unawaited-puts", what: "puts of 16 KiB of a sidecar that waits for no answer",
		run: asSidecar(func(a *peer) func(uint64) causal.Message {
			value := make([]byte, 16<<10)
			return func(id uint64) causal.Message { return a.put(id, fmt.Sprintf("u:%d", id%1000), value, nil) }
		})},
	{name: "many-dependencies",
		what: "puts with as many dependencies as there may be, on what another ring has not sent",
		spec: func(_ *LimitsOptions, spec *processSpec) { spec.topology = twoRings() },
		run: asSidecar(func(a *peer) func(uint64) causal.Message {
			far, value := a.topo.OriginOf(a.topo.Leader(1)), []byte("v")
			return func(id uint64) causal.Message {
				deps := make([]causal.Dep, causal.MaxPutDeps)
				newest := causal.HLCAt(time.Now().UnixMilli() + causal.MaxSessionAheadMs/2)
				for i := range deps {
					deps[i] = causal.Dep{Version: causal.Version{HLC: newest - causal.HLC(i), Origin: far},
						Slot: topology.Slot(i % topology.Slots)}
				}
				return a.put(id, fmt.Sprintf("d:%d", id%1000), value, deps)
			}
		})},
}
