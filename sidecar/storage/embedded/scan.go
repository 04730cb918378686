package embedded

import (
	"context"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/storage"
)

// Scan implements storage.Store. It visits each key once, in byte order, as of the time at which it started.
func (s *Store) Scan(ctx context.Context, fn func(key string, rec causal.Record) error) (err error) {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.calls.Leave()
	it, err := s.db.NewIterWithContext(ctx, &pebble.IterOptions{LowerBound: []byte{prefixData}, UpperBound: []byte{prefixData + 1}})
	if err != nil {
		return fmt.Errorf("scan: %w", err)
	}
	defer func() {
		if closeErr := it.Close(); err == nil && closeErr != nil {
			err = fmt.Errorf("scan: %w", closeErr)
		}
	}()
	var skipped storage.SkippedError
	for valid := it.First(); valid; valid = it.Next() {
		if err := ctx.Err(); err != nil {
			return err
		}
		value, err := it.ValueAndErr()
		if err != nil {
			return fmt.Errorf("scan: %w", err)
		}
		key := string(it.Key()[1:])
		rec, err := storage.DecodeRecord(key, value)
		if err != nil {
			skipped.Add(key)
			continue
		}
		if err := fn(key, rec); err != nil {
			return err
		}
	}
	if err := it.Error(); err != nil {
		return fmt.Errorf("scan: %w", err)
	}
	return skipped.OrNil()
}
