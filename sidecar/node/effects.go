package node

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/middleman"
	"github.com/causalstore/causalstore/sidecar/causal/process"
	"github.com/causalstore/causalstore/sidecar/causal/shard"
	"github.com/causalstore/causalstore/sidecar/retry"
	"github.com/causalstore/causalstore/sidecar/storage"
	"github.com/causalstore/causalstore/topology"
)

// effectQueue holds effects until the goroutine that carries them out takes them. The lock of the host guards it.
type effectQueue struct {
	effects  []process.Effect
	nonEmpty sync.Cond
}

func (q *effectQueue) add(e *process.Effect) {
	q.effects = append(q.effects, *e)
	q.nonEmpty.Signal()
}

// next waits for an effect. It returns false when there are no more.
func (mm *shardDriver[M]) next(q *effectQueue) (e process.Effect, ok bool) {
	mm.mu.Lock()
	defer mm.mu.Unlock()
	for len(q.effects) == 0 && !mm.closing {
		q.nonEmpty.Wait()
	}
	if mm.closing {
		return e, false
	}
	e = q.effects[0]
	q.effects[0] = process.Effect{}
	if q.effects = q.effects[1:]; len(q.effects) == 0 {
		q.effects = nil
	}
	return e, true
}

// collect takes what the process of the shard asks for after a step. It executes reads of an embedded store itself,
// which is faster than waking another goroutine, unless their values are large; their results may lead to further
// requests.
func (mm *shardDriver[M]) collect() {
	p := mm.m
	mm.dropReads(p.Generation())
	for bytes := 0; ; {
		mm.ops = p.Reads(mm.ops[:0])
		if len(mm.ops) == 0 {
			break
		}
		for i := range mm.ops {
			op := &mm.ops[i]
			if op.Kind == middleman.StorageRead && mm.options.InlineReads && bytes < maxGroupBytes &&
				!mm.large.has(op.Key) {
				r := mm.get(op)
				bytes += r.Record.Value.Size()
				mm.large.note(op.Key, r.Record.Value.Size())
				mm.noteRead(op, &r)
				p.ReadDone(mm.clock(), p.Generation(), r)
				continue
			}
			if op.ForReader {
				mm.readsAsked.add(op.Key)
			}
			mm.reads.add(op)
		}
		mm.queue = p.Take(mm.queue)
	}
	mm.effects = p.Effects(mm.effects[:0])
	for i := range mm.effects {
		mm.begin(&mm.effects[i])
	}
	clear(mm.effects)
	mm.queue = p.Take(mm.queue)
	if isSetting, _ := p.IsSetting(); !isSetting {
		mm.settled.Broadcast()
	}
	mm.showService(p.Shard())
}

// begin gives an effect to the goroutine that carries it out.
func (mm *shardDriver[M]) begin(e *process.Effect) {
	if mm.closing {
		return
	}
	switch e.Kind {
	case process.EffectWrite:
		mm.writes.add(e)
	case process.EffectTask:
		mm.tasks.add(e)
	case process.EffectTombstones:
		id, generation := e.ID, e.Generation
		mm.running.Go(func() { mm.noteTombstones(id, generation) })
	case process.EffectPing, process.EffectLoss:
		effect, ctx := *e, mm.ctx
		if e.Kind == process.EffectLoss {
			ctx = context.Background() // also if it is about to stop
		}
		mm.running.Go(func() { mm.finish(effect.ID, mm.carryOut(ctx, &effect)) })
	default:
		mm.changes.add(e)
	}
}

// finish passes what has become of an effect to the machine.
func (mm *shardDriver[M]) finish(id uint64, r process.EffectResult) {
	mm.step(func(now causal.Now, p M) { p.Done(now, id, r) })
}

// runWrites makes the changes that the middleman asks for. While they fail, it makes them less and less often, so that
// the machine, which repeats them at once, does not overload a storage that is in trouble. Further writes wait
// meanwhile, and share the next attempt.
func (mm *shardDriver[M]) runWrites() {
	backoff := retry.Backoff{First: diskRetryFirst, Max: diskRetryMax}
	for {
		e, ok := mm.next(&mm.writes)
		if !ok {
			return
		}
		r := mm.carryOut(mm.ctx, &e)
		if mm.health.noteWrite(r.Err); r.Err == nil {
			backoff.Reset()
		} else {
			mm.noteFailures(len(e.Change.Writes)+len(e.Change.Meta), r.Err)
			select {
			case <-mm.ctx.Done():
			case <-time.After(backoff.Next()):
			}
		}
		mm.finish(e.ID, r)
	}
}

// runChanges carries out all other effects, one after the other.
func (mm *shardDriver[M]) runChanges() {
	for {
		e, ok := mm.next(&mm.changes)
		if !ok {
			return
		}
		r := mm.carryOut(mm.ctx, &e)
		if r.Err != nil && mm.ctx.Err() == nil {
			mm.logger.Error("the storage failed during a resharding or a start; it is tried again", "error", r.Err)
		}
		mm.finish(e.ID, r)
	}
}

// carryOut carries an effect out.
func (mm *shardDriver[M]) carryOut(ctx context.Context, e *process.Effect) (r process.EffectResult) {
	if e.Kind != process.EffectList { // of which there may be many
		timeout := storageTimeout
		if e.Kind == process.EffectPing {
			timeout = process.PingTimeout
		}
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	switch e.Kind {
	case process.EffectLoad:
		r.Marks, r.Err = readMarks(ctx, mm.store, process.MarkNames[:]...)
		r.Position = mm.store.Position()
	case process.EffectWrite, process.EffectChange:
		if r.Err = mm.change(ctx, e); r.Err == nil {
			r.Position = mm.store.Position()
		}
	case process.EffectList:
		r.Keys, r.Err = mm.listKeys(ctx, e.Want)
	case process.EffectRead:
		r.Records, r.Err = mm.readMoved(ctx, e.Keys)
	case process.EffectCheck:
		r.Err = setKeyExists(ctx, mm.store, e.Change.Writes)
	case process.EffectTask:
		r = mm.carryOutTask(ctx, e.Task)
	case process.EffectLoss:
		if e.Task != nil {
			r.Err = mm.store.SetMeta(ctx, metaApplied, e.Task.Marker.AppendTo(nil))
		} else {
			r.Err = mm.store.Apply(ctx, nil, metaOf(e.Change.Meta)...)
		}
	case process.EffectPing:
		if r.Err = mm.store.Ping(ctx); errors.Is(r.Err, storage.ErrRestarted) { // the server answers again
			r.Err = nil
		}
	}
	if errors.Is(r.Err, storage.ErrCursor) && e.Kind == process.EffectTask {
		return process.EffectResult{BadCursor: true}
	}
	r.Problem = problemOf(r.Err)
	return r
}

// problemOf says what is known of why a storage has failed.
func problemOf(err error) process.Problem {
	switch {
	case err == nil:
		return process.NoProblem
	case errors.Is(err, storage.ErrDataLost):
		return process.HasLost
	case errors.Is(err, storage.ErrFenced):
		return process.IsFenced
	case errors.Is(err, storage.ErrFull):
		return process.IsFull
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ENOENT): // the latter: its socket is not there
		return process.IsGone
	}
	return process.NoProblem
}

func (mm *shardDriver[M]) change(ctx context.Context, e *process.Effect) error {
	if e.CheckExistence {
		if err := setKeyExists(ctx, mm.store, e.Change.Writes); err != nil {
			return err
		}
	}
	if err := mm.store.Apply(ctx, e.Change.Writes, metaOf(e.Change.Meta)...); err != nil {
		return fmt.Errorf("write to storage: %w", err)
	}
	return nil
}

// listKeys lists the keys of the slots that want wants. Without want it lists all keys, also those whose values are
// damaged or were written by somebody else.
func (mm *shardDriver[M]) listKeys(ctx context.Context, want func(topology.Slot) bool) (keys []string, err error) {
	if want == nil {
		for next := ""; ; {
			page, after, err := mm.store.Keys(ctx, next, process.DefaultRemoveKeys)
			if err != nil {
				return nil, err
			}
			if keys = append(keys, page...); after == "" {
				return keys, nil
			}
			next = after
		}
	}
	err = mm.store.Scan(ctx, func(key string, _ causal.Record) error {
		if want(topology.SlotOf(key)) {
			keys = append(keys, key)
		}
		return nil
	})
	if errors.Is(err, storage.ErrForeign) {
		mm.logger.Warn("values that this deployment did not write are not moved, though their slots may be",
			"error", err)
		err = nil
	}
	return keys, err
}

// readMoved reads the records of the first keys, as many as fit into a message, or one. A foreign value is not moved.
func (mm *shardDriver[M]) readMoved(ctx context.Context, keys []string) (records []causal.Moved, err error) {
	answers, err := mm.store.GetMany(ctx, keys, shard.ChunkBytes)
	if err != nil {
		return nil, err
	}
	for i, a := range answers {
		if a.Err == nil {
			records = append(records, causal.Moved{Key: keys[i], Record: a.Record})
		} else {
			records = append(records, causal.Moved{Key: keys[i]})
		}
	}
	return records, nil
}

// setKeyExists sets KeyExists of writes from what a store holds.
func setKeyExists(ctx context.Context, s storage.Store, writes []storage.Write) error {
	keys := make([]string, len(writes))
	for i := range writes {
		keys[i] = writes[i].Key
	}
	exists := make(map[string]bool, len(keys))
	for len(keys) > 0 {
		answers, err := s.GetMany(ctx, keys, maxGroupBytes)
		if err != nil {
			return err
		}
		for i, a := range answers {
			exists[keys[i]] = a.Found || a.Err != nil // a foreign value exists, too
		}
		keys = keys[len(answers):]
	}
	for i := range writes {
		w := &writes[i]
		w.KeyExists = exists[w.Key]
		exists[w.Key] = !w.Delete
	}
	return nil
}

// errScanEnded ends a scan for a middleman that serves no more.
var errScanEnded = errors.New("the middleman serves no more")

// noteTombstones informs the middleman of a generation of the tombstones in the store, of values that merge, and of
// those that expire, so that it drops in time what need not be kept.
func (mm *shardDriver[M]) noteTombstones(id, generation uint64) {
	err := mm.store.Scan(mm.ctx, func(key string, rec causal.Record) error {
		serves := true
		if rec.Value.Tombstone || rec.Value.Merges() || rec.Value.ExpireAtMs != 0 {
			serves = false
			mm.step(func(_ causal.Now, p M) {
				serves = p.NoteTombstone(generation, key, rec)
			})
		}
		if !serves {
			return errScanEnded
		}
		return mm.ctx.Err()
	})
	switch {
	case errors.Is(err, storage.ErrDataLost): // the machine is told
	case err != nil && !errors.Is(err, errScanEnded) && mm.ctx.Err() == nil:
		mm.logger.Warn("could not scan the store for tombstones; those from before stay until the next start",
			"error", err)
	}
	mm.finish(id, process.EffectResult{Err: err, Problem: problemOf(err)})
}
