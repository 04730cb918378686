package redis

import (
	"context"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/storage"
)

// A scan requests scanKeys names at a time, and as many values at a time as add up to about scanBytes.
const (
	scanKeys  = 256
	scanBytes = 4 << 20
)

// Scan implements storage.Store. If the server restarts, it returns storage.ErrRestarted.
func (s *Store) Scan(ctx context.Context, fn func(key string, rec causal.Record) error) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.calls.Leave()
	l := s.link.Load()
	var skipped storage.SkippedError
	var keys []string
	batch := 1
	for cursor := uint64(0); ; {
		names, next, err := l.reads.Scan(ctx, cursor, "", scanKeys).Result()
		if err := s.callError(ctx, l, "scan", err); err != nil {
			return err
		}
		keys = keys[:0]
		for _, name := range names {
			if key, ok := keyOf(name); ok {
				keys = append(keys, key)
			}
		}
		for len(keys) > 0 {
			n := min(batch, len(keys))
			size, err := s.visit(ctx, l, keys[:n], fn, &skipped)
			if err != nil {
				return err
			}
			keys = keys[n:]
			if size > scanBytes {
				batch = max(1, batch/2)
			} else if size < scanBytes/2 {
				batch = min(scanKeys, batch*2)
			}
		}
		if cursor = next; cursor == 0 {
			return skipped.OrNil()
		}
	}
}

// visit fetches the values of some keys and calls fn for each. It returns their total size in bytes.
func (s *Store) visit(ctx context.Context, l *link, keys []string, fn func(string, causal.Record) error, skipped *storage.SkippedError) (int, error) {
	results, err := fetch(ctx, l, keys)
	if err := s.callError(ctx, l, "scan", err); err != nil {
		return 0, err
	}
	size := 0
	for i, r := range results {
		switch {
		case r.Err != nil:
			skipped.Add(keys[i])
		case r.Found:
			size += len(r.Record.Value.Data)
			if err := ctx.Err(); err != nil {
				return 0, err
			}
			if err := fn(keys[i], r.Record); err != nil {
				return 0, err
			}
		}
	}
	return size, nil
}
