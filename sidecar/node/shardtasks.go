package node

import (
	"context"
	"errors"
	"fmt"

	"github.com/causalstore/causalstore/sidecar/causal"
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

// runTasks carries out what the machine asks of the storage, one after the other. It is the only place that changes the
// storage.
func (sm *ShardMember) runTasks() {
	for {
		t, life, ok := sm.nextTask()
		if !ok {
			return
		}
		sm.health.beginTask(t.Kind == member.TaskApply)
		r := sm.carryOut(t)
		sm.health.endTask(r.Err)
		if r.Err != nil { // the machine repeats it after a pause
			sm.health.disk.noteFailures(1, r.Err)
		}
		sm.updateHealth()
		sm.step(func(now causal.Now, m *member.Storage) {
			if sm.life == life {
				m.TaskDone(now, t.ID, r)
			}
		})
		sm.taskEnded()
	}
}

// nextTask waits for a task. It returns false when there are no more.
func (sm *ShardMember) nextTask() (t member.StorageTask, life int, ok bool) {
	sm.mu.Lock()
	defer sm.mu.Unlock()
	for (len(sm.tasks) == 0 || sm.suspended) && !sm.ending {
		sm.hasTasks.Wait()
	}
	if sm.ending {
		return t, 0, false
	}
	t = sm.tasks[0]
	sm.tasks = append(sm.tasks[:0], sm.tasks[1:]...)
	sm.busy = true
	return t, sm.life, true
}

func (sm *ShardMember) taskEnded() {
	sm.mu.Lock()
	sm.busy = false
	sm.hasTasks.Broadcast()
	sm.mu.Unlock()
}

// suspendTasks waits until no task is being carried out, and lets none begin.
func (sm *ShardMember) suspendTasks() (resume func()) {
	sm.mu.Lock()
	defer sm.mu.Unlock()
	sm.suspended = true
	for sm.busy {
		sm.hasTasks.Wait()
	}
	return func() {
		sm.mu.Lock()
		sm.suspended = false
		sm.hasTasks.Broadcast()
		sm.mu.Unlock()
	}
}

// carryOut carries a task out.
func (sm *ShardMember) carryOut(t member.StorageTask) (r member.StorageTaskResult) {
	ctx, cancel := context.WithTimeout(sm.ctx, storageTimeout)
	defer cancel()
	switch t.Kind {
	case member.TaskApply:
		r.Err = sm.applyChanges(ctx, t)
	case member.TaskClear:
		r.Err = sm.clearStorage(t.Marker)
	case member.TaskRead:
		r = sm.readPage(ctx, t)
	case member.TaskWrite:
		r.Err = sm.writeCopy(ctx, t)
	}
	if errors.Is(r.Err, storage.ErrCursor) {
		return member.StorageTaskResult{BadCursor: true}
	}
	r.Err = sm.noteLoss(r.Err)
	return r
}

func (sm *ShardMember) applyChanges(ctx context.Context, t member.StorageTask) error {
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
		if err := setKeyExists(ctx, sm.local, writes); err != nil {
			return err
		}
	}
	return sm.local.Apply(ctx, writes, append(meta, markerMeta(t.Marker))...)
}

// clearStorage may take long: there may be many keys.
func (sm *ShardMember) clearStorage(marker member.Applied) error {
	meta := []storage.Meta{markerMeta(marker)}
	for _, name := range process.MarkNames {
		meta = append(meta, storage.Meta{Name: name, Delete: true})
	}
	return sm.local.Clear(sm.ctx, meta...)
}

// writeCopy writes a part of another storage.
func (sm *ShardMember) writeCopy(ctx context.Context, t member.StorageTask) error {
	writes := make([]storage.Write, len(t.Records))
	for i, r := range t.Records {
		writes[i] = storage.Write{Key: r.Key, Record: r.Record}
	}
	if err := setKeyExists(ctx, sm.local, writes); err != nil {
		return err
	}
	return sm.local.Apply(ctx, writes, append(metaOf(t.Meta), markerMeta(t.Marker))...)
}

// noteLoss reports it if the storage has lost what it had acknowledged: this member stops, and its next start finds
// that the storage is worth nothing and gets a copy of another one. To the middleman it is an error as any other: the
// group has lost nothing.
func (sm *ShardMember) noteLoss(err error) error {
	if !errors.Is(err, storage.ErrDataLost) {
		return err
	}
	sm.lost.Do(func() {
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), storageTimeout)
			defer cancel()
			cause := fmt.Errorf(
				"the storage of this member has lost data, and is copied from another member when this one starts "+
					"again: %w", err)
			var marker member.Applied
			sm.host.Inspect(func(m *member.Storage) { marker = m.Applied() })
			if marker.Volume != 0 {
				marker = member.Applied{Group: marker.Group, Volume: marker.Volume, Copying: true}
				// A store that takes nothing any more says itself, when it is opened, that it has lost data.
				if err := sm.local.SetMeta(ctx, metaApplied, marker.AppendTo(nil)); err != nil &&
					!errors.Is(err, storage.ErrDataLost) {
					cause = errors.Join(cause, err)
				}
			}
			sm.fail(cause)
		}()
	})
	return errors.New("the storage of this member is unusable: " + err.Error()) // no storage.ErrDataLost
}
