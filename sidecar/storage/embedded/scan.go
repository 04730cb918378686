package embedded

import (
	"context"
	"errors"

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
	defer s.recoverDamage(&err)
	it, err := s.db.NewIterWithContext(ctx, &pebble.IterOptions{LowerBound: []byte{prefixData},
		UpperBound: []byte{prefixData + 1}})
	if err != nil {
		return s.readError("scan", err)
	}
	defer func() {
		if closeErr := it.Close(); err == nil && closeErr != nil {
			err = s.readError("scan", closeErr)
		}
	}()
	var skipped storage.SkippedError
	for valid := it.First(); valid; valid = it.Next() {
		if err := ctx.Err(); err != nil {
			return err
		}
		value, err := it.ValueAndErr()
		if err != nil {
			return s.readError("scan", err)
		}
		key := string(it.Key()[1:])
		rec, err := s.decode(key, value)
		switch {
		case errors.Is(err, storage.ErrDataLost):
			return err
		case err != nil:
			skipped.Add(key)
			continue
		}
		if err := fn(key, rec); err != nil {
			return err
		}
	}
	if err := it.Error(); err != nil {
		return s.readError("scan", err)
	}
	return skipped.OrNil()
}
