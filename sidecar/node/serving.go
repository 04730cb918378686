package node

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/middleman"
	"github.com/causalstore/causalstore/sidecar/storage"
)

// readQueue holds reads of the middleman of a generation until the goroutine that executes them takes them. The lock of
// the host guards it.
type readQueue struct {
	ops        []middleman.StorageOp
	generation uint64
	nonEmpty   sync.Cond
}

func (q *readQueue) add(op *middleman.StorageOp) {
	if q.ops = append(q.ops, *op); len(q.ops) == 1 {
		q.nonEmpty.Signal()
	}
}

// A group of reads that share a call to the store has at most so many, and values of so many bytes unless it is a
// single one.
const (
	maxGroupOps   = 1024
	maxGroupBytes = 8 << 20
)

// take moves the reads that share the next call to the store from the queue to group, which is empty.
func (q *readQueue) take(group []middleman.StorageOp) []middleman.StorageOp {
	if len(q.ops) <= maxGroupOps {
		group, q.ops = q.ops, group
		return group
	}
	group = append(group, q.ops[:maxGroupOps]...)
	q.ops = slices.Delete(q.ops, 0, maxGroupOps)
	return group
}

// dropReads forgets the reads of an earlier generation that are not under way.
func (mm *shardDriver[M]) dropReads(generation uint64) {
	q := &mm.reads
	if q.generation == generation {
		return
	}
	for i := range q.ops {
		if q.ops[i].ForReader {
			mm.readsAsked.remove(q.ops[i].Key)
		}
	}
	clear(q.ops)
	q.ops, q.generation = q.ops[:0], generation
}

// noteRead takes note of the result of a read for somebody else.
func (mm *shardDriver[M]) noteRead(op *middleman.StorageOp, r *middleman.StorageResult) {
	if op.ForReader && !r.Busy {
		mm.replies.noteRead(r.Record.Value.Size())
	}
}

// runReads executes reads. All that arrive during one call to the store, up to the limits, share the next call. read
// returns the results of the first ones, of one at least; the others are in the next call.
func (mm *shardDriver[M]) runReads() {
	var all []middleman.StorageOp
	var results []middleman.StorageResult
	for {
		mm.mu.Lock()
		for len(mm.reads.ops) == 0 && !mm.closing {
			mm.reads.nonEmpty.Wait()
		}
		if mm.closing {
			mm.mu.Unlock()
			return
		}
		all = mm.reads.take(all[:0])
		generation := mm.reads.generation
		mm.mu.Unlock()
		for group := all; len(group) > 0; group = group[len(results):] {
			results = mm.read(group, results[:0])
			mm.step(func(now causal.Now, p M) { mm.finishReads(now, p, generation, group, results) })
			clear(results)
		}
		clear(all)
	}
}

// finishReads passes the results of the first reads of a group on. It is called with the lock held.
func (mm *shardDriver[M]) finishReads(now causal.Now, p M, generation uint64, group []middleman.StorageOp,
	results []middleman.StorageResult) {
	for i := range results {
		op, r := &group[i], &results[i]
		if op.Kind == middleman.StorageRead && !r.Failed && !r.Busy {
			mm.large.note(op.Key, r.Record.Value.Size())
		}
		if op.ForReader {
			mm.readsAsked.remove(op.Key)
			mm.noteRead(op, r)
		}
		p.ReadDone(now, generation, *r)
	}
}

// result converts an answer of the store to the result of a request. storage.ErrRestarted fails the request like any
// other error: the machine refuses a read.
func (mm *shardDriver[M]) result(id uint64, rec causal.Record, found bool, err error) middleman.StorageResult {
	if err == nil {
		return middleman.StorageResult{ID: id, Record: rec, Found: found}
	}
	if foreign, ok := errors.AsType[*storage.ForeignError](err); ok {
		mm.logger.Warn("the store holds a value that this deployment did not write", "key", foreign.Key, "reason",
			foreign.Reason)
		return middleman.StorageResult{ID: id,
			Record: causal.Record{Value: causal.Value{Data: foreign.Data, Tombstone: foreign.Data == nil}}, Found: true,
			Foreign: true}
	}
	if errors.Is(err, storage.ErrDataLost) {
		go mm.ReportDataLoss(err) // the lock may be held
	}
	return middleman.StorageResult{ID: id, Failed: true}
}

// noteFailures counts and logs requests that have failed, unless that is because the middleman stops.
func (mm *shardDriver[M]) noteFailures(n int, err error) {
	if n > 0 && mm.ctx.Err() == nil {
		mm.health.noteFailures(n, err)
	}
}

func (mm *shardDriver[M]) get(op *middleman.StorageOp) middleman.StorageResult {
	if mm.replies.isFull(op) {
		return middleman.StorageResult{ID: op.ID, Busy: true}
	}
	rec, found, err := mm.store.Get(mm.ctx, op.Key)
	if err != nil && !errors.Is(err, storage.ErrForeign) {
		mm.noteFailures(1, err)
	}
	return mm.result(op.ID, rec, found, err)
}

func (mm *shardDriver[M]) read(group []middleman.StorageOp,
	results []middleman.StorageResult) []middleman.StorageResult {
	ctx, cancel := context.WithTimeout(mm.ctx, storageTimeout)
	defer cancel()
	keys := make([]string, 0, len(group))
	for i := range group {
		if mm.replies.isFull(&group[i]) {
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
		if answers, failed = mm.store.GetMany(ctx, keys, maxGroupBytes); failed != nil {
			mm.noteFailures(len(keys), failed)
		}
	}
	i := 0
	for _, op := range group {
		if op.Kind == middleman.StorageRead && failed == nil && i == len(answers) {
			break
		}
		switch {
		case op.Kind == middleman.StorageCount:
			n, err := mm.store.Len(ctx)
			if err != nil {
				mm.noteFailures(1, err)
			}
			results = append(results, middleman.StorageResult{ID: op.ID, Count: n, Failed: err != nil})
		case op.Kind == middleman.StorageScan:
			keys, next, err := mm.store.Keys(ctx, op.Key, op.Limit)
			results = append(results, middleman.StorageResult{ID: op.ID, Keys: keys, Next: next, Failed: err != nil,
				BadCursor: errors.Is(err, storage.ErrCursor)})
		case failed != nil: // all that were asked for
			results = append(results, mm.result(op.ID, causal.Record{}, false, failed))
		default:
			results = append(results, mm.result(op.ID, answers[i].Record, answers[i].Found, answers[i].Err))
			i++
		}
	}
	return results
}
