package redis

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/causalstore/causalstore/sidecar/storage"
)

// maxBulk is the maximum size of a key or value that the server accepts by default (proto-max-bulk-len), in bytes.
const maxBulk = 512 << 20

// Apply implements storage.Store.
func (s *Store) Apply(ctx context.Context, writes []storage.Write, meta ...storage.Meta) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.calls.Leave()
	if len(writes)+len(meta) == 0 {
		return nil
	}
	for i := range writes {
		w := &writes[i]
		size := storage.EncodedLen(w.Record)
		if len(w.Key) > maxBulk-len(escape) || !w.Delete && size > maxBulk {
			return fmt.Errorf("apply key %.40q: %d bytes of key and %d of value: Redis takes at most %d of each", w.Key,
				len(w.Key), size, maxBulk)
		}
	}
	b := batches.Get().(*batch)
	defer b.release()
	return s.write(ctx, append(b.build(writes), metaCommands(meta)...), writes...)
}

// metaCommands returns the commands that change metadata.
func metaCommands(meta []storage.Meta) (commands []command) {
	for _, m := range meta {
		if m.Delete {
			commands = append(commands, command{"HDEL", metaKey, m.Name})
		} else {
			commands = append(commands, command{"HSET", metaKey, m.Name, m.Value})
		}
	}
	return commands
}

// SetMeta implements storage.Store.
func (s *Store) SetMeta(ctx context.Context, name string, value []byte) error {
	if err := s.enterLost(ctx); err != nil {
		return err
	}
	defer s.calls.Leave()
	if s.lost.Load() { // there is nothing left for the fence to protect
		if err := s.link.Load().reads.HSet(ctx, metaKey, name, value).Err(); err != nil {
			return fmt.Errorf("%s: set metadata: %w", s.opts.server(), err)
		}
		return nil
	}
	return s.write(ctx, metaCommands([]storage.Meta{{Name: name, Value: value}}))
}

// write runs the commands, which do writes among others, as one transaction, when it is their turn. If ctx ends before
// that, nothing was done. Once it is their turn, ctx no longer counts and Options.Timeout bounds the wait, so that the
// caller learns the outcome.
func (s *Store) write(ctx context.Context, commands []command, writes ...storage.Write) error {
	select {
	case s.writing <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-s.writing }()
	s.sizes.noteBefore(writes)
	if err := s.commit(commands); err != nil {
		return err
	}
	s.sizes.noteAfter(writes)
	return nil
}

// commit runs one transaction. If its connection breaks, it is tried once more on a new one. That is safe even if the
// server still receives the first attempt, because the new connection changes the fence, which aborts it.
func (s *Store) commit(commands []command) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*(s.opts.Timeout+s.opts.WaitTimeout)+time.Second)
	defer cancel()
	l := s.link.Load()
	advance, canary := s.advanceCanary()
	commands = append(commands, advance)
	err := s.tryCommit(ctx, l, commands)
	if errors.Is(err, errAborted) || errors.Is(err, errOutcomeUnknown) {
		err = s.tryCommit(ctx, l, commands)
	}
	if err == nil {
		s.canary.Store(canary)
		err = s.raiseWatermark(canary)
	}
	return s.callError(ctx, l, "apply", s.noteFenced(err))
}

func (s *Store) tryCommit(ctx context.Context, l *link, commands []command) error {
	w, err := l.acquireWriter(ctx)
	if err != nil {
		return err
	}
	usable, err := w.exec(ctx, commands)
	if !usable {
		l.discardWriter(w)
	}
	return err
}
