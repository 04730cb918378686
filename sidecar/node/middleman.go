package node

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/middleman"
	"github.com/causalstore/causalstore/sidecar/causal/shard"
	"github.com/causalstore/causalstore/sidecar/storage"
	"github.com/causalstore/causalstore/sidecar/transport"
	"github.com/causalstore/causalstore/topology"
)

// Middleman runs a shard.Shard on a store: the serving middleman, and during a resharding the mover.
type Middleman struct {
	*host[*shard.Shard]
	options   MiddlemanOptions
	store     storage.Store
	logger    *slog.Logger
	ctx       context.Context
	cancel    context.CancelFunc
	onFailure func(error)

	// the serving middleman and its storage requests; nil while the shard does not serve
	serving        *servingMiddleman
	replies        replyRoom
	moveOps        []shard.MoveOp
	wake           sync.Cond // on host.mu: there are moveOps, or the serving middleman is not current
	closing        bool
	reconcilerDone sync.WaitGroup

	horizon      durableHorizon
	origins      durableOrigins
	fences       durableFences
	starts       uint64 // machines that have served before this start
	lossReported sync.Once
	health       *diskHealth // of the store
}

// MiddlemanOptions configures a Middleman.
type MiddlemanOptions struct {
	Config middleman.Config // Incarnation, Horizon and Fresh are set from the store
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

// The names of a middleman's metadata in its store.
const (
	metaIncarnation = "incarnation"
	metaLineage     = "lineage" // causal.Lineage
	metaHorizon     = "tombstone-horizon"
	metaState       = "stand"      // a shard.MigrationState
	metaMoves       = "moves"      // the number of movers so far
	metaCaches      = "caches"     // a topology.CacheLayout: the caches that leases were last waited for
	metaOrigins     = "origins"    // see durableOrigins
	metaDataLost    = "data-lost"  // a shard.Loss
	metaFences      = "fences"     // causal.Fences
	metaExclusions  = "exclusions" // causal.Exclusions
	metaMissing     = "missing"    // causal.KeyRanges: what is lost, if metaDataLost says that it is known
)

// middlemanMeta are the names of all metadata of a middleman.
var middlemanMeta = [...]string{metaIncarnation, metaHorizon, metaState, metaMoves, metaCaches, metaOrigins, metaFences,
	metaExclusions, metaLineage, metaDataLost, metaMissing}

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
	if err := mm.horizon.load(ctx, mm.store); err != nil {
		return nil, err
	}
	if err := mm.origins.load(ctx, mm.store); err != nil {
		return nil, err
	}
	if err := mm.fences.load(ctx, mm.store); err != nil {
		return nil, err
	}
	past, err := mm.readPast(ctx)
	if err != nil {
		return nil, err
	}
	self, t := o.Config.Self, o.Config.Topology
	mm.starts = past.Starts
	mover, err := newMover(ctx, mm.store, t, self)
	if err != nil {
		return nil, err
	}
	if mover == nil { // so that a later start detects a number of shards that changed without a resharding
		if err := mm.saveState(ctx, shard.MigrationState{Map: t.Map(t.RingOf(self.DC))}); err != nil {
			return nil, err
		}
	}
	mm.host = newHost(self, o.Clock, o.Net, shard.New(t, self, mover, past))
	mm.gate = o.gate
	mm.ctx, mm.cancel = context.WithCancel(context.Background())
	mm.wake.L = &mm.mu
	mm.collectRequests = mm.collect
	if err := mm.startServing(ctx); err != nil {
		mm.cancel()
		return nil, err
	}
	mm.reconcilerDone.Add(1)
	go mm.reconcile()
	return mm, nil
}

// readPast reads what the store tells of earlier starts.
func (mm *Middleman) readPast(ctx context.Context) (past shard.Past, err error) {
	past = shard.Past{HasWritesOf: mm.origins.has, ID: rand.Uint64(), Broken: mm.options.Config.Broken}
	if past.Starts, err = metaUint(ctx, mm.store, metaIncarnation); err != nil {
		return past, err
	}
	if past.Loss, err = readLoss(ctx, mm.store); err != nil {
		return past, err
	}
	past.Missing, err = readMissing(ctx, mm.store)
	return past, err
}

// Leadership returns the leadership of a middleman that is the only one with its store: it is that of this start.
func (mm *Middleman) Leadership() causal.Leadership { return causal.Leadership{Life: mm.starts + 1} }

// DataLost reports whether the store has lost its data, and which coordinators have acknowledgements of what it lost,
// if this start has asked them.
func (mm *Middleman) DataLost() (lost bool, known []topology.Node) {
	mm.host.Inspect(func(s *shard.Shard) { lost, known = s.DataLost() })
	return lost, known
}

// Backfill returns the progress of getting lost data back, or the last time that this has ended since the start; false
// if there was none.
func (mm *Middleman) Backfill() (p middleman.BackfillProgress, ok bool) {
	mm.host.Inspect(func(s *shard.Shard) { p, ok = s.Backfill() })
	return p, ok
}

// isWhole reports whether a middleman serves that lacks nothing.
func (mm *Middleman) isWhole() (whole bool) {
	mm.host.Inspect(func(s *shard.Shard) {
		lost, _ := s.DataLost()
		whole = s.Serving() != nil && !lost && s.Serving().IsChecked()
	})
	return whole
}

// Serves reports whether a middleman serves. None does while slots move, or while it is not known whether an empty
// store is new.
func (mm *Middleman) Serves() (serves bool) {
	mm.host.Inspect(func(s *shard.Shard) { serves = s.Serving() != nil })
	return serves
}

// Withdrawn reports whether the shard keeps what it has without answering anything, and why.
func (mm *Middleman) Withdrawn() (w shard.Withdrawn, ok bool) {
	mm.host.Inspect(func(s *shard.Shard) { w, ok = s.Withdrawn() })
	return w, ok
}

// Unheard returns the coordinators that have not said what they remember of the store; none once enough have.
func (mm *Middleman) Unheard() (nodes []topology.Node) {
	mm.Inspect(func(m *middleman.Middleman) { nodes = m.Unheard() })
	return nodes
}

// Unanswered returns the coordinators that have to answer before the middleman serves with an empty store.
func (mm *Middleman) Unanswered() (nodes []topology.Node) {
	mm.host.Inspect(func(s *shard.Shard) { nodes = s.Unanswered() })
	return nodes
}

// ReportDataLoss records in the store that it has lost its data, and reports the failure: the next start refuses reads.
func (mm *Middleman) ReportDataLoss(cause error) {
	mm.lossReported.Do(func() {
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), storageTimeout)
			defer cancel()
			// A store that takes nothing any more says itself, when it is opened, that it has lost data.
			if err := setMetaUint(ctx, mm.store, metaDataLost, uint64(shard.LossFound)); err != nil &&
				!errors.Is(err, storage.ErrDataLost) {
				cause = errors.Join(cause, err)
			}
			mm.onFailure(cause)
		}()
	})
}

// startServing starts a middleman under the current slot map, if the shard may serve.
func (mm *Middleman) startServing(ctx context.Context) error {
	history := shard.History{Horizon: mm.horizon.get(), Fences: mm.fences.get()}
	var err error
	if history.Starts, err = metaUint(ctx, mm.store, metaIncarnation); err != nil {
		return err
	}
	caches, err := metaUint(ctx, mm.store, metaCaches)
	if err != nil {
		return err
	}
	if history.Exclusions, err = readExclusions(ctx, mm.store); err != nil {
		return err
	}
	if history.Lineage, err = readLineage(ctx, mm.store, history.Starts); err != nil {
		return err
	}
	history.Caches, history.Position = topology.CacheLayout(caches), mm.store.Position()
	mm.mu.Lock()
	plan, ok := mm.m.PlanStart(mm.clock(), mm.options.Config, history)
	mm.mu.Unlock()
	if !ok {
		return nil
	}
	if plan.SaveCaches && plan.Config.Fresh {
		if err := setMetaUint(ctx, mm.store, metaCaches, uint64(plan.Caches)); err != nil {
			return err
		}
	}
	if err := mm.saveLoss(ctx, plan); err != nil {
		return err
	}
	if err := mm.saveStart(ctx, plan.Config); err != nil {
		return err
	}
	m := middleman.New(plan.Config, mm.clock())
	s := newServing(mm, m)
	mm.mu.Lock()
	mm.serving = s
	mm.m.Start(m, plan)
	mm.mu.Unlock()
	if !plan.Config.Fresh {
		s.noteTombstones()
		if plan.SaveCaches {
			s.saveCaches(uint64(plan.Caches), plan.Config.Lease)
		}
	}
	return nil
}

// saveLoss records what the storage lacks. It removes what is left in a storage that is to be refilled.
func (mm *Middleman) saveLoss(ctx context.Context, plan shard.Start) error {
	before, err := metaUint(ctx, mm.store, metaDataLost)
	if err != nil {
		return err
	}
	if plan.Clear {
		if err := setMetaUint(ctx, mm.store, metaDataLost, uint64(shard.LossFound)); err != nil {
			return err
		}
		if err := mm.wipeAll(ctx); err != nil {
			return fmt.Errorf("remove what is left in a storage that has lost data: %w", err)
		}
	}
	if plan.Loss == shard.LossKept {
		// with the exclusions alone, the next start would lack what is not complete, and not know that
		if err := setMetaUint(ctx, mm.store, metaDataLost, uint64(plan.Loss)); err != nil {
			return err
		}
	}
	if err := includeExclusions(ctx, mm.store, plan.Config.Exclusions); err != nil || uint64(plan.Loss) == before &&
		!plan.Clear {
		return err
	}
	if plan.Loss == shard.NoLoss {
		p, _ := mm.Backfill()
		mm.logger.Info("the storage has its data again, from other rings", "keys", p.Keys, "bytes", p.Bytes)
	}
	return setMetaUint(ctx, mm.store, metaDataLost, uint64(plan.Loss))
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
		return 0,
			fmt.Errorf(
				"read %s from storage: its %d bytes are not a number; the storage is damaged, or belongs to another "+
					"application", name, len(b))
	}
	return v, nil
}

func setMetaUint(ctx context.Context, s storage.Store, name string, v uint64) error {
	if err := s.SetMeta(ctx, name, binary.AppendUvarint(nil, v)); err != nil {
		return fmt.Errorf("write %s to storage: %w", name, err)
	}
	return nil
}

// LinkUp tells the machine that a node is reachable again: what was on its way to it may be lost. It does not wait for
// a gate, as the network calls it: what it would repeat is repeated in time.
func (mm *Middleman) LinkUp(n topology.Node) {
	mm.tryStep(func(now causal.Now, s *shard.Shard) { s.LinkUp(now, n) })
}

// Close stops the middleman. Coordinators resend unacknowledged puts to its next start. The store stays open.
func (mm *Middleman) Close() {
	mm.stop()
	mm.cancel()
	mm.mu.Lock()
	mm.closing = true
	mm.wake.Signal()
	mm.mu.Unlock()
	mm.reconcilerDone.Wait()
	if s := mm.serving; s != nil {
		s.stopAndWait()
	}
}

// StorageState returns how many requests to the store have failed, and why the last write failed; nil if it succeeded.
func (mm *Middleman) StorageState() (failures uint64, problem error) { return mm.health.state() }

// NoteStorageFailure counts a request to the store that somebody else has made and that has failed.
func (mm *Middleman) NoteStorageFailure(err error) { mm.health.noteFailures(1, err) }

// Inspect calls f with the serving middleman, if there is one. f must not change it.
func (mm *Middleman) Inspect(f func(*middleman.Middleman)) {
	mm.host.Inspect(func(s *shard.Shard) {
		if m := s.Serving(); m != nil {
			f(m)
		}
	})
}
