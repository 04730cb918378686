// Package embedded is a storage engine inside the process: Pebble, an LSM tree with a write-ahead log, in one
// directory.
//
// Apply is one Pebble batch: atomic, and synced to the disk before it returns. Apply does not read: Len is the number
// of keys according to Write.KeyExists, and is committed in the same batch as the keys.
//
// Each batch has a number, which it writes to the store, and which goes to the watermark beside it once the batch is
// durable. So a store that has lost the end of Pebble's log is told from one that a crash has interrupted. Open refuses
// it with storage.ErrDataLost, and so it does if anything else is not as it was written. Renew begins again with an
// empty one.
package embedded

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/gate"
	"github.com/causalstore/causalstore/sidecar/storage"
	"github.com/causalstore/causalstore/sidecar/storage/watermark"
)

// Store implements storage.Store.
type Store struct {
	dir    string
	db     *pebble.DB
	lock   *pebble.Lock
	disk   *fullDisk
	ledger *ledger
	calls  *gate.Gate
	// failed is the error of the first commit that failed. Visible data may not be durable from then on, so the store
	// refuses all calls.
	failed atomic.Pointer[error]

	lost      lossNote
	watermark atomic.Pointer[watermark.File]
	rotated   atomic.Bool // Pebble has begun another log since the watermark was synced

	publishing sync.Mutex   // held from a change of count or sequence until the batch that holds it is visible
	count      atomic.Int64 // written with publishing held
	sequence   uint64       // of the last batch; guarded by publishing
	// acknowledged is the greatest number of a batch that is durable. The watermark is behind while the disk is full.
	acknowledged atomic.Uint64
}

var _ storage.Store = (*Store)(nil)

// Position implements storage.Store.
func (s *Store) Position() causal.Position { return causal.Position{Changes: s.acknowledged.Load()} }

// readNumber returns a number that the store keeps of itself; false if there is none.
func (s *Store) readNumber(key []byte) (n uint64, found bool, err error) {
	b, closer, err := s.db.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, s.readError("read a number of the store", err)
	}
	defer closer.Close()
	n, err = decodeNumber(b)
	return n, err == nil, err
}

// enter must be called before db is used. If it returns nil, calls.Leave must follow.
func (s *Store) enter(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if !s.calls.Enter() {
		return storage.ErrClosed
	}
	err := s.lost.get()
	if failed := s.failed.Load(); err == nil && failed != nil {
		err = *failed
	}
	if err != nil {
		s.calls.Leave()
	}
	return err
}

// Get implements storage.Store.
func (s *Store) Get(ctx context.Context, key string) (causal.Record, bool, error) {
	if err := s.enter(ctx); err != nil {
		return causal.Record{}, false, err
	}
	defer s.calls.Leave()
	return s.get(key)
}

func (s *Store) get(key string) (causal.Record, bool, error) {
	b, found, err := s.read(prefixData, key)
	if err != nil || !found {
		return causal.Record{}, false, err
	}
	rec, err := s.decode(key, b)
	return rec, err == nil, err
}

// decode decodes a record, and takes note if it is damaged.
func (s *Store) decode(key string, b []byte) (causal.Record, error) {
	rec, err := storage.DecodeRecord(key, b)
	if errors.Is(err, storage.ErrDataLost) {
		return rec, s.noteLost(err)
	}
	return rec, err
}

// read returns a copy of a value: Pebble reuses the memory of the original.
func (s *Store) read(prefix byte, name string) (value []byte, found bool, err error) {
	defer s.recoverDamage(&err)
	k := borrowKey(prefix, name)
	defer returnKey(k)
	b, closer, err := s.db.Get(*k)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, s.readError(fmt.Sprintf("get %.100q", name), err)
	}
	value = make([]byte, len(b))
	copy(value, b)
	return value, true, closer.Close()
}

// GetMany implements storage.Store.
func (s *Store) GetMany(ctx context.Context, keys []string, maxBytes int) ([]storage.Result, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.calls.Leave()
	results := make([]storage.Result, 0, len(keys))
	for bytes := 0; len(results) < len(keys) && (len(results) == 0 || bytes < maxBytes); {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		var r storage.Result
		r.Record, r.Found, r.Err = s.get(keys[len(results)])
		if r.Err != nil && !errors.Is(r.Err, storage.ErrForeign) {
			return nil, r.Err
		}
		bytes += r.Size()
		results = append(results, r)
	}
	return results, nil
}

// Meta implements storage.Store.
func (s *Store) Meta(ctx context.Context, name string) ([]byte, bool, error) {
	if err := s.enter(ctx); err != nil {
		return nil, false, err
	}
	defer s.calls.Leave()
	return s.read(prefixMeta, name)
}

// Len implements storage.Store. It is exact if the KeyExists of every write was right.
func (s *Store) Len(ctx context.Context) (int64, error) {
	if err := s.enter(ctx); err != nil {
		return 0, err
	}
	defer s.calls.Leave()
	return s.count.Load(), nil
}

// Ping implements storage.Store. It returns storage.ErrFull while writes wait because the disk is full.
func (s *Store) Ping(ctx context.Context) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	s.calls.Leave()
	return s.disk.problem()
}

// Close implements storage.Store.
func (s *Store) Close() error {
	if !s.calls.Close() {
		return nil
	}
	if err := errors.Join(s.db.Close(), s.closeFiles()); err != nil {
		return fmt.Errorf("close store: %w", err)
	}
	return nil
}
