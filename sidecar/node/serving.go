package node

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/middleman"
	"github.com/causalstore/causalstore/sidecar/causal/shard"
	"github.com/causalstore/causalstore/sidecar/retry"
	"github.com/causalstore/causalstore/sidecar/storage"
)

// servingMiddleman is a middleman.Middleman and the goroutines that execute its storage requests. Middleman.mu guards
// its fields.
type servingMiddleman struct {
	mm     *Middleman
	m      *middleman.Middleman
	ops    []middleman.StorageOp
	reads  storageQueue
	writes storageQueue
	large  largeValues
	// readsAsked are the requests of reads that are for others.
	readsAsked unanswered
	closing    bool
	running    sync.WaitGroup
	ctx        context.Context // cancelled by stopAndWait; writes in progress do not use it
	cancel     context.CancelFunc
	backoff    retry.Backoff // between writes that fail; used by the goroutine of writes only
}

// storageQueue holds requests until the goroutine that executes them takes them.
type storageQueue struct {
	ops      []middleman.StorageOp
	nonEmpty sync.Cond
}

func (q *storageQueue) add(op middleman.StorageOp) {
	if q.ops = append(q.ops, op); len(q.ops) == 1 {
		q.nonEmpty.Signal()
	}
}

func newServing(mm *Middleman, m *middleman.Middleman) *servingMiddleman {
	s := &servingMiddleman{mm: mm, m: m, backoff: retry.Backoff{First: diskRetryFirst, Max: diskRetryMax}}
	s.ctx, s.cancel = context.WithCancel(mm.ctx)
	s.reads.nonEmpty.L, s.writes.nonEmpty.L = &mm.mu, &mm.mu
	s.running.Go(func() { s.runQueue(&s.writes, s.write) })
	s.running.Go(func() { s.runQueue(&s.reads, s.read) })
	return s
}

// saveCaches saves the layout of the caches once all leases from before have expired: a middleman that starts earlier
// has to wait for them as well.
func (s *servingMiddleman) saveCaches(caches uint64, lease time.Duration) {
	s.running.Go(func() {
		select {
		case <-s.ctx.Done():
			return
		case <-time.After(lease):
		}
		ctx, cancel := context.WithTimeout(s.mm.ctx, storageTimeout)
		defer cancel()
		if err := setMetaUint(ctx, s.mm.store, metaCaches, caches); err != nil && s.ctx.Err() == nil {
			s.mm.logger.Warn("could not save the layout of the caches; the next start waits for leases again",
				"error", err)
		}
	})
}

// stopAndWait waits until the store executes no more of the machine's requests. The machine does not receive their
// results.
func (s *servingMiddleman) stopAndWait() {
	s.cancel()
	s.mm.mu.Lock()
	s.closing = true
	s.reads.nonEmpty.Signal()
	s.writes.nonEmpty.Signal()
	s.mm.mu.Unlock()
	s.running.Wait()
}

// step calls f if the machine is still the serving one.
func (s *servingMiddleman) step(f func(now causal.Now)) {
	s.mm.step(func(now causal.Now, _ *shard.Shard) {
		if s.mm.serving == s {
			f(now)
		}
	})
}

// collect queues the machine's storage requests. It executes reads of an embedded store itself, which is faster than
// waking another goroutine, unless their values are large; their results may lead to further requests.
func (s *servingMiddleman) collect() {
	mm := s.mm
	for bytes := 0; ; {
		s.ops = s.m.Ops(s.ops[:0])
		if len(s.ops) == 0 {
			return
		}
		for _, op := range s.ops {
			switch {
			case op.Kind == middleman.StorageRead && mm.options.InlineReads && bytes < maxGroupBytes &&
				!s.large.has(op.Key):
				r := s.get(op)
				bytes += r.Record.Value.Size()
				s.large.note(op.Key, r.Record.Value.Size())
				s.noteRead(&op, &r)
				s.m.StorageDone(mm.clock(), r)
			case op.Kind == middleman.StorageRead || op.Kind == middleman.StorageCount ||
				op.Kind == middleman.StorageScan:
				if op.ForReader {
					s.readsAsked.add(op.Key)
				}
				s.reads.add(op)
			default:
				mm.m.NoteWrite(op)
				s.writes.add(op)
			}
		}
		mm.queue = s.m.Take(mm.queue)
	}
}

// A group of requests that share a call to the store has at most this many requests, and bytes unless it is a single
// one: with several members it is one record of their log, which a message has to carry.
const (
	maxGroupOps   = 1024
	maxGroupBytes = 8 << 20
)

// takeGroup moves the requests that share the next call to the store from the queue to group, which is empty.
func (q *storageQueue) takeGroup(group []middleman.StorageOp) []middleman.StorageOp {
	n, bytes := 0, 0
	for n < len(q.ops) && n < maxGroupOps {
		bytes += len(q.ops[n].Key) + q.ops[n].Record.Value.Size()
		if n > 0 && bytes > maxGroupBytes {
			break
		}
		n++
	}
	if n == len(q.ops) {
		group, q.ops = q.ops, group
		return group
	}
	group = append(group, q.ops[:n]...)
	q.ops = slices.Delete(q.ops, 0, n)
	return group
}

// noteRead takes note of the result of a read for somebody else.
func (s *servingMiddleman) noteRead(op *middleman.StorageOp, r *middleman.StorageResult) {
	if op.ForReader && !r.Busy {
		s.mm.replies.noteRead(r.Record.Value.Size())
	}
}

// runQueue executes the requests of a queue. It is the only place that groups them: all requests that arrive during one
// call to the store, up to the limits, share the next call. execute returns the results of the first requests of the
// group, of one at least; the others are in the next call.
func (s *servingMiddleman) runQueue(q *storageQueue,
	execute func([]middleman.StorageOp, []middleman.StorageResult) []middleman.StorageResult) {
	mm := s.mm
	var all []middleman.StorageOp
	var results []middleman.StorageResult
	for {
		mm.mu.Lock()
		for len(q.ops) == 0 && !s.closing {
			q.nonEmpty.Wait()
		}
		if s.closing {
			q.ops = nil // no machine receives their results; coordinators resend unacknowledged puts
		}
		all = q.takeGroup(all[:0])
		mm.mu.Unlock()
		if len(all) == 0 {
			return
		}
		for group := all; len(group) > 0; group = group[len(results):] {
			results = execute(group, results[:0])
			mm.step(func(now causal.Now, _ *shard.Shard) { s.finish(now, group, results) })
			clear(results)
		}
		clear(all)
	}
}

// finish passes the results of the first requests of a group to the machine. It is called with the lock held.
func (s *servingMiddleman) finish(now causal.Now, group []middleman.StorageOp, results []middleman.StorageResult) {
	for i := range results {
		s.mm.m.NoteWrite(group[i])
	}
	if s.mm.serving != s {
		return
	}
	for i := range results {
		if group[i].Kind == middleman.StorageRead && !results[i].Failed && !results[i].Busy {
			s.large.note(group[i].Key, results[i].Record.Value.Size())
		}
		if group[i].ForReader {
			s.readsAsked.remove(group[i].Key)
			s.noteRead(&group[i], &results[i])
		}
		s.m.StorageDone(now, results[i])
	}
}

// result converts an answer of the store to the result of a request. storage.ErrRestarted fails the request like any
// other error: the machine retries a write and refuses a read.
func (s *servingMiddleman) result(id uint64, rec causal.Record, found bool, err error) middleman.StorageResult {
	if err == nil {
		return middleman.StorageResult{ID: id, Record: rec, Found: found}
	}
	if foreign, ok := errors.AsType[*storage.ForeignError](err); ok {
		s.mm.logger.Warn("the store holds a value that this deployment did not write", "key", foreign.Key, "reason",
			foreign.Reason)
		return middleman.StorageResult{ID: id,
			Record: causal.Record{Value: causal.Value{Data: foreign.Data, Tombstone: foreign.Data == nil}}, Found: true,
			Foreign: true}
	}
	if errors.Is(err, storage.ErrDataLost) {
		s.mm.ReportDataLoss(err)
	}
	return middleman.StorageResult{ID: id, Failed: true}
}

// noteFailures counts and logs requests that have failed, unless that is because the middleman stops.
func (s *servingMiddleman) noteFailures(n int, err error) {
	if n > 0 && s.ctx.Err() == nil {
		s.mm.health.noteFailures(n, err)
	}
}

func (s *servingMiddleman) get(op middleman.StorageOp) middleman.StorageResult {
	if s.mm.replies.isFull(&op) {
		return middleman.StorageResult{ID: op.ID, Busy: true}
	}
	rec, found, err := s.mm.store.Get(s.ctx, op.Key)
	if err != nil && !errors.Is(err, storage.ErrForeign) {
		s.noteFailures(1, err)
	}
	return s.result(op.ID, rec, found, err)
}

func (s *servingMiddleman) read(group []middleman.StorageOp,
	results []middleman.StorageResult) []middleman.StorageResult {
	ctx, cancel := context.WithTimeout(s.ctx, storageTimeout)
	defer cancel()
	keys := make([]string, 0, len(group))
	for i := range group {
		if s.mm.replies.isFull(&group[i]) {
			if i == 0 {
				return append(results, middleman.StorageResult{ID: group[0].ID, Busy: true})
			}
			group = group[:i]
			break
		}
		if group[i].Kind == middleman.StorageRead {
			keys = append(keys, group[i].Key)
		}
	}
	var answers []storage.Result
	var failed error
	if len(keys) > 0 {
		if answers, failed = s.mm.store.GetMany(ctx, keys, maxGroupBytes); failed != nil {
			s.noteFailures(len(keys), failed)
		}
	}
	i := 0
	for _, op := range group {
		if op.Kind == middleman.StorageRead && failed == nil && i == len(answers) {
			break
		}
		switch {
		case op.Kind == middleman.StorageCount:
			n, err := s.mm.store.Len(ctx)
			if err != nil {
				s.noteFailures(1, err)
			}
			results = append(results, middleman.StorageResult{ID: op.ID, Count: n, Failed: err != nil})
		case op.Kind == middleman.StorageScan:
			keys, next, err := s.mm.store.Keys(ctx, op.Key, op.Limit)
			results = append(results, middleman.StorageResult{ID: op.ID, Keys: keys, Next: next, Failed: err != nil,
				BadCursor: errors.Is(err, storage.ErrCursor)})
		case failed != nil: // all that were asked for
			results = append(results, s.result(op.ID, causal.Record{}, false, failed))
		default:
			results = append(results, s.result(op.ID, answers[i].Record, answers[i].Found, answers[i].Err))
			i++
		}
	}
	return results
}

// write is not cancelled by stopAndWait: when it returns, the store has finished with the group.
func (s *servingMiddleman) write(group []middleman.StorageOp,
	results []middleman.StorageResult) []middleman.StorageResult {
	ctx, cancel := context.WithTimeout(s.mm.ctx, storageTimeout)
	defer cancel()
	var horizon causal.HLC
	var fences []middleman.StorageOp
	var exclusions causal.Exclusions
	writes := make([]storage.Write, 0, len(group))
	for _, op := range group {
		if op.Kind == middleman.StorageHorizon {
			horizon = max(horizon, op.Horizon)
			continue
		}
		if op.Kind == middleman.StorageFence {
			fences = append(fences, op)
			continue
		}
		if op.Kind == middleman.StorageExclusions {
			exclusions = exclusions.With(op.Exclusions)
			continue
		}
		writes = append(writes, storage.Write{Key: op.Key, Record: op.Record,
			Delete: op.Kind == middleman.StorageDelete, KeyExists: op.KeyExists})
	}
	err := s.mm.horizon.raise(ctx, s.mm.store, horizon)
	for i := 0; i < len(fences) && err == nil; i++ {
		err = s.mm.fences.include(ctx, s.mm.store, s.mm.options.Config.Topology, fences[i].Origin, fences[i].Generation)
	}
	if err == nil && len(exclusions) > 0 {
		err = includeExclusions(ctx, s.mm.store, exclusions)
	}
	if err == nil {
		err = s.mm.origins.include(ctx, s.mm.store, writes)
	}
	if err == nil && len(writes) > 0 {
		err = s.mm.store.Apply(ctx, writes)
	}
	s.mm.health.noteWrite(err)
	if err == nil {
		s.backoff.Reset()
	} else {
		s.noteFailures(len(group), err)
		s.pause()
	}
	changes := uint64(0)
	if err == nil {
		changes = s.mm.store.Position().Changes
	}
	for _, op := range group {
		r := s.result(op.ID, causal.Record{}, false, err)
		r.Changes = changes
		results = append(results, r)
	}
	return results
}

// pause delays the results of writes that have failed, so that the machine, which repeats them at once, does not
// overload a storage that is in trouble. Further writes wait meanwhile, and share the next attempt.
func (s *servingMiddleman) pause() {
	select {
	case <-s.ctx.Done():
	case <-time.After(s.backoff.Next()):
	}
}

// noteTombstones informs the machine of the tombstones in the store at the start, so that it drops them in time.
func (s *servingMiddleman) noteTombstones() {
	s.running.Go(func() {
		err := s.mm.store.Scan(s.ctx, func(key string, rec causal.Record) error {
			if rec.Value.Tombstone {
				s.step(func(causal.Now) { s.m.NoteTombstone(key, rec.Version) })
			}
			return s.ctx.Err()
		})
		switch {
		case errors.Is(err, storage.ErrDataLost):
			s.mm.ReportDataLoss(err)
		case err != nil && s.ctx.Err() == nil:
			s.mm.logger.Warn("could not scan the store for tombstones; those from before stay until the next start",
				"error", err)
		}
	})
}
