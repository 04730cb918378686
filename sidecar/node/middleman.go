package node

import (
	"context"
	"errors"
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
	"github.com/causalstore/causalstore/topology"
)

// Middleman runs a process.Shard on a store, and the goroutines that carry out what it asks for.
type Middleman struct {
	*host[*process.Shard]
	options   MiddlemanOptions
	store     storage.Store
	logger    *slog.Logger
	ctx       context.Context
	cancel    context.CancelFunc
	onFailure func(error)

	replies replyRoom
	large   largeValues
	health  *diskHealth // of the store
	running sync.WaitGroup

	// What follows is guarded by host.mu.
	ops     []middleman.StorageOp // of a step
	effects []process.Effect
	reads   readQueue
	// readsAsked are the requests of reads that are for others.
	readsAsked unanswered
	writes     effectQueue // of one change at most
	changes    effectQueue // all other effects, which are carried out one after the other
	settled    sync.Cond   // no topology is about to be set, or closing
	shown      serviceShown
	failed     bool // onFailure was called
	closing    bool

	lossReported sync.Once
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

	gate gate // of the host; nil: always open
}

// storageTimeout bounds a call to the store.
const storageTimeout = 10 * time.Second

// NewMiddleman starts a middleman. If a resharding was in progress when it last stopped, it resumes from the state in
// the store.
func NewMiddleman(ctx context.Context, o MiddlemanOptions) (*Middleman, error) {
	mm := &Middleman{options: o, store: o.Store, replies: newReplyRoom(o.Net, o.ReplyBytes, o.Config.OwnerOf),
		logger: o.Logger, onFailure: o.OnFailure,
		health: newDiskHealth(o.Logger, "storage failed; what failed is repeated until it succeeds")}
	if mm.onFailure == nil {
		mm.onFailure = func(error) {}
	}
	p := process.NewShard(process.Config{Middleman: o.Config, ID: rand.Uint64(),
		RemoveKeys: process.DefaultRemoveKeys}, o.Clock())
	mm.host = newHost(o.Config.Self, o.Clock, o.Net, p)
	mm.gate = o.gate
	mm.ctx, mm.cancel = context.WithCancel(context.Background())
	for _, c := range []*sync.Cond{&mm.reads.nonEmpty, &mm.writes.nonEmpty, &mm.changes.nonEmpty, &mm.settled} {
		c.L = &mm.mu
	}
	mm.collectRequests = mm.collect
	if err := mm.start(ctx, p); err != nil {
		mm.cancel()
		return nil, err
	}
	mm.shown = serviceShown{p.Generation(), isLost(p)}
	mm.running.Go(mm.runReads)
	mm.running.Go(mm.runWrites)
	mm.running.Go(mm.runChanges)
	mm.mu.Lock()
	mm.collect()
	mm.mu.Unlock()
	return mm, nil
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
func (mm *Middleman) inspectShard(f func(*shard.Shard)) {
	mm.host.Inspect(func(p *process.Shard) { f(p.Machine()) })
}

// DataLost reports whether the store has lost its data, and which coordinators have acknowledgements of what it lost,
// if this start has asked them.
func (mm *Middleman) DataLost() (lost bool, known []topology.Node) {
	mm.inspectShard(func(s *shard.Shard) { lost, known = s.DataLost() })
	return lost, known
}

// Backfill returns the progress of getting lost data back, or the last time that this has ended since the start; false
// if there was none.
func (mm *Middleman) Backfill() (p middleman.BackfillProgress, ok bool) {
	mm.inspectShard(func(s *shard.Shard) { p, ok = s.Backfill() })
	return p, ok
}

// isWhole reports whether a middleman serves that lacks nothing.
func (mm *Middleman) isWhole() (whole bool) {
	mm.host.Inspect(func(p *process.Shard) { whole = p.IsWhole() })
	return whole
}

// Serves reports whether a middleman serves. None does while slots move, or while it is not known whether an empty
// store is new.
func (mm *Middleman) Serves() (serves bool) {
	mm.host.Inspect(func(p *process.Shard) { serves = p.Serving() != nil })
	return serves
}

// Withdrawn reports whether the shard keeps what it has without answering anything, and why.
func (mm *Middleman) Withdrawn() (w shard.Withdrawn, ok bool) {
	mm.inspectShard(func(s *shard.Shard) { w, ok = s.Withdrawn() })
	return w, ok
}

// Unheard returns the coordinators that have not said what they remember of the store; none once enough have.
func (mm *Middleman) Unheard() (nodes []topology.Node) {
	mm.Inspect(func(m *middleman.Middleman) { nodes = m.Unheard() })
	return nodes
}

// Unanswered returns the coordinators that have to answer before the middleman serves with an empty store.
func (mm *Middleman) Unanswered() (nodes []topology.Node) {
	mm.inspectShard(func(s *shard.Shard) { nodes = s.Unanswered() })
	return nodes
}

// Resharding returns the progress of a resharding: "none" or the mover's stage, from how many middlemen it has copied
// all slots, and from how many it takes slots.
func (mm *Middleman) Resharding() (stage string, copied, of int) {
	stage = "none"
	mm.inspectShard(func(s *shard.Shard) {
		if m := s.Mover(); m != nil {
			stage = m.Stage()
			copied, of = m.Progress()
		}
	})
	return stage, copied, of
}

// SetTopology replaces the topology by one that differs only in the numbers of coordinators, shards and caches. It
// fails while a resharding is in progress.
func (mm *Middleman) SetTopology(t *topology.Topology) error {
	var refused error
	mm.step(func(now causal.Now, p *process.Shard) { refused = p.SetTopology(now, t) })
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

// ReportDataLoss records in the store that it has lost its data, and reports the failure: the next start refuses reads.
func (mm *Middleman) ReportDataLoss(cause error) {
	mm.lossReported.Do(func() {
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), storageTimeout)
			defer cancel()
			// A store that takes nothing any more says itself, when it is opened, that it has lost data.
			found := process.Marks{Loss: shard.LossFound}
			if err := mm.store.Apply(ctx, nil, metaOf(found.Metas(process.MarkLoss))...); err != nil &&
				!errors.Is(err, storage.ErrDataLost) {
				cause = errors.Join(cause, err)
			}
			mm.onFailure(cause)
		}()
	})
}

// LinkUp tells the machine that a node is reachable again: what was on its way to it may be lost. It does not wait for
// a gate, as the network calls it: what it would repeat is repeated in time.
func (mm *Middleman) LinkUp(n topology.Node) {
	mm.tryStep(func(now causal.Now, p *process.Shard) { p.LinkUp(now, n) })
}

// Close stops the middleman. Coordinators resend unacknowledged puts to its next start. The store stays open.
func (mm *Middleman) Close() {
	mm.stop()
	mm.cancel()
	mm.mu.Lock()
	mm.closing = true
	for _, c := range []*sync.Cond{&mm.reads.nonEmpty, &mm.writes.nonEmpty, &mm.changes.nonEmpty, &mm.settled} {
		c.Broadcast()
	}
	mm.mu.Unlock()
	mm.running.Wait()
}

// StorageState returns how many requests to the store have failed, and why the last write failed; nil if it succeeded.
func (mm *Middleman) StorageState() (failures uint64, problem error) { return mm.health.state() }

// NoteStorageFailure counts a request to the store that somebody else has made and that has failed.
func (mm *Middleman) NoteStorageFailure(err error) { mm.health.noteFailures(1, err) }

// Inspect calls f with the serving middleman, if there is one. f must not change it.
func (mm *Middleman) Inspect(f func(*middleman.Middleman)) {
	mm.host.Inspect(func(p *process.Shard) {
		if m := p.Serving(); m != nil {
			f(m)
		}
	})
}
