package redis

import (
	"context"

	"github.com/causalstore/causalstore/sidecar/storage"
)

// clearKeys is about how many keys one transaction of Clear removes.
const clearKeys = 1000

// Clear implements storage.Store. It removes the keys by their names and not with FLUSHDB, which would remove the fence
// too, and which many servers do not allow.
func (s *Store) Clear(ctx context.Context, meta ...storage.Meta) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.calls.Leave()
	if err := s.write(ctx, metaCommands(meta)); err != nil {
		return err
	}
	l := s.link.Load()
	for cursor := uint64(0); ; {
		names, next, err := l.reads.Scan(ctx, cursor, "", clearKeys).Result()
		if err := s.callError(ctx, l, "clear", err); err != nil {
			return err // also if the server has restarted: the cursor means nothing to it
		}
		unlink := command{"UNLINK"}
		for _, name := range names {
			if _, ok := keyOf(name); ok {
				unlink = append(unlink, name)
			}
		}
		if len(unlink) > 1 {
			if err := s.write(ctx, []command{unlink}); err != nil {
				return err
			}
		}
		if cursor = next; cursor == 0 {
			return nil
		}
	}
}
