package embedded

import (
	"context"

	"github.com/cockroachdb/pebble/v2"

	"github.com/causalstore/causalstore/sidecar/storage"
)

// Keys implements storage.Store. It names keys in byte order; where it continues is the least key that may come next.
func (s *Store) Keys(ctx context.Context, after string, limit int) (keys []string, next string, err error) {
	if err := s.enter(ctx); err != nil {
		return nil, "", err
	}
	defer s.calls.Leave()
	defer s.recoverDamage(&err)
	it, err := s.db.NewIterWithContext(ctx, &pebble.IterOptions{LowerBound: append([]byte{prefixData}, after...),
		UpperBound: []byte{prefixData + 1}})
	if err != nil {
		return nil, "", s.readError("list keys", err)
	}
	defer func() {
		if closeErr := it.Close(); err == nil && closeErr != nil {
			err = s.readError("list keys", closeErr)
		}
	}()
	bytes := 0
	for valid := it.First(); valid; valid = it.Next() {
		key := string(it.Key()[1:])
		keys = append(keys, key)
		if bytes += len(key); len(keys) >= limit || bytes > storage.MaxNamesBytes {
			return keys, key + "\x00", nil
		}
	}
	if err := it.Error(); err != nil {
		return nil, "", s.readError("list keys", err)
	}
	return keys, "", nil
}
