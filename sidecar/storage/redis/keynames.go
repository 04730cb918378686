package redis

import (
	"context"
	"strconv"
	"strings"

	"github.com/causalstore/causalstore/sidecar/storage"
)

// namesGroup is how many names are requested at a time for Keys.
const namesGroup = 100

// Keys implements storage.Store. Where it continues is the server's cursor, which means something in this incarnation
// of the server only.
func (s *Store) Keys(ctx context.Context, after string, limit int) (keys []string, next string, err error) {
	if err := s.enter(ctx); err != nil {
		return nil, "", err
	}
	defer s.calls.Leave()
	l := s.link.Load()
	cursor := uint64(0)
	if after != "" {
		runID, text, _ := strings.Cut(after, " ")
		if cursor, err = strconv.ParseUint(text, 10, 64); err != nil || runID != l.runID {
			return nil, "", storage.ErrCursor
		}
	}
	for bytes := 0; ; {
		var names []string
		names, cursor, err = l.reads.Scan(ctx, cursor, "", int64(min(limit, namesGroup))).Result()
		if err := s.callError(ctx, l, "list keys", err); err != nil {
			return nil, "", err
		}
		for _, name := range names {
			if key, ok := keyOf(name); ok {
				keys = append(keys, key)
				bytes += len(key)
			}
		}
		switch {
		case cursor == 0:
			return keys, "", nil
		case len(keys) >= limit || bytes > storage.MaxNamesBytes:
			return keys, l.runID + " " + strconv.FormatUint(cursor, 10), nil
		}
	}
}
