package local

import (
	"context"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/node"
	"github.com/causalstore/causalstore/sidecar/storage"
	"github.com/causalstore/causalstore/sidecar/transport"
	"github.com/causalstore/causalstore/topology"
)

// observer measures how long writes take to propagate. It takes the time of a write's acceptance from its version: all
// parts share one clock here, and the clients that write do not make versions run ahead of it.
type observer struct {
	topo  *topology.Topology
	clock node.Clock
	// By ring of the coordinator and ring of the shard, [from*rings+to].
	visible, acknowledged []*durations
	// complete is by ring of the coordinator.
	complete []*durations
	tracer   *tracer // of single writes
}

func newObserver(t *topology.Topology, clock node.Clock) *observer {
	n := len(t.Rings)
	return &observer{topo: t, clock: clock, visible: newDurations(n * n), acknowledged: newDurations(n * n),
		complete: newDurations(n), tracer: newTracer(t)}
}

// since returns the age of a write in milliseconds.
func (o *observer) since(v causal.Version) int64 { return o.clock().WallMs - v.HLC.WallMs() }

func (o *observer) pair(v causal.Version, to topology.RingID) int {
	return int(o.from(v))*len(o.topo.Rings) + int(to)
}

func (o *observer) from(v causal.Version) topology.RingID {
	return o.topo.RingOf(o.topo.CoordinatorOf(v.Origin).DC)
}

// coordinator observes what a coordinator receives: a ring acknowledges writes once they and their dependencies are
// stored there and none of its caches holds older values.
func (o *observer) coordinator(next transport.Handler) transport.Handler {
	return func(batch []causal.Message) {
		for i := range batch {
			if m := &batch[i]; m.Kind == causal.KindPutAck {
				versions, ring := m.PutAck().Versions, o.topo.RingOf(m.From.DC)
				o.tracer.acknowledged(ring, versions)
				for _, v := range versions {
					o.acknowledged[o.pair(v, ring)].add(o.since(v))
				}
			}
		}
		next(batch)
	}
}

// sidecar observes what a sidecar receives: its own writes that all rings have acknowledged.
func (o *observer) sidecar(next transport.Handler) transport.Handler {
	return func(batch []causal.Message) {
		for i := range batch {
			if m := &batch[i]; m.Kind == causal.KindComplete {
				versions := m.Complete().Versions
				o.tracer.completed(versions)
				for _, v := range versions {
					o.complete[o.from(v)].add(o.since(v))
				}
			}
		}
		next(batch)
	}
}

// middleman observes what a member of a shard receives: writes.
func (o *observer) middleman(id topology.Node, next transport.Handler) transport.Handler {
	ring := o.topo.RingOf(id.DC)
	return func(batch []causal.Message) {
		if o.tracer.active.Load() > 0 {
			for i := range batch {
				if m := &batch[i]; m.Kind == causal.KindPutAfter {
					p := m.PutAfter()
					o.tracer.received(ring, p.Key, p.Record.Version)
				}
			}
		}
		next(batch)
	}
}

// cache observes what a cache receives: that keys have new versions.
func (o *observer) cache(id topology.Node, next transport.Handler) transport.Handler {
	return func(batch []causal.Message) {
		if o.tracer.active.Load() > 0 {
			for i := range batch {
				if m := &batch[i]; m.Kind == causal.KindInvalidate {
					told := m.Invalidate()
					o.tracer.invalidated(id, told.KeyHash, told.Next)
				}
			}
		}
		next(batch)
	}
}

// store observes the storage of a shard: readers of the ring may see what it has applied, on the member that serves.
// Writes that arrive after a greater one of the same key are never applied.
func (o *observer) store(p *part, s storage.Store) storage.Store {
	return &observedStore{s, o, o.topo.RingOf(p.id.DC), p}
}

type observedStore struct {
	storage.Store
	o    *observer
	ring topology.RingID
	part *part
}

// Apply implements storage.Store.
func (s *observedStore) Apply(ctx context.Context, writes []storage.Write, meta ...storage.Meta) error {
	err := s.Store.Apply(ctx, writes, meta...)
	if err != nil {
		return err
	}
	for i := range writes {
		if w := &writes[i]; !w.Delete && s.part.serves.Load() {
			v := w.Record.Version
			s.o.tracer.visible(s.ring, w.Key, v)
			s.o.visible[s.o.pair(v, s.ring)].add(s.o.since(v))
		}
	}
	return nil
}

// RingPair is how long writes accepted in the data centers of one ring take to reach another ring, or their own.
type RingPair struct {
	From string `json:"from"`
	To   string `json:"to"`
	// Visible is until readers of the ring may see a write. Acknowledged is until its coordinator knows that the ring
	// has it and that no cache holds an older value.
	Visible      Durations `json:"visible"`
	Acknowledged Durations `json:"acknowledged"`
}

// RingTimes is how long writes accepted in a ring are in flight: until every ring has acknowledged them.
type RingTimes struct {
	Ring     string    `json:"ring"`
	Complete Durations `json:"complete"`
}

func (o *observer) state(st *State) {
	n := len(o.topo.Rings)
	for a, from := range o.topo.Rings {
		for b, to := range o.topo.Rings {
			st.RingPairs = append(st.RingPairs, RingPair{From: from.Name, To: to.Name,
				Visible:      o.visible[a*n+b].snapshot(),
				Acknowledged: o.acknowledged[a*n+b].snapshot()})
		}
		st.InFlight = append(st.InFlight, RingTimes{Ring: from.Name, Complete: o.complete[a].snapshot()})
	}
}
