package node

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/storage"
)

// serving is a causal.Middleman and the goroutines that carry out its storage requests. Its fields are under Middleman.mu.
type serving struct {
	mm      *Middleman
	m       *causal.Middleman
	ops     []causal.StorageOp
	reads   storageQueue
	writes  storageQueue
	closing bool
	running sync.WaitGroup
	ctx     context.Context // ends before the store does, but not before the writes under way
	cancel  context.CancelFunc
}

// storageQueue is requests that wait for the goroutine which carries them out.
type storageQueue struct {
	ops  []causal.StorageOp
	some sync.Cond
}

func (q *storageQueue) add(op causal.StorageOp) {
	if q.ops = append(q.ops, op); len(q.ops) == 1 {
		q.some.Signal()
	}
}

func newServing(mm *Middleman, m *causal.Middleman, used bool) *serving {
	s := &serving{mm: mm, m: m}
	s.ctx, s.cancel = context.WithCancel(mm.ctx)
	s.reads.some.L, s.writes.some.L = &mm.mu, &mm.mu
	s.running.Add(2)
	go s.loop(&s.writes, s.write)
	go s.loop(&s.reads, s.read)
	if used {
		s.running.Add(1)
		go s.findTombstones()
	}
	return s
}

// noteCaches makes the numbers of caches durable once the leases of before have run out: a start before that has to wait for
// them as well.
func (s *serving) noteCaches(caches uint64, lease time.Duration) {
	s.running.Go(func() {
		select {
		case <-s.ctx.Done():
			return
		case <-time.After(lease):
		}
		ctx, cancel := context.WithTimeout(s.mm.ctx, storageTimeout)
		defer cancel()
		if err := setMetaUint(ctx, s.mm.store, metaCaches, caches); err != nil && s.ctx.Err() == nil {
			s.mm.logger.Warn("the next start will wait for leases once more", "error", err)
		}
	})
}

// end waits until storage does nothing of what the machine has asked for. The machine hears no more of it.
func (s *serving) end() {
	s.cancel()
	s.mm.mu.Lock()
	s.closing = true
	s.reads.some.Signal()
	s.writes.some.Signal()
	s.mm.mu.Unlock()
	s.running.Wait()
}

// do runs f on the machine if it still is the one that serves.
func (s *serving) do(f func(now causal.Now)) {
	s.mm.do(func(now causal.Now) {
		if s.mm.serving == s {
			f(now)
		}
	})
}

// take sorts the machine's storage requests. Reads of an embedded store are answered on the spot: it takes less than
// waking another goroutine, and their answers may bring further requests.
func (s *serving) take() {
	mm := s.mm
	for {
		s.ops = s.m.Ops(s.ops[:0])
		if len(s.ops) == 0 {
			return
		}
		for _, op := range s.ops {
			switch {
			case op.Kind == causal.StorageRead && mm.o.InlineReads:
				s.m.StorageDone(mm.clock(), s.get(op))
			case op.Kind == causal.StorageRead || op.Kind == causal.StorageCount:
				s.reads.add(op)
			default:
				mm.shard.wrote(op)
				s.writes.add(op)
			}
		}
		mm.queue = s.m.Take(mm.queue)
	}
}

// loop carries out the requests of one queue, all that have gathered at a time.
func (s *serving) loop(q *storageQueue, carryOut func([]causal.StorageOp, []causal.StorageResult) []causal.StorageResult) {
	defer s.running.Done()
	mm := s.mm
	var group []causal.StorageOp
	var results []causal.StorageResult
	for {
		mm.mu.Lock()
		for len(q.ops) == 0 && !s.closing {
			q.some.Wait()
		}
		if s.closing {
			q.ops = nil // nobody waits for them; coordinators send again what was not acknowledged
		}
		group, q.ops = q.ops, group[:0]
		mm.mu.Unlock()
		if len(group) == 0 {
			return
		}
		results = carryOut(group, results[:0])
		mm.do(func(now causal.Now) {
			for _, op := range group {
				mm.shard.wrote(op)
			}
			if mm.serving != s {
				return
			}
			for _, r := range results {
				s.m.StorageDone(now, r)
			}
		})
		clear(group)
		clear(results)
	}
}

// result turns the answer of a store into that of a request.
func (s *serving) result(id uint64, rec causal.Record, found bool, err error) causal.StorageResult {
	var foreign *storage.ForeignError
	switch {
	case err == nil:
		return causal.StorageResult{ID: id, Record: rec, Found: found}
	case errors.As(err, &foreign):
		s.mm.logger.Warn("a value that this deployment did not write", "key", foreign.Key, "reason", foreign.Reason)
		return causal.StorageResult{ID: id, Record: causal.Record{Value: causal.Value{Data: foreign.Data, Tombstone: foreign.Data == nil}}, Found: true, Foreign: true}
	default:
		if s.ctx.Err() == nil {
			s.mm.logger.Error("storage failed", "error", err)
		}
		return causal.StorageResult{ID: id, Failed: true}
	}
}

func (s *serving) get(op causal.StorageOp) causal.StorageResult {
	rec, found, err := s.mm.store.Get(s.ctx, op.Key)
	return s.result(op.ID, rec, found, err)
}

func (s *serving) read(group []causal.StorageOp, results []causal.StorageResult) []causal.StorageResult {
	ctx, cancel := context.WithTimeout(s.ctx, storageTimeout)
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
		answers, failed = s.mm.store.GetMany(ctx, keys)
	}
	i := 0
	for _, op := range group {
		switch {
		case op.Kind == causal.StorageCount:
			n, err := s.mm.store.Len(ctx)
			results = append(results, causal.StorageResult{ID: op.ID, Count: n, Failed: err != nil})
		case failed != nil:
			results = append(results, s.result(op.ID, causal.Record{}, false, failed))
		default:
			results = append(results, s.result(op.ID, answers[i].Record, answers[i].Found, answers[i].Err))
			i++
		}
	}
	return results
}

// write is not cut short by end: what it was begun with is done with when it returns.
func (s *serving) write(group []causal.StorageOp, results []causal.StorageResult) []causal.StorageResult {
	ctx, cancel := context.WithTimeout(s.mm.ctx, storageTimeout)
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
	err := s.mm.horizon.raise(ctx, s.mm.store, horizon)
	if err == nil && len(writes) > 0 {
		err = s.mm.store.Apply(ctx, writes)
	}
	for _, op := range group {
		results = append(results, s.result(op.ID, causal.Record{}, false, err))
	}
	return results
}

// findTombstones tells the machine of those that storage held at the start, so that they are dropped in their time.
func (s *serving) findTombstones() {
	defer s.running.Done()
	err := s.mm.store.Scan(s.ctx, func(key string, rec causal.Record) error {
		if rec.Value.Tombstone {
			s.do(func(causal.Now) { s.m.NoteTombstone(key, rec.Version) })
		}
		return s.ctx.Err()
	})
	if err != nil && s.ctx.Err() == nil {
		s.mm.logger.Warn("looking for old tombstones: they will stay until the next start", "error", err)
	}
}
