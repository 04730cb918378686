package redis

import (
	"context"
	"errors"

	"github.com/causalstore/causalstore/sidecar/storage"
)

// DropDamaged removes the records that are not as they were written, because somebody has accepted their loss. It reads
// all records, one after the other, and returns how many it has removed.
func (s *Store) DropDamaged(ctx context.Context) (dropped int64, err error) {
	if err := s.enter(ctx); err != nil {
		return 0, err
	}
	defer s.calls.Leave()
	l := s.link.Load()
	for cursor := uint64(0); ; {
		var names []string
		names, cursor, err = l.reads.Scan(ctx, cursor, "", namesGroup).Result()
		if err := s.callError(ctx, l, "list keys", err); err != nil {
			return dropped, err
		}
		for _, name := range names {
			key, ok := keyOf(name)
			if !ok {
				continue
			}
			_, err := decodeReply(key, l.reads.Get(ctx, name))
			switch {
			case isDamagedRecord(err):
				s.opts.Logger.Error("storage: removed a damaged record, since somebody has accepted that data are lost",
					"key", key, "error", err)
				if err := s.write(ctx, []command{{"UNLINK", name}}); err != nil {
					return dropped, err
				}
				dropped++
			case err != nil:
				return dropped, s.callError(ctx, l, "get", err)
			}
		}
		if cursor == 0 {
			return dropped, nil
		}
	}
}

func isDamagedRecord(err error) bool {
	_, ok := errors.AsType[*storage.DamagedError](err)
	return ok
}
