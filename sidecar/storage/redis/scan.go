package redis

import (
	"context"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/storage"
)

// A scan requests scanKeys names at a time, and values of about scanBytes.
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
			n, err := s.visit(ctx, l, keys, fn, &skipped)
			if err != nil {
				return err
			}
			keys = keys[n:]
		}
		if cursor = next; cursor == 0 {
			s.sizes.noteScanned()
			return skipped.OrNil()
		}
	}
}

// visit fetches the values of the first keys and calls fn for each. It returns how many they are.
func (s *Store) visit(ctx context.Context, l *link, keys []string, fn func(string, causal.Record) error,
	skipped *storage.SkippedError) (int, error) {
	results, err := s.fetch(ctx, l, keys, scanBytes)
	if err := s.callError(ctx, l, "scan", err); err != nil {
		return 0, err
	}
	for i, r := range results {
		switch {
		case r.Err != nil:
			skipped.Add(keys[i])
		case r.Found:
			if err := ctx.Err(); err != nil {
				return 0, err
			}
			if err := fn(keys[i], r.Record); err != nil {
				return 0, err
			}
		}
	}
	return len(results), nil
}
