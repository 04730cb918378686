package embedded

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/causalstore/causalstore/sidecar/storage"
)

// Apply implements storage.Store. It cannot be cut short once begun: ctx is looked at only before.
func (s *Store) Apply(ctx context.Context, writes []storage.Write) error {
	if err := s.begin(ctx); err != nil {
		return err
	}
	defer s.calls.Leave()
	if len(writes) == 0 {
		return nil
	}
	b := s.db.NewBatch()
	for i := range writes {
		if err := appendWrite(b, &writes[i]); err != nil {
			return errors.Join(fmt.Errorf("apply %d writes: %w", len(writes), err), b.Close())
		}
	}
	if err := s.publish(b, writes); err != nil {
		return fmt.Errorf("apply %d writes: %w", len(writes), err)
	}
	return s.sync(b, "apply")
}

// SetMeta implements storage.Store.
func (s *Store) SetMeta(ctx context.Context, name string, value []byte) error {
	if err := s.begin(ctx); err != nil {
		return err
	}
	defer s.calls.Leave()
	b := s.db.NewBatch()
	op := b.SetDeferred(1+len(name), len(value))
	op.Key[0] = prefixMeta
	copy(op.Key[1:], name)
	copy(op.Value, value)
	if err := op.Finish(); err != nil {
		return errors.Join(fmt.Errorf("set metadata %q: %w", name, err), b.Close())
	}
	if err := s.publish(b, nil); err != nil {
		return fmt.Errorf("set metadata %q: %w", name, err)
	}
	return s.sync(b, "set metadata")
}

// appendWrite encodes w straight into the memory of the batch.
func appendWrite(b *pebble.Batch, w *storage.Write) error {
	if w.Delete {
		op := b.DeleteDeferred(1 + len(w.Key))
		op.Key[0] = prefixData
		copy(op.Key[1:], w.Key)
		return op.Finish()
	}
	size := storage.EncodedLen(w.Record)
	op := b.SetDeferred(1+len(w.Key), size)
	op.Key[0] = prefixData
	copy(op.Key[1:], w.Key)
	storage.AppendRecord(op.Value[:0:size], w.Record)
	return op.Finish()
}

// publish adds the new count of keys to the batch and makes it visible. It does not wait for the disk, so that
// overlapping calls share a sync. On an error the batch is closed.
func (s *Store) publish(b *pebble.Batch, writes []storage.Write) error {
	s.commit.Lock()
	defer s.commit.Unlock()
	added, err := s.added(writes)
	if err != nil {
		return errors.Join(err, b.Close())
	}
	count := s.count.Load() + added
	if added != 0 {
		var buf [binary.MaxVarintLen64]byte
		if err := b.Set(countKey, buf[:binary.PutUvarint(buf[:], uint64(count))], nil); err != nil {
			return errors.Join(err, b.Close())
		}
	}
	if err := s.db.ApplyNoSyncWait(b, pebble.Sync); err != nil {
		return s.fail(err)
	}
	s.count.Store(count)
	return nil
}

// added returns by how much the writes change the number of keys.
func (s *Store) added(writes []storage.Write) (int64, error) {
	var n int64
	if len(writes) > 1 {
		clear(s.known)
	}
	for i := range writes {
		w := &writes[i]
		var exists, known bool
		if len(writes) > 1 {
			exists, known = s.known[w.Key]
		}
		if !known {
			var err error
			if exists, err = s.exists(w.Key); err != nil {
				return 0, err
			}
		}
		switch {
		case w.Delete && exists:
			n--
		case !w.Delete && !exists:
			n++
		}
		if len(writes) > 1 {
			s.known[w.Key] = !w.Delete
		}
	}
	return n, nil
}

func (s *Store) exists(key string) (bool, error) {
	k := lendKey(prefixData, key)
	defer giveBack(k)
	_, closer, err := s.db.Get(*k)
	if errors.Is(err, pebble.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look up %q: %w", key, err)
	}
	return true, closer.Close()
}

// sync waits until the batch is on the disk.
func (s *Store) sync(b *pebble.Batch, verb string) error {
	if err := b.SyncWait(); err != nil {
		return fmt.Errorf("%s: %w", verb, s.fail(err))
	}
	return b.Close()
}

// fail makes the store refuse everything from now on.
func (s *Store) fail(err error) error {
	err = fmt.Errorf("the disk failed, so the store stopped; restart it on a healthy one: %w", err)
	s.failed.CompareAndSwap(nil, &err)
	return err
}
