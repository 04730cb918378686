package redis

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/causalstore/causalstore/sidecar/storage"
)

// Bounds of the writes that wait, and of those that are joined into one transaction.
const (
	maxQueued        = 256
	maxGroupCommands = 1024
	maxGroupBytes    = 8 << 20
)

// maxBulk is what the server takes as one key or value by default (proto-max-bulk-len), in bytes.
const maxBulk = 512 << 20

// request is one Apply or SetMeta on its way to the write loop.
type request struct {
	commands []command
	bytes    int
	claimed  atomic.Bool // by the write loop, which will answer; or by the caller, who has left
	done     chan error
}

// Apply implements storage.Store.
func (s *Store) Apply(ctx context.Context, writes []storage.Write) error {
	if err := s.begin(ctx); err != nil {
		return err
	}
	defer s.calls.Leave()
	if len(writes) == 0 {
		return nil
	}
	r := &request{commands: make([]command, len(writes)), done: make(chan error, 1)}
	for i, w := range writes {
		size := storage.EncodedLen(w.Record)
		if len(w.Key) > maxBulk-len(escape) || !w.Delete && size > maxBulk {
			return fmt.Errorf("apply key %.40q: %d bytes of key and %d of value: Redis takes at most %d of each", w.Key, len(w.Key), size, maxBulk)
		}
		if w.Delete {
			r.commands[i] = command{"DEL", nameOf(w.Key)}
			r.bytes += len(w.Key)
			continue
		}
		r.commands[i] = command{"SET", nameOf(w.Key), storage.AppendRecord(make([]byte, 0, size), w.Record)}
		r.bytes += len(w.Key) + size
	}
	return s.submit(ctx, r)
}

// SetMeta implements storage.Store.
func (s *Store) SetMeta(ctx context.Context, name string, value []byte) error {
	if err := s.begin(ctx); err != nil {
		return err
	}
	defer s.calls.Leave()
	return s.submit(ctx, &request{
		commands: []command{{"HSET", metaKey, name, append([]byte{}, value...)}},
		bytes:    len(value),
		done:     make(chan error, 1),
	})
}

// submit gives r to the write loop. When ctx ends before the loop has begun with it, nothing was done; after that the answer
// is waited for, which the Timeout of the requests bounds, so that the caller knows what became of it.
func (s *Store) submit(ctx context.Context, r *request) error {
	select {
	case s.queue <- r:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-r.done:
		return err
	case <-ctx.Done():
		if r.claimed.CompareAndSwap(false, true) {
			return ctx.Err()
		}
		return <-r.done
	}
}

// writeLoop carries out the writes, in order, until the queue is closed.
func (s *Store) writeLoop() {
	defer close(s.writesDone)
	var group []*request
	var commands []command
	for first := range s.queue {
		group, commands = s.join(group[:0], commands[:0], first)
		if len(group) == 0 {
			continue
		}
		err := s.commit(commands)
		for _, r := range group {
			r.done <- err
		}
		clear(group)
		clear(commands)
	}
}

// join makes one group of first and what waits behind it.
func (s *Store) join(group []*request, commands []command, first *request) ([]*request, []command) {
	bytes := 0
	for r := first; ; {
		if r.claimed.CompareAndSwap(false, true) {
			group = append(group, r)
			commands = append(commands, r.commands...)
			bytes += r.bytes
		}
		if len(commands) >= maxGroupCommands || bytes >= maxGroupBytes {
			return group, commands
		}
		var open bool
		select {
		case r, open = <-s.queue:
			if !open {
				return group, commands
			}
		default:
			return group, commands
		}
	}
}

// commit runs one transaction. When its connection breaks, it is tried once more on a new one: only a new writer in the fence
// settles that the broken one can no longer carry it out.
func (s *Store) commit(commands []command) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*(s.opts.Timeout+s.opts.WaitTimeout)+time.Second)
	defer cancel()
	l := s.link.Load()
	err := s.try(ctx, l, commands)
	if errors.Is(err, errAborted) || errors.Is(err, errBroken) {
		err = s.try(ctx, l, commands)
	}
	if errors.Is(err, errDataGone) {
		err = errOtherServer
	}
	return s.settle(ctx, l, "apply", s.noteFenced(err))
}

func (s *Store) try(ctx context.Context, l *link, commands []command) error {
	w, err := l.acquire(ctx)
	if err != nil {
		return err
	}
	usable, err := w.exec(ctx, commands)
	if !usable {
		l.drop(w)
	}
	return err
}
