// Package redis is a storage engine on any stock Redis (or Valkey) server, version 6.2 or newer.
//
// Apply is one MULTI/EXEC transaction: it is atomic, and the server has synced it to its append-only file before Apply
// returns. Transactions run one after another; whoever has several writes passes them to one Apply. Open refuses a
// server whose settings allow it to lose or evict what it acknowledged, and so does every reconnection.
//
// Only one Store can write to a server's database: a second Open takes over, and the first store then returns
// storage.ErrFenced. If the server restarts or fails over, one call returns storage.ErrRestarted. If it loses data, or
// a value is not as it was written, all do that with storage.ErrDataLost, and so does Open, if there is a watermark.
// Renew ends that. Len is DBSIZE minus the store's own names: exact as long as nobody else writes there.
package redis

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/gate"
	"github.com/causalstore/causalstore/sidecar/storage"
	"github.com/causalstore/causalstore/sidecar/storage/watermark"
)

// Store implements storage.Store.
type Store struct {
	opts  Options
	owner string // the prefix of every token that this store writes to the fence
	calls *gate.Gate

	link         atomic.Pointer[link]
	reconnecting sync.Mutex // held while link is replaced
	fenced       atomic.Bool
	lost         atomic.Bool
	canary       atomic.Uint64   // of the last transaction that was acknowledged
	watermark    *watermark.File // of the canary; nil if there is none
	syncedAt     time.Time       // when the watermark was synced last; used by who is writing
	writing      chan struct{}   // has a token while a transaction runs
	sizes        sizes
}

var _ storage.Store = (*Store)(nil)

// Open connects to the server and takes over its database from any earlier Store. If the server is without something
// that it had acknowledged, the error is storage.ErrDataLost.
func Open(ctx context.Context, opts Options) (*Store, error) {
	s, found, err := openLink(ctx, opts)
	if err != nil {
		return nil, err
	}
	if err := s.checkWatermark(ctx, found); err != nil {
		if errors.Is(err, storage.ErrDataLost) && s.opts.CheckOwner != nil {
			if owned := s.opts.CheckOwner(s); owned != nil {
				err = owned
			}
		}
		return nil, errors.Join(fmt.Errorf("open redis store: %s: %w", s.opts.server(), wrapFull(err)), s.Close())
	}
	return s, nil
}

// Position implements storage.Store.
func (s *Store) Position() causal.Position { return causal.Position{Changes: s.canary.Load()} }

// openLink returns a store that is connected, and the canary of the server.
func openLink(ctx context.Context, opts Options) (s *Store, canary uint64, err error) {
	opts, err = opts.withDefaults()
	if err != nil {
		return nil, 0, fmt.Errorf("open redis store: %w", err)
	}
	s = &Store{opts: opts, owner: rand.Text(), calls: gate.New(), writing: make(chan struct{}, 1)}
	l, err := connect(ctx, opts, s.owner, claimAny)
	if err != nil {
		return nil, 0, fmt.Errorf("open redis store: %w", wrapFull(err)) // taking over is a write
	}
	canary, _, err = readCanary(ctx, l.reads)
	if err != nil {
		return nil, 0, errors.Join(fmt.Errorf("open redis store: %s: %w", opts.server(), err), l.close())
	}
	s.canary.Store(canary)
	s.link.Store(l)
	if n, err := s.Len(ctx); err != nil || n > 0 { // if the server does not answer now, the first call will tell
		s.sizes.noteUnknown()
	}
	return s, canary, nil
}

// Close implements storage.Store.
func (s *Store) Close() error {
	if !s.calls.Close() {
		return nil
	}
	err := s.link.Load().close()
	if s.watermark != nil {
		err = errors.Join(err, s.watermark.Close())
	}
	if err != nil {
		return fmt.Errorf("close redis store: %w", err)
	}
	return nil
}

// enter must be called before the server is used. If it returns nil, calls.Leave must follow.
func (s *Store) enter(ctx context.Context) error {
	if err := s.enterLost(ctx); err != nil {
		return err
	}
	if s.lost.Load() {
		s.calls.Leave()
		return storage.ErrDataLost
	}
	return nil
}

// enterLost is enter for a call that works even when the data is lost.
func (s *Store) enterLost(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if !s.calls.Enter() {
		return storage.ErrClosed
	}
	if s.fenced.Load() {
		s.calls.Leave()
		return storage.ErrFenced
	}
	return nil
}

// callError turns the error of a request on l, which may be nil, into that of the call. A result that was read on l
// does not count once l was replaced, so that no call returns data from before a restart after another one has reported
// it.
func (s *Store) callError(ctx context.Context, l *link, verb string, err error) error {
	switch {
	case errors.Is(err, errDataLost), errors.Is(err, storage.ErrDataLost): // the latter: of one record
		return s.noteLost(err)
	case errors.Is(err, errServerChanged):
		return s.reconnect(ctx, l)
	case s.link.Load() != l:
		return storage.ErrRestarted
	case s.fenced.Load():
		return storage.ErrFenced
	case err != nil:
		return fmt.Errorf("%s: %s: %w", s.opts.server(), verb, wrapFull(err))
	}
	return nil
}

// wrapFull adds storage.ErrFull to an error of a server that has no memory or disk for a write.
func wrapFull(err error) error {
	text := err.Error()
	if strings.Contains(text, "OOM command not allowed") || strings.Contains(text, "No space left on device") {
		return fmt.Errorf("%w: %w", storage.ErrFull, err)
	}
	return err
}

// noteFenced makes the store refuse all further calls if err says that another store has taken over. It returns err.
func (s *Store) noteFenced(err error) error {
	if errors.Is(err, storage.ErrFenced) {
		s.fenced.Store(true)
	}
	return err
}
