// Package embedded is a storage engine inside the process: Pebble, an LSM tree with a write-ahead log, in one directory.
//
// Apply is one Pebble batch: atomic, and synced to the disk before it returns. Apply does not read: Len is the number of
// keys according to Write.KeyExists, and is committed in the same batch as the keys.
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
)

// Store implements storage.Store.
type Store struct {
	db    *pebble.DB
	disk  *fullDisk
	calls *gate.Gate
	// failed is the error of the first commit that failed. Visible data may not be durable from then on, so the store
	// refuses all calls.
	failed atomic.Pointer[error]

	counting sync.Mutex   // held from a change of count until the batch that holds it is visible
	count    atomic.Int64 // written with counting held
}

var _ storage.Store = (*Store)(nil)

// Open opens the store in dir, and creates it if there is none.
func Open(dir string, opts Options) (*Store, error) {
	disk := newFullDisk(opts)
	opts.FS = disk
	db, err := pebble.Open(dir, opts.pebble())
	if err != nil {
		return nil, wrapFull(explainOpenError(dir, opts.FS, err))
	}
	s := &Store{db: db, disk: disk, calls: gate.New()}
	n, err := s.readCount()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open store in %s: %w", dir, err), db.Close())
	}
	s.count.Store(n)
	return s, nil
}

func (s *Store) readCount() (int64, error) {
	b, closer, err := s.db.Get(countKey)
	if errors.Is(err, pebble.ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read the key count: %w", err)
	}
	defer closer.Close()
	return decodeCount(b)
}

// enter must be called before db is used. If it returns nil, calls.Leave must follow.
func (s *Store) enter(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if !s.calls.Enter() {
		return storage.ErrClosed
	}
	if err := s.failed.Load(); err != nil {
		s.calls.Leave()
		return *err
	}
	return nil
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
	rec, err := storage.DecodeRecord(key, b)
	return rec, err == nil, err
}

// read returns a copy of a value: Pebble reuses the memory of the original.
func (s *Store) read(prefix byte, name string) ([]byte, bool, error) {
	k := borrowKey(prefix, name)
	defer returnKey(k)
	b, closer, err := s.db.Get(*k)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("get %q: %w", name, err)
	}
	value := make([]byte, len(b))
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
	if err := s.db.Close(); err != nil {
		return fmt.Errorf("close store: %w", err)
	}
	return nil
}
