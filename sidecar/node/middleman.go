package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/middleman"
	"github.com/causalstore/causalstore/sidecar/causal/process"
	"github.com/causalstore/causalstore/sidecar/causal/shard"
	"github.com/causalstore/causalstore/sidecar/storage"
	"github.com/causalstore/causalstore/sidecar/transport"
	"github.com/causalstore/causalstore/sidecar/value"
	"github.com/causalstore/causalstore/topology"
)

// shardMachine runs a shard: a process.Shard alone, or the process.Member that has one while it serves.
type shardMachine interface {
	machine
	RefuseRead(now causal.Now, msg *causal.Message)
	Reads(dst []middleman.StorageOp) []middleman.StorageOp
	ReadDone(now causal.Now, generation uint64, r middleman.StorageResult)
	Generation() uint64
	Effects(dst []process.Effect) []process.Effect
	Done(now causal.Now, id uint64, r process.EffectResult)
	NoteTombstone(generation uint64, key string, rec causal.Record) bool
	NoteLoss(now causal.Now, cause error)
	SetTopology(now causal.Now, t *topology.Topology) error
	IsSetting() (bool, error)
	// Shard returns the shard; nil while none has started here.
	Shard() *process.Shard
}

// shardDriver carries out what a shard asks of its storage.
type shardDriver[M shardMachine] struct {
	*host[M]
	options MiddlemanOptions
	store   storage.Store
	logger  *slog.Logger
	ctx     context.Context
	cancel  context.CancelFunc

	replies replyRoom
	large   largeValues
	health  *diskHealth // of the store
	pages   pageCache
	running sync.WaitGroup

	// What follows is guarded by host.mu.
	ops     []middleman.StorageOp // of a step
	effects []process.Effect
	reads   readQueue
	// readsAsked are the requests of reads that are for others.
	readsAsked unanswered
	writes     effectQueue // of one change at most
	tasks      effectQueue // of one task at most
	changes    effectQueue // all other effects, which are carried out one after the other
	suspended  bool        // no task is begun
	busy       bool        // a task is being carried out
	settled    sync.Cond   // no topology is about to be set, or closing
	shown      serviceShown
	closing    bool
}

// Middleman runs a process.Shard on a store, and the goroutines that carry out what it asks for.
type Middleman struct {
	*shardDriver[*process.Shard]
	failed bool // OnFailure was called; guarded by host.mu
}

// MiddlemanOptions configures a Middleman.
type MiddlemanOptions struct {
	Config middleman.Config // what the store says is filled in
	Clock  Clock
	Net    transport.Network
	Store  storage.Store
	// InlineReads executes reads in the goroutine that steps the machine. Set it if the store answers without waiting
	// for another process.
	InlineReads bool
	// ReplyBytes bounds what is queued in this process: at the bound, reads for others wait and are refused. It should
	// be more than the largest message. 0: nothing does.
	ReplyBytes int64
	Logger     *slog.Logger
	// OnFailure is called if the middleman cannot continue; it may be nil.
	OnFailure func(error)
}

// storageTimeout bounds a call to the store.
const storageTimeout = 10 * time.Second

// NewMiddleman starts a middleman. If a resharding was in progress when it last stopped, it resumes from the state in
// the store.
func NewMiddleman(ctx context.Context, o MiddlemanOptions) (*Middleman, error) {
	o.Config.Types = value.Shipped()
	p := process.NewShard(process.Config{Middleman: o.Config, ID: rand.Uint64(),
		RemoveKeys: process.DefaultRemoveKeys}, o.Clock())
	mm := &Middleman{shardDriver: newShardDriver(newHost(o.Config.Self, o.Clock, o.Net, p), o,
		"storage failed; what failed is repeated until it succeeds")}
	mm.collectRequests = mm.collectAll
	if err := mm.start(ctx, p); err != nil {
		mm.cancel()
		return nil, err
	}
	mm.run()
	mm.running.Go(mm.runWrites)
	mm.mu.Lock()
	mm.collectAll() // what the start has asked for
	mm.mu.Unlock()
	return mm, nil
}

// newShardDriver returns a driver of what a host runs. When a request fails, it logs a message.
func newShardDriver[M shardMachine](h *host[M], o MiddlemanOptions, message string) *shardDriver[M] {
	mm := &shardDriver[M]{host: h, options: o, store: o.Store, replies: newReplyRoom(o.Net, o.ReplyBytes,
		o.Config.OwnerOf), logger: o.Logger, health: newDiskHealth(o.Logger, message)}
	mm.ctx, mm.cancel = context.WithCancel(context.Background())
	for _, c := range mm.conditions() {
		c.L = &mm.mu
	}
	return mm
}

// conditions returns what the goroutines wait for.
func (mm *shardDriver[M]) conditions() []*sync.Cond {
	return []*sync.Cond{&mm.reads.nonEmpty, &mm.writes.nonEmpty, &mm.changes.nonEmpty, &mm.tasks.nonEmpty,
		&mm.settled}
}

// run begins to carry out what is asked for, but for writes and tasks.
func (mm *shardDriver[M]) run() {
	mm.running.Go(mm.runReads)
	mm.running.Go(mm.runChanges)
}

// collectAll takes what the process asks for after a step, and reports if it cannot go on.
func (mm *Middleman) collectAll() {
	mm.collect()
	if err := mm.m.Failure(); err != nil && !mm.failed {
		mm.failed = true
		if !errors.Is(err, storage.ErrDataLost) {
			err = fmt.Errorf("start a middleman: %w", err)
		}
		if mm.options.OnFailure != nil {
			go mm.options.OnFailure(err)
		}
	}
}

// start carries out what the process of the shard asks for, until what is to serve serves.
func (mm *Middleman) start(ctx context.Context, p *process.Shard) error {
	for p.Failure() == nil && !p.IsSettled() {
		effects := p.Effects(nil)
		if len(effects) == 0 && !p.IsSettled() {
			return errors.New("a shard waits for nothing and does not start; this is a bug")
		}
		for i := range effects {
			p.Done(mm.clock(), effects[i].ID, mm.carryOut(ctx, &effects[i]))
		}
	}
	return p.Failure()
}

// Leadership returns the leadership of a middleman that is the only one with its store: it is that of this start.
func (mm *Middleman) Leadership() (l causal.Leadership) {
	mm.host.Inspect(func(p *process.Shard) { l.Life = p.StartsBefore() + 1 })
	return l
}

// inspectShard calls f with the machine of the shard, under the lock.
func (mm *shardDriver[M]) inspectShard(f func(*shard.Shard)) {
	mm.host.Inspect(func(m M) {
		if p := m.Shard(); p != nil {
			f(p.Machine())
		}
	})
}

// DataLost reports whether the store has lost its data, and which coordinators have acknowledgements of what it lost,
// if this start has asked them.
func (mm *shardDriver[M]) DataLost() (lost bool, known []topology.Node) {
	mm.inspectShard(func(s *shard.Shard) { lost, known = s.DataLost() })
	return lost, known
}

// Backfill returns the progress of getting lost data back, or the last time that this has ended since the start; false
// if there was none.
func (mm *shardDriver[M]) Backfill() (p middleman.BackfillProgress, ok bool) {
	mm.inspectShard(func(s *shard.Shard) { p, ok = s.Backfill() })
	return p, ok
}

// Serves reports whether a middleman serves. None does while slots move, or while it is not known whether an empty
// store is new.
func (mm *shardDriver[M]) Serves() (serves bool) {
	mm.Inspect(func(*middleman.Middleman) { serves = true })
	return serves
}

// Withdrawn reports whether the shard keeps what it has without answering anything, and why.
func (mm *shardDriver[M]) Withdrawn() (w shard.Withdrawn, ok bool) {
	mm.inspectShard(func(s *shard.Shard) { w, ok = s.Withdrawn() })
	return w, ok
}

// Unheard returns the coordinators that have not said what they remember of the store; none once enough have.
func (mm *shardDriver[M]) Unheard() (nodes []topology.Node) {
	mm.Inspect(func(m *middleman.Middleman) { nodes = m.Unheard() })
	return nodes
}

// Unanswered returns the coordinators that have to answer before the middleman serves with an empty store.
func (mm *shardDriver[M]) Unanswered() (nodes []topology.Node) {
	mm.inspectShard(func(s *shard.Shard) { nodes = s.Unanswered() })
	return nodes
}

// Resharding returns the progress of a resharding: "none" or the mover's stage, from how many middlemen it has copied
// all slots, and from how many it takes slots.
func (mm *shardDriver[M]) Resharding() (stage string, copied, of int) {
	stage = "none"
	mm.inspectShard(func(s *shard.Shard) {
		if m := s.Mover(); m != nil {
			stage = m.Stage()
			copied, of = m.Progress()
		}
	})
	return stage, copied, of
}

// SetTopology replaces the topology by one that differs only in the numbers of coordinators, shards, their members, and
// caches. It fails while a resharding is in progress.
func (mm *shardDriver[M]) SetTopology(t *topology.Topology) error {
	var refused error
	mm.step(func(now causal.Now, p M) { refused = p.SetTopology(now, t) })
	if refused != nil {
		return refused
	}
	mm.mu.Lock()
	defer mm.mu.Unlock()
	for {
		isSetting, err := mm.m.IsSetting()
		if !isSetting || mm.closing {
			return err
		}
		mm.settled.Wait()
	}
}

// ReportDataLoss says that the store has lost its data: that is noted in the store, so that the next start refuses
// reads, and this one fails.
func (mm *shardDriver[M]) ReportDataLoss(cause error) {
	mm.step(func(now causal.Now, p M) { p.NoteLoss(now, cause) })
}

// LinkUp tells the machine that a node is reachable again: what was on its way to it may be lost.
func (mm *Middleman) LinkUp(n topology.Node) {
	mm.step(func(now causal.Now, p *process.Shard) { p.LinkUp(now, n) })
}

// Close stops the middleman. Coordinators resend unacknowledged puts to its next start. The store stays open.
func (mm *Middleman) Close() {
	mm.stop()
	mm.end()
}

// end ends the goroutines: nothing is done to the storage afterwards.
func (mm *shardDriver[M]) end() {
	mm.cancel()
	mm.mu.Lock()
	mm.closing = true
	for _, c := range mm.conditions() {
		c.Broadcast()
	}
	mm.mu.Unlock()
	mm.running.Wait()
}

// StorageState returns how many requests to the store have failed, and why the last write failed; nil if it succeeded.
func (mm *shardDriver[M]) StorageState() (failures uint64, problem error) { return mm.health.state() }

// NoteStorageFailure counts a request to the store that somebody else has made and that has failed.
func (mm *shardDriver[M]) NoteStorageFailure(err error) { mm.health.noteFailures(1, err) }

// Inspect calls f with the serving middleman, if there is one. f must not change it.
func (mm *shardDriver[M]) Inspect(f func(*middleman.Middleman)) {
	mm.host.Inspect(func(m M) {
		if p := m.Shard(); p != nil && p.Serving() != nil {
			f(p.Serving())
		}
	})
}
