// Package redis is a storage engine on any stock Redis (or Valkey) server, version 6.2 or newer.
//
// Apply is one MULTI/EXEC transaction: atomic, and in the server's append-only log, synced, before it returns. Applies that
// overlap are sent as one transaction, so they share a sync. Open refuses a server whose settings could lose or evict what it
// acknowledged, and so does every reconnection.
//
// Only one Store can write to a server's database: a second Open takes over, and the first then gets storage.ErrFenced.
// When the server restarts or fails over, or is emptied below the store, calls get storage.ErrRestarted once.
// Len is DBSIZE less the store's own names: exact, if nobody else writes there.
package redis

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/causalstore/causalstore/sidecar/storage"
	"github.com/causalstore/causalstore/sidecar/storage/internal/gate"
)

// Store implements storage.Store.
type Store struct {
	opts  Options
	owner string // begins every token that this store puts into the fence
	calls *gate.Gate

	link     atomic.Pointer[link]
	renewing sync.Mutex // is held while link is replaced
	fenced   atomic.Bool

	queue      chan *request
	writesDone chan struct{}
}

var _ storage.Store = (*Store)(nil)

// Open connects to the server and takes over its database from any earlier Store.
func Open(ctx context.Context, opts Options) (*Store, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("open redis store: %w", err)
	}
	s := &Store{
		opts:       opts,
		owner:      rand.Text(),
		calls:      gate.New(),
		queue:      make(chan *request, maxQueued),
		writesDone: make(chan struct{}),
	}
	l, err := connect(ctx, opts, s.owner, claimAny)
	if err != nil {
		return nil, fmt.Errorf("open redis store: %w", err)
	}
	s.link.Store(l)
	go s.writeLoop()
	return s, nil
}

// RunID names the incarnation of the server that the store is connected to.
func (s *Store) RunID() string { return s.link.Load().runID }

// Close implements storage.Store.
func (s *Store) Close() error {
	if !s.calls.Close() {
		return nil
	}
	close(s.queue)
	<-s.writesDone
	if err := s.link.Load().close(); err != nil {
		return fmt.Errorf("close redis store: %w", err)
	}
	return nil
}

// begin must precede every use of the server, and be followed by calls.Leave if it returns nil.
func (s *Store) begin(ctx context.Context) error {
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

// settle turns the outcome of a request on l into that of the call. Nothing that was read on a link counts once the link was
// replaced, so that no call returns data from before a restart after another one has reported it.
func (s *Store) settle(ctx context.Context, l *link, verb string, err error) error {
	switch {
	case errors.Is(err, errOtherServer):
		return s.renew(ctx, l)
	case s.link.Load() != l:
		return storage.ErrRestarted
	case s.fenced.Load():
		return storage.ErrFenced
	case err != nil:
		return fmt.Errorf("%s: %s: %w", s.opts.server(), verb, err)
	}
	return nil
}

// noteFenced makes the store refuse everything if err says that another one has taken over.
func (s *Store) noteFenced(err error) error {
	if errors.Is(err, storage.ErrFenced) {
		s.fenced.Store(true)
	}
	return err
}
