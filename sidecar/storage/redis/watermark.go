package redis

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/causalstore/causalstore/sidecar/storage"
	"github.com/causalstore/causalstore/sidecar/storage/watermark"
)

// The canary of the last transaction that was acknowledged is also kept in a file of the store. By default, a server
// whose log is without its end, for whatever reason, cuts it off and serves what is left: its canary is then below
// the watermark.

const (
	// watermarkField is the field of metaKey that says that there is a watermark. Names of metadata never begin with
	// a zero byte.
	watermarkField = "\x00watermark"
	// watermarkSyncInterval is how often the watermark is synced at most, so that it survives a power cut.
	watermarkSyncInterval = 10 * time.Second
)

// checkWatermark opens the watermark and compares the canary with it. A server that has none gets one.
func (s *Store) checkWatermark(ctx context.Context, canary uint64) error {
	if s.opts.Watermark == "" {
		return nil
	}
	marked, err := s.link.Load().reads.HExists(ctx, metaKey, watermarkField).Result()
	if err != nil {
		return err
	}
	w, found, err := watermark.Open(vfs.Default, s.opts.Watermark)
	s.watermark = w
	switch {
	case errors.Is(err, watermark.ErrDamaged):
		err = lostError(err)
	case err != nil:
		return err
	case !found && marked:
		err = lostError(fmt.Errorf("%s is gone: it says how far the server was acknowledged", s.opts.Watermark))
	case found && w.IsLost():
		err = lostError(fmt.Errorf("this was found before, says %s", s.opts.Watermark))
	case found && canary < w.Value():
		err = lostError(fmt.Errorf("it has the transactions up to %d, and was acknowledged up to %d", canary,
			w.Value()))
	case found && marked:
		return nil
	}
	if err != nil {
		return err
	}
	return s.beginWatermark(ctx, canary, nil)
}

func lostError(cause error) error { return fmt.Errorf("%w: %w", storage.ErrDataLost, cause) }

// beginWatermark makes a watermark, or replaces it, after a transaction that changes metadata. The server says from
// then on that there is one.
func (s *Store) beginWatermark(ctx context.Context, canary uint64, meta []storage.Meta) error {
	if s.watermark != nil {
		if err := s.watermark.Close(); err != nil {
			return err
		}
		s.watermark = nil
	}
	if meta == nil {
		// nothing is lost: the file comes first, so that a crash in between loses no watermark that the server tells of
		if err := s.createWatermark(canary); err != nil {
			return err
		}
	}
	if err := s.write(ctx, append(metaCommands(meta), command{"HSET", metaKey, watermarkField, 1})); err != nil {
		return err
	}
	if s.watermark == nil {
		return s.createWatermark(s.canary.Load())
	}
	return nil
}

func (s *Store) createWatermark(canary uint64) (err error) {
	s.watermark, err = watermark.Create(vfs.Default, s.opts.Watermark, canary, nil)
	return err
}

// raiseWatermark records that a transaction was acknowledged. The caller holds s.writing.
func (s *Store) raiseWatermark(canary uint64) error {
	if s.watermark == nil {
		return nil
	}
	if err := s.watermark.Raise(canary); err != nil {
		return err
	}
	if now := time.Now(); now.Sub(s.syncedAt) >= watermarkSyncInterval {
		s.syncedAt = now
		return s.watermark.Sync()
	}
	return nil
}

// Renew opens a store that Open has refused with storage.ErrDataLost. What mark returns, which gets the store, is in
// its metadata before the next Open returns no error. What is left in the server stays.
func Renew(ctx context.Context, opts Options, mark func(storage.Store) ([]storage.Meta, error)) (*Store, error) {
	s, canary, err := openLink(ctx, opts)
	if err != nil {
		return nil, err
	}
	meta, err := mark(s)
	if err == nil {
		err = s.renew(ctx, canary, meta)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("renew redis store: %s: %w", s.opts.server(), wrapFull(err)), s.Close())
	}
	return s, nil
}

// renew leaves the watermark as it is until meta are durable.
func (s *Store) renew(ctx context.Context, canary uint64, meta []storage.Meta) error {
	w, found, err := watermark.Open(vfs.Default, s.opts.Watermark)
	if err != nil && !errors.Is(err, watermark.ErrDamaged) {
		return err
	}
	if found && err == nil { // so that no canary comes twice
		if acknowledged, known := w.Acknowledged(); known {
			canary = max(canary, acknowledged)
		}
	}
	s.watermark = w
	s.canary.Store(canary)
	if meta == nil {
		meta = []storage.Meta{}
	}
	return s.beginWatermark(ctx, canary, meta)
}
