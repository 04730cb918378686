package node

import (
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/storage"
	"github.com/causalstore/causalstore/sidecar/topology"
	"github.com/causalstore/causalstore/sidecar/transport"
)

// Middleman runs a causal.Middleman on a store, and while the shards of its ring change a causal.Mover, which decides by
// which topology it serves, and whether it serves at all.
type Middleman struct {
	*Host
	o      MiddlemanOptions
	store  storage.Store
	logger *slog.Logger
	ctx    context.Context
	cancel context.CancelFunc
	fail   func(error)

	shard   *shard
	serving *serving           // nil while it does not serve
	view    *topology.Topology // by which it serves
	moves   []causal.MoveOp
	some    sync.Cond // there are moves, or something else for follow to do
	ending  bool      // what served has been taken away, and storage may still be busy with what it asked for
	closing bool
	ended   sync.WaitGroup

	horizon durableHorizon
}

// MiddlemanOptions is what a middleman runs on.
type MiddlemanOptions struct {
	Config causal.MiddlemanConfig // Incarnation, Horizon and Fresh are filled in from the store
	Clock  Clock
	Net    transport.Network
	Store  storage.Store
	// InlineReads says that the store answers a read without waiting for another process.
	InlineReads bool
	Logger      *slog.Logger
	// Fail is told when it cannot go on; it may be nil.
	Fail func(error)
}

const (
	metaIncarnation = "incarnation"
	metaHorizon     = "tombstone-horizon"
	metaStand       = "stand"
	metaCaches      = "caches"
)

// storageTimeout bounds one call to the store.
const storageTimeout = 10 * time.Second

// NewMiddleman starts a middleman. What it finds in the store says how far it had come when its ring changed last.
func NewMiddleman(ctx context.Context, o MiddlemanOptions) (*Middleman, error) {
	mm := &Middleman{Host: newHost(o.Config.Self, o.Clock, o.Net), o: o, store: o.Store, logger: o.Logger, fail: o.Fail, shard: &shard{}}
	if mm.fail == nil {
		mm.fail = func(error) {}
	}
	mm.ctx, mm.cancel = context.WithCancel(context.Background())
	mm.some.L = &mm.mu
	mm.m = mm.shard
	mm.collect = mm.take
	if err := mm.horizon.load(ctx, mm.store); err != nil {
		return nil, err
	}
	mover, err := mm.newMover(ctx, o.Config.Topology)
	if err != nil {
		return nil, err
	}
	mm.shard.mover = mover
	if view, ok := mm.serve(); ok {
		if err := mm.start(ctx, view); err != nil {
			return nil, err
		}
	}
	mm.ended.Add(1)
	go mm.follow()
	return mm, nil
}

// start starts serving by a topology. The store is told that it has been started once more.
func (mm *Middleman) start(ctx context.Context, view *topology.Topology) error {
	incarnation, err := metaUint(ctx, mm.store, metaIncarnation)
	if err != nil {
		return err
	}
	config := mm.o.Config
	config.Topology = view
	// Of slots that it takes in, caches may hold what they got from who had them before.
	config.Fresh = incarnation == 0 && mm.shard.mover == nil
	caches, err := metaUint(ctx, mm.store, metaCaches)
	if err != nil {
		return err
	}
	others := caches != uint64(view.Caches())
	if others && config.Fresh {
		if err := setMetaUint(ctx, mm.store, metaCaches, uint64(view.Caches())); err != nil {
			return err
		}
		others = false
	}
	config.Inherited = others || mm.shard.mover != nil && mm.shard.mover.TookIn()
	config.Incarnation, config.Horizon = incarnation+1, mm.horizon.get()
	if err := setMetaUint(ctx, mm.store, metaIncarnation, incarnation+1); err != nil {
		return err
	}
	s := newServing(mm, causal.NewMiddleman(config, mm.clock()), !config.Fresh)
	mm.mu.Lock()
	mm.serving, mm.view, mm.shard.m = s, view, s.m
	mm.mu.Unlock()
	if others {
		s.noteCaches(uint64(view.Caches()), config.Lease)
	}
	return nil
}

func metaUint(ctx context.Context, s storage.Store, name string) (uint64, error) {
	b, found, err := s.Meta(ctx, name)
	if err != nil {
		return 0, fmt.Errorf("read %s from storage: %w", name, err)
	}
	if !found {
		return 0, nil
	}
	v, n := binary.Uvarint(b)
	if n <= 0 {
		return 0, fmt.Errorf("read %s from storage: %d bytes that are no number; the storage is damaged or belongs to something else", name, len(b))
	}
	return v, nil
}

func setMetaUint(ctx context.Context, s storage.Store, name string, v uint64) error {
	if err := s.SetMeta(ctx, name, binary.AppendUvarint(nil, v)); err != nil {
		return fmt.Errorf("write %s to storage: %w", name, err)
	}
	return nil
}

// Close stops the middleman. Puts that are not acknowledged will be sent again to the next one. The store stays open.
func (mm *Middleman) Close() {
	mm.stop()
	mm.cancel()
	mm.mu.Lock()
	mm.closing = true
	mm.some.Signal()
	mm.mu.Unlock()
	mm.ended.Wait()
	if s := mm.serving; s != nil {
		s.end()
	}
}

// Machine gives f the machine that serves to look at, if there is one.
func (mm *Middleman) Machine(f func(*causal.Middleman)) {
	mm.View(func(m any) {
		if s := m.(*shard); s.m != nil {
			f(s.m)
		}
	})
}
