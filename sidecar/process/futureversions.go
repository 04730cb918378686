package process

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/storage"
)

// maxDropped bounds the keys that one call to the store removes.
const maxDropped = 1000

// dropFutureVersions removes the values from a store whose timestamps are further ahead of the clock than a part
// believes (causal.MaxAheadMs). No write could replace such a value, and nobody can read it. The middleman does not
// serve yet, so for everybody else the value was never there.
func (p *process) dropFutureVersions(ctx context.Context, s storage.Store, ofMember bool) error {
	if ofMember { // its log and the other members do not hear of it
		return errors.New(
			"--drop-future-versions would change one of several copies of the data, and cannot repair a shard with " +
				"members: restart without it, and copy the data to a new store if the clock does not reach those " +
				"timestamps soon")
	}
	limit := causal.HLCAt(time.Now().UnixMilli() + causal.MaxAheadMs)
	for dropped := 0; ; {
		var future []storage.Write
		err := s.Scan(ctx, func(key string, rec causal.Record) error {
			if rec.Version.HLC > limit && len(future) < maxDropped {
				p.log.Warn("dropping a value with a timestamp from the future; write the key again", "key", key,
					"version", rec.Version)
				future = append(future, storage.Write{Key: key, Delete: true, KeyExists: true})
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("look for timestamps from the future: %w", err)
		}
		if len(future) == 0 {
			p.log.Info("dropped values with timestamps from the future", "keys", dropped)
			return nil
		}
		if err := s.Apply(ctx, future); err != nil {
			return fmt.Errorf("drop values with timestamps from the future: %w", err)
		}
		dropped += len(future)
	}
}
