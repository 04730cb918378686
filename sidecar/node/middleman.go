package node

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/storage"
	"github.com/causalstore/causalstore/sidecar/transport"
)

// Middleman runs a causal.Middleman on a store.
type Middleman struct {
	*Host
	store  storage.Store
	inline bool
	logger *slog.Logger
	ctx    context.Context
	cancel context.CancelFunc

	ops     []causal.StorageOp
	reads   storageQueue
	writes  storageQueue
	running sync.WaitGroup
	closing bool
}

// storageQueue is requests that wait for the goroutine which carries them out, under Host.mu.
type storageQueue struct {
	ops  []causal.StorageOp
	some sync.Cond
}

func (q *storageQueue) add(op causal.StorageOp) {
	if q.ops = append(q.ops, op); len(q.ops) == 1 {
		q.some.Signal()
	}
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
}

const (
	metaIncarnation = "incarnation"
	metaHorizon     = "tombstone-horizon"
)

// storageTimeout bounds one call to the store.
const storageTimeout = 10 * time.Second

// NewMiddleman reads the middleman's own metadata from the store, and notes there that it has been started once more.
func NewMiddleman(ctx context.Context, o MiddlemanOptions) (*Middleman, error) {
	incarnation, err := metaUint(ctx, o.Store, metaIncarnation)
	if err != nil {
		return nil, err
	}
	horizon, err := metaUint(ctx, o.Store, metaHorizon)
	if err != nil {
		return nil, err
	}
	o.Config.Fresh = incarnation == 0
	o.Config.Incarnation, o.Config.Horizon = incarnation+1, causal.HLC(horizon)
	if err := setMetaUint(ctx, o.Store, metaIncarnation, incarnation+1); err != nil {
		return nil, err
	}
	mm := &Middleman{Host: newHost(o.Config.Self, o.Clock, o.Net), store: o.Store, inline: o.InlineReads, logger: o.Logger}
	mm.ctx, mm.cancel = context.WithCancel(context.Background())
	mm.reads.some.L, mm.writes.some.L = &mm.mu, &mm.mu
	m := causal.NewMiddleman(o.Config, o.Clock())
	mm.m = m
	mm.collect = func() { mm.take(m) }
	mm.running.Add(2)
	go mm.loop(&mm.writes, mm.write)
	go mm.loop(&mm.reads, mm.read)
	if !o.Config.Fresh {
		mm.running.Add(1)
		go mm.findTombstones(m)
	}
	return mm, nil
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

// take sorts the machine's storage requests. Reads of an embedded store are answered on the spot: it takes less than
// waking another goroutine, and their answers may bring further requests.
func (mm *Middleman) take(m *causal.Middleman) {
	for {
		mm.ops = m.Ops(mm.ops[:0])
		if len(mm.ops) == 0 {
			return
		}
		for _, op := range mm.ops {
			switch {
			case op.Kind == causal.StorageRead && mm.inline:
				m.StorageDone(mm.clock(), mm.get(op))
			case op.Kind == causal.StorageRead || op.Kind == causal.StorageCount:
				mm.reads.add(op)
			default:
				mm.writes.add(op)
			}
		}
		mm.queue = m.Take(mm.queue)
	}
}

// loop carries out the requests of one queue, all that have gathered at a time.
func (mm *Middleman) loop(q *storageQueue, carryOut func([]causal.StorageOp, []causal.StorageResult) []causal.StorageResult) {
	defer mm.running.Done()
	var group []causal.StorageOp
	var results []causal.StorageResult
	for {
		mm.mu.Lock()
		for len(q.ops) == 0 && !mm.closing {
			q.some.Wait()
		}
		group, q.ops = q.ops, group[:0]
		mm.mu.Unlock()
		if len(group) == 0 {
			return
		}
		results = carryOut(group, results[:0])
		mm.do(func(now causal.Now) {
			for _, r := range results {
				mm.m.(*causal.Middleman).StorageDone(now, r)
			}
		})
		clear(group)
		clear(results)
	}
}

// result turns the answer of a store into that of a request.
func (mm *Middleman) result(id uint64, rec causal.Record, found bool, err error) causal.StorageResult {
	var foreign *storage.ForeignError
	switch {
	case err == nil:
		return causal.StorageResult{ID: id, Record: rec, Found: found}
	case errors.As(err, &foreign):
		mm.logger.Warn("a value that this deployment did not write", "key", foreign.Key, "reason", foreign.Reason)
		return causal.StorageResult{ID: id, Record: causal.Record{Value: causal.Value{Data: foreign.Data, Tombstone: foreign.Data == nil}}, Found: true, Foreign: true}
	default:
		if mm.ctx.Err() == nil {
			mm.logger.Error("storage failed", "error", err)
		}
		return causal.StorageResult{ID: id, Failed: true}
	}
}

func (mm *Middleman) get(op causal.StorageOp) causal.StorageResult {
	rec, found, err := mm.store.Get(mm.ctx, op.Key)
	return mm.result(op.ID, rec, found, err)
}

func (mm *Middleman) read(group []causal.StorageOp, results []causal.StorageResult) []causal.StorageResult {
	ctx, cancel := context.WithTimeout(mm.ctx, storageTimeout)
	defer cancel()
	keys := make([]string, 0, len(group))
	for _, op := range group {
		if op.Kind == causal.StorageRead {
			keys = append(keys, op.Key)
		}
	}
	var answers []storage.Result
	var failed error
	if len(keys) > 0 {
		answers, failed = mm.store.GetMany(ctx, keys)
	}
	i := 0
	for _, op := range group {
		switch {
		case op.Kind == causal.StorageCount:
			n, err := mm.store.Len(ctx)
			results = append(results, causal.StorageResult{ID: op.ID, Count: n, Failed: err != nil})
		case failed != nil:
			results = append(results, mm.result(op.ID, causal.Record{}, false, failed))
		default:
			results = append(results, mm.result(op.ID, answers[i].Record, answers[i].Found, answers[i].Err))
			i++
		}
	}
	return results
}

func (mm *Middleman) write(group []causal.StorageOp, results []causal.StorageResult) []causal.StorageResult {
	ctx, cancel := context.WithTimeout(mm.ctx, storageTimeout)
	defer cancel()
	var horizon causal.HLC
	writes := make([]storage.Write, 0, len(group))
	for _, op := range group {
		if op.Kind == causal.StorageHorizon {
			horizon = max(horizon, op.Horizon)
			continue
		}
		writes = append(writes, storage.Write{Key: op.Key, Record: op.Record, Delete: op.Kind == causal.StorageDelete})
	}
	var err error
	if horizon > 0 {
		err = setMetaUint(ctx, mm.store, metaHorizon, uint64(horizon))
	}
	if err == nil && len(writes) > 0 {
		err = mm.store.Apply(ctx, writes)
	}
	for _, op := range group {
		results = append(results, mm.result(op.ID, causal.Record{}, false, err))
	}
	return results
}

// findTombstones tells the machine of those that storage held at the start, so that they are dropped in their time.
func (mm *Middleman) findTombstones(m *causal.Middleman) {
	defer mm.running.Done()
	err := mm.store.Scan(mm.ctx, func(key string, rec causal.Record) error {
		if rec.Value.Tombstone {
			mm.do(func(causal.Now) { m.NoteTombstone(key, rec.Version) })
		}
		return mm.ctx.Err()
	})
	if err != nil && mm.ctx.Err() == nil {
		mm.logger.Warn("looking for old tombstones: they will stay until the next start", "error", err)
	}
}

// Close stops the middleman. Puts that are not acknowledged will be sent again to the next one. The store stays open.
func (mm *Middleman) Close() {
	mm.stop()
	mm.cancel()
	mm.mu.Lock()
	mm.closing = true
	mm.reads.some.Signal()
	mm.writes.some.Signal()
	mm.mu.Unlock()
	mm.running.Wait()
}

// Machine gives f the machine to look at.
func (mm *Middleman) Machine(f func(*causal.Middleman)) {
	mm.View(func(m any) { f(m.(*causal.Middleman)) })
}
