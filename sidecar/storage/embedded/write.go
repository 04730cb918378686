package embedded

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/causalstore/causalstore/sidecar/storage"
)

// Apply implements storage.Store. ctx is checked only at the start: a write that has begun is completed.
func (s *Store) Apply(ctx context.Context, writes []storage.Write, meta ...storage.Meta) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.calls.Leave()
	if len(writes)+len(meta) == 0 {
		return nil
	}
	b := s.db.NewBatch()
	added, err := appendChanges(b, writes, meta)
	if err != nil {
		return errors.Join(fmt.Errorf("apply %d writes: %w", len(writes), err), b.Close())
	}
	if err := s.commit(b, added); err != nil {
		return fmt.Errorf("apply %d writes: %w", len(writes), err)
	}
	return nil
}

// SetMeta implements storage.Store.
func (s *Store) SetMeta(ctx context.Context, name string, value []byte) error {
	return s.Apply(ctx, nil, storage.Meta{Name: name, Value: value})
}

// Clear implements storage.Store. It is atomic.
func (s *Store) Clear(ctx context.Context, meta ...storage.Meta) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.calls.Leave()
	b := s.db.NewBatch()
	_, err := appendChanges(b, nil, meta)
	if err == nil {
		err = b.DeleteRange([]byte{prefixData}, []byte{prefixData + 1}, nil)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("clear: %w", err), b.Close())
	}
	if err := s.commit(b, -s.count.Load()); err != nil {
		return fmt.Errorf("clear: %w", err)
	}
	return nil
}

// appendChanges adds changes to a batch. It returns by how much they change the number of keys.
func appendChanges(b *pebble.Batch, writes []storage.Write, meta []storage.Meta) (added int64, err error) {
	for i := range writes {
		w := &writes[i]
		if err := appendWrite(b, w); err != nil {
			return 0, err
		}
		switch {
		case w.Delete && w.KeyExists:
			added--
		case !w.Delete && !w.KeyExists:
			added++
		}
	}
	for i := range meta {
		if err := appendMeta(b, &meta[i]); err != nil {
			return 0, err
		}
	}
	return added, nil
}

func appendMeta(b *pebble.Batch, m *storage.Meta) error {
	name := append([]byte{prefixMeta}, m.Name...)
	if m.Delete {
		return b.Delete(name, nil)
	}
	return b.Set(name, m.Value, nil)
}

// appendWrite encodes w directly into the memory of the batch.
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
	storage.AppendRecord(op.Value[:0:size], w.Key, w.Record)
	return op.Finish()
}

// commit makes the batch visible and durable, and closes it. added is by how much it changes the number of keys.
func (s *Store) commit(b *pebble.Batch, added int64) error {
	sequence, err := s.publish(b, added)
	if err != nil {
		return err
	}
	if err := b.SyncWait(); err != nil {
		return s.fail(err)
	}
	if err := s.acknowledge(sequence); err != nil {
		return s.fail(errors.Join(err, b.Close()))
	}
	return b.Close()
}

// publish makes the batch visible, with its number, and with the new number of keys in it if that changes. It does not
// wait for the disk, so the lock that orders changes of the numbers is not held during a sync. Pebble's log has the
// batches in the order of their numbers: if one is durable, all before it are.
func (s *Store) publish(b *pebble.Batch, added int64) (sequence uint64, err error) {
	s.publishing.Lock()
	defer s.publishing.Unlock()
	var buf [binary.MaxVarintLen64]byte
	if added != 0 {
		count := max(0, s.count.Load()+added)
		if err := b.Set(countKey, buf[:binary.PutUvarint(buf[:], uint64(count))], nil); err != nil {
			return 0, errors.Join(err, b.Close())
		}
		s.count.Store(count) // if the commit fails, the store is never read again
	}
	s.sequence++
	if err := b.Set(sequenceKey, buf[:binary.PutUvarint(buf[:], s.sequence)], nil); err != nil {
		return 0, s.fail(errors.Join(err, b.Close()))
	}
	if err := s.db.ApplyNoSyncWait(b, pebble.Sync); err != nil {
		return 0, s.fail(err)
	}
	return s.sequence, nil
}

// acknowledge raises the watermark to the number of a batch that is durable. When Pebble has begun another log, the
// watermark is made durable as well: then a power cut, too, leaves one that covers all logs but the last one.
func (s *Store) acknowledge(sequence uint64) error {
	for {
		before := s.acknowledged.Load()
		if before >= sequence || s.acknowledged.CompareAndSwap(before, sequence) {
			break
		}
	}
	w := s.watermark.Load()
	if err := w.Raise(sequence); err != nil {
		return err
	}
	if s.rotated.Swap(false) {
		return w.Sync()
	}
	return nil
}

// fail makes the store refuse all further calls.
func (s *Store) fail(err error) error {
	if lost := s.lost.get(); lost != nil {
		return lost
	}
	err = fmt.Errorf("the disk failed, so the store stopped; check the disk and restart the process: %w", err)
	s.failed.CompareAndSwap(nil, &err)
	return err
}
