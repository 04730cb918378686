package redis

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	goredis "github.com/redis/go-redis/v9"

	"github.com/causalstore/causalstore/sidecar/storage"
)

// The canary tells whether the server still has what it acknowledged. Every transaction counts it up, in a field of the
// metadata. If it is gone, or lower than the last that was acknowledged, then the server was emptied or came back with
// older data, and what it answers is worth nothing. Eviction may spare the canary, so the server's own count of evicted
// keys is watched as well.
//
// Only a key that is missing can be a wrong answer, so that is when a read checks, in one more round trip; Ping and
// every new connection to another incarnation of the server check too.

// canaryField is the field of metaKey that holds the canary. Names of metadata never begin with a zero byte.
const canaryField = "\x00canary"

// advanceCanary returns the command that counts the canary up, and its new value. The caller holds s.writing.
func (s *Store) advanceCanary() (command, uint64) {
	next := s.canary.Load() + 1
	return command{"HSET", metaKey, canaryField, next}, next
}

// readCanary reads the canary and the count of evicted keys. A canary that is missing counts as 0.
func readCanary(ctx context.Context, c goredis.Cmdable) (canary, evicted uint64, err error) {
	pipe := c.Pipeline()
	value, stats := pipe.HGet(ctx, metaKey, canaryField), pipe.Info(ctx, "stats")
	if err := pipelineError(pipe.Exec(ctx)); err != nil {
		return 0, 0, err
	}
	switch canary, err = value.Uint64(); {
	case errors.Is(err, goredis.Nil):
	case errors.Is(err, strconv.ErrSyntax), err != nil && strings.HasPrefix(err.Error(), "WRONGTYPE "):
		// somebody has overwritten it
		canary = 0
	case err != nil:
		return 0, 0, err
	}
	if err := stats.Err(); err != nil {
		return 0, 0, err
	}
	info := make(map[string]string)
	parseInfo(stats.Val(), info)
	evicted, err = strconv.ParseUint(info["evicted_keys"], 10, 64)
	if err != nil {
		return 0, 0,
			fmt.Errorf("its INFO has no evicted_keys, so lost data could not be detected; use a stock Redis: %w", err)
	}
	return canary, evicted, nil
}

// checkCanary returns errDataLost if the server of a link does not have what was acknowledged before the call.
func (s *Store) checkCanary(ctx context.Context, l *link) error {
	want := s.canary.Load()
	canary, evicted, err := readCanary(ctx, l.reads)
	switch {
	case err != nil:
		return err
	case canary < want:
		return fmt.Errorf("%w: it has the transactions up to %d of %d", errDataLost, canary, want)
	case evicted > l.evicted:
		return fmt.Errorf("%w: it has evicted %d keys; set maxmemory-policy noeviction", errDataLost, evicted-l.evicted)
	}
	return nil
}

// markLost makes the next Open refuse what is in the server.
func (s *Store) markLost() {
	if s.watermark == nil {
		return
	}
	if err := s.watermark.MarkLost(); err != nil {
		s.opts.Logger.Error("storage: cannot record that the server has lost data", "error", err)
	}
}

// noteLost makes the store refuse all further calls but Meta, SetMeta and Close.
func (s *Store) noteLost(err error) error {
	if !s.lost.Swap(true) {
		s.markLost()
		s.opts.Logger.Error("storage: the server has lost acknowledged data; nothing is read from it any more",
			"server", s.opts.server(), "error", err)
	}
	return fmt.Errorf("%w: %s: %w", storage.ErrDataLost, s.opts.server(), err)
}
