// Package scrub reads everything in a store now and then, so that damage to what nobody reads is found while another
// ring, or another member, has it intact. A store that finds damage remembers it (storage.ErrDataLost): nothing more
// is done here.
package scrub

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/causalstore/causalstore/sidecar/storage"
)

// Options say how much of a processor and a disk a scrub may take.
type Options struct {
	// First is when the first pass begins, and Interval how long after the begin of a pass the next one begins, or at
	// the end of it.
	First, Interval time.Duration
	// BytesPerSecond bounds how much is read. Reading takes at most one part in Share of the time.
	BytesPerSecond, Share int
	Logger                *slog.Logger
}

// Defaults are for production: at most a twentieth of a processor, and 4 MiB/s.
func Defaults(logger *slog.Logger) Options {
	return Options{First: 10 * time.Minute, Interval: 24 * time.Hour, BytesPerSecond: 4 << 20, Share: 20,
		Logger: logger}
}

// A page is about pageNames records, of about pageBytes.
const (
	pageNames = 128
	pageBytes = 1 << 20
	// retryInterval is the pause after a store does not answer.
	retryInterval = 10 * time.Second
)

// Scrub is a scrub of one store.
type Scrub struct {
	store storage.Store
	o     Options

	mu       sync.Mutex
	progress Progress
}

// Progress is what a scrub has done since its start.
type Progress struct {
	Keys, Bytes, Passes uint64
	// Damaged counts the passes that have ended at damage: one at most, as nothing is read from a damaged store.
	Damaged uint64
	// LastPass is when a pass has read everything last; zero: none has yet.
	LastPass time.Time
}

// New returns a scrub that does nothing yet.
func New(store storage.Store, o Options) *Scrub { return &Scrub{store: store, o: o} }

// Progress returns what was done so far.
func (s *Scrub) Progress() Progress {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.progress
}

// Run scrubs until ctx is done, or the store is damaged or closed.
func (s *Scrub) Run(ctx context.Context) {
	for wait := s.o.First; pause(ctx, wait); {
		began := time.Now()
		err := s.pass(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, storage.ErrDataLost):
			s.note(func(p *Progress) { p.Damaged++ })
			s.o.Logger.Error("the scrub of the storage has found damage", "error", err)
			return
		case errors.Is(err, storage.ErrClosed), errors.Is(err, storage.ErrFenced):
			return
		case err != nil: // it has started over too often
			s.o.Logger.Warn("a scrub of the storage did not end", "error", err)
		default:
			s.note(func(p *Progress) { p.Passes, p.LastPass = p.Passes+1, time.Now() })
		}
		wait = max(0, s.o.Interval-time.Since(began))
	}
}

// maxAttempts bounds how often a pass goes on after an error.
const maxAttempts = 100

// pass reads every record once.
func (s *Scrub) pass(ctx context.Context) error {
	after, attempts := "", 0
	for {
		next, err := s.page(ctx, after)
		switch {
		case errors.Is(err, storage.ErrDataLost), errors.Is(err, storage.ErrClosed), errors.Is(err, storage.ErrFenced),
			ctx.Err() != nil:
			return err
		case err != nil:
			if attempts++; attempts == maxAttempts {
				return err
			}
			if errors.Is(err, storage.ErrCursor) {
				after = ""
			}
			if !pause(ctx, retryInterval) {
				return ctx.Err()
			}
		case next == "":
			return nil
		default:
			after = next
		}
	}
}

// page reads the records of a page of names, and then lets others use the store.
func (s *Scrub) page(ctx context.Context, after string) (next string, err error) {
	names, next, err := s.timed(ctx, func() ([]string, string, int, error) {
		names, next, err := s.store.Keys(ctx, after, pageNames)
		return names, next, 0, err
	})
	for len(names) > 0 && err == nil {
		_, _, err = s.timed(ctx, func() ([]string, string, int, error) {
			results, err := s.store.GetMany(ctx, names, pageBytes)
			bytes := 0
			for i := range results {
				bytes += len(names[i]) + results[i].Size()
			}
			s.note(func(p *Progress) { p.Keys, p.Bytes = p.Keys+uint64(len(results)), p.Bytes+uint64(bytes) })
			names = names[len(results):]
			return nil, "", bytes, err
		})
	}
	return next, err
}

// timed makes a request, and pauses as long as its share and its size demand.
func (s *Scrub) timed(ctx context.Context, request func() ([]string, string, int, error)) ([]string, string, error) {
	began := time.Now()
	names, next, bytes, err := request()
	if err == nil && !pause(ctx, max(time.Since(began)*time.Duration(s.o.Share-1),
		time.Duration(bytes)*time.Second/time.Duration(s.o.BytesPerSecond))) {
		err = ctx.Err()
	}
	return names, next, err
}

func (s *Scrub) note(f func(*Progress)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(&s.progress)
}

// pause reports whether the time has passed before ctx was done.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
