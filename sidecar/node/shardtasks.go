package node

import (
	"context"
	"fmt"

	"github.com/causalstore/causalstore/sidecar/causal/member"
	"github.com/causalstore/causalstore/sidecar/causal/process"
	"github.com/causalstore/causalstore/sidecar/storage"
)

// metaApplied is the name of the metadata that say which changes of the log the storage beside a member has: a
// member.Applied.
const metaApplied = "applied"

func markerMeta(a member.Applied) storage.Meta {
	return storage.Meta{Name: metaApplied, Value: a.AppendTo(nil)}
}

// readApplied reads what a storage says about itself, and whether it is empty.
func readApplied(ctx context.Context, s storage.Store) (found member.Applied, empty bool, err error) {
	b, marked, err := s.Meta(ctx, metaApplied)
	if err == nil && marked {
		found, err = member.ParseApplied(b)
	}
	if err != nil {
		return found, false, fmt.Errorf("read %s from storage: %w", metaApplied, err)
	}
	meta, err := readMiddlemanMeta(ctx, s)
	if err != nil {
		return found, false, err
	}
	keys, _, err := s.Keys(ctx, "", 1)
	if err != nil {
		return found, false, fmt.Errorf("look whether the storage is empty: %w", err)
	}
	n, err := s.Len(ctx) // a page of keys may be empty though there are more
	if err != nil {
		return found, false, fmt.Errorf("look whether the storage is empty: %w", err)
	}
	return found, len(keys) == 0 && n == 0 && len(meta) == 0, nil
}

// readMiddlemanMeta reads all metadata of the middleman.
func readMiddlemanMeta(ctx context.Context, s storage.Store) (meta []member.Meta, err error) {
	for _, name := range process.MarkNames {
		value, found, err := s.Meta(ctx, name)
		if err != nil {
			return nil, fmt.Errorf("read %s from storage: %w", name, err)
		}
		if found {
			meta = append(meta, member.Meta{Name: name, Value: value})
		}
	}
	return meta, nil
}

// runTasks carries out what a member asks of the storage, one task after the other. With a member it is the only place
// that changes the storage, but for the note that it has lost data.
func (mm *shardDriver[M]) runTasks() {
	for {
		e, ok := mm.nextTask()
		if !ok {
			return
		}
		r := mm.carryOut(mm.ctx, &e)
		if mm.health.noteWrite(r.Err); r.Err != nil { // the machine repeats it after a pause
			mm.noteFailures(1, r.Err)
		}
		mm.finish(e.ID, r)
		mm.taskEnded()
	}
}

// nextTask waits for a task. It returns false when there are no more.
func (mm *shardDriver[M]) nextTask() (e process.Effect, ok bool) {
	mm.mu.Lock()
	defer mm.mu.Unlock()
	q := &mm.tasks
	for (len(q.effects) == 0 || mm.suspended) && !mm.closing {
		q.nonEmpty.Wait()
	}
	if mm.closing {
		return e, false
	}
	e = q.effects[0] // there is one at a time
	clear(q.effects)
	q.effects, mm.busy = q.effects[:0], true
	return e, true
}

func (mm *shardDriver[M]) taskEnded() {
	mm.mu.Lock()
	mm.busy = false
	mm.tasks.nonEmpty.Broadcast()
	mm.mu.Unlock()
}

// suspendTasks waits until no task is being carried out, and lets none begin. One that has not begun is forgotten: the
// machine that has asked for it is about to be replaced.
func (mm *shardDriver[M]) suspendTasks() (resume func()) {
	mm.mu.Lock()
	defer mm.mu.Unlock()
	mm.suspended = true
	for mm.busy {
		mm.tasks.nonEmpty.Wait()
	}
	mm.tasks.effects = nil
	return func() {
		mm.mu.Lock()
		mm.suspended = false
		mm.tasks.nonEmpty.Broadcast()
		mm.mu.Unlock()
	}
}

// carryOutTask carries out a task of a member.
func (mm *shardDriver[M]) carryOutTask(ctx context.Context, t *member.StorageTask) (r process.EffectResult) {
	switch t.Kind {
	case member.TaskApply:
		r.Err = mm.applyChanges(ctx, t)
	case member.TaskClear:
		r.Err = mm.clearStorage(t.Marker)
	case member.TaskRead:
		r = mm.readPage(ctx, t)
	case member.TaskWrite:
		r.Err = mm.writeCopy(ctx, t)
	}
	return r
}

func (mm *shardDriver[M]) applyChanges(ctx context.Context, t *member.StorageTask) error {
	n := 0
	for i := range t.Changes {
		n += len(t.Changes[i].Writes)
	}
	writes, meta := make([]storage.Write, 0, n), []storage.Meta(nil)
	for i := range t.Changes {
		writes = append(writes, t.Changes[i].Writes...)
		meta = append(meta, metaOf(t.Changes[i].Meta)...)
	}
	if t.CheckExistence {
		if err := setKeyExists(ctx, mm.store, writes); err != nil {
			return err
		}
	}
	return mm.store.Apply(ctx, writes, append(meta, markerMeta(t.Marker))...)
}

// clearStorage may take long: there may be many keys.
func (mm *shardDriver[M]) clearStorage(marker member.Applied) error {
	meta := []storage.Meta{markerMeta(marker)}
	for _, name := range process.MarkNames {
		meta = append(meta, storage.Meta{Name: name, Delete: true})
	}
	return mm.store.Clear(mm.ctx, meta...)
}

// writeCopy writes a part of another storage.
func (mm *shardDriver[M]) writeCopy(ctx context.Context, t *member.StorageTask) error {
	writes := make([]storage.Write, len(t.Records))
	for i, r := range t.Records {
		writes[i] = storage.Write{Key: r.Key, Record: r.Record}
	}
	if err := setKeyExists(ctx, mm.store, writes); err != nil {
		return err
	}
	return mm.store.Apply(ctx, writes, append(metaOf(t.Meta), markerMeta(t.Marker))...)
}
