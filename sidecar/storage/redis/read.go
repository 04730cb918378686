package redis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	goredis "github.com/redis/go-redis/v9"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/storage"
)

// Get implements storage.Store.
func (s *Store) Get(ctx context.Context, key string) (causal.Record, bool, error) {
	if err := s.enter(ctx); err != nil {
		return causal.Record{}, false, err
	}
	defer s.calls.Leave()
	l := s.link.Load()
	r, err := decodeReply(key, l.reads.Get(ctx, nameOf(key)))
	if err == nil && !r.Found && r.Err == nil {
		err = s.checkCanary(ctx, l)
	}
	if err := s.callError(ctx, l, "get", err); err != nil {
		return causal.Record{}, false, err
	}
	return r.Record, r.Found, r.Err
}

// decodeReply decodes the reply of a GET. An error that concerns only the key is in the result.
func decodeReply(key string, reply *goredis.StringCmd) (storage.Result, error) {
	b, err := reply.Bytes()
	switch {
	case errors.Is(err, goredis.Nil):
		return storage.Result{}, nil
	case err != nil && strings.HasPrefix(err.Error(), "WRONGTYPE "):
		return storage.Result{Err: &storage.ForeignError{Key: key, Reason: "not a Redis string"}}, nil
	case err != nil:
		return storage.Result{}, err
	}
	rec, err := storage.DecodeRecord(key, b)
	return storage.Result{Record: rec, Found: err == nil, Err: err}, nil
}

// GetMany implements storage.Store. It is one pipeline of GETs, because MGET reports a key that is not a string as missing.
func (s *Store) GetMany(ctx context.Context, keys []string) ([]storage.Result, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.calls.Leave()
	l := s.link.Load()
	results, err := fetch(ctx, l, keys)
	if err == nil && slices.ContainsFunc(results, func(r storage.Result) bool { return !r.Found && r.Err == nil }) {
		err = s.checkCanary(ctx, l)
	}
	if err := s.callError(ctx, l, "get", err); err != nil {
		return nil, err
	}
	return results, nil
}

func fetch(ctx context.Context, l *link, keys []string) ([]storage.Result, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	pipe := l.reads.Pipeline()
	replies := make([]*goredis.StringCmd, len(keys))
	for i, key := range keys {
		replies[i] = pipe.Get(ctx, nameOf(key))
	}
	if err := pipelineError(pipe.Exec(ctx)); err != nil {
		return nil, err
	}
	results := make([]storage.Result, len(keys))
	for i, reply := range replies {
		var err error
		if results[i], err = decodeReply(keys[i], reply); err != nil {
			return nil, err
		}
	}
	return results, nil
}

// Meta implements storage.Store.
func (s *Store) Meta(ctx context.Context, name string) ([]byte, bool, error) {
	if err := s.enterLost(ctx); err != nil {
		return nil, false, err
	}
	defer s.calls.Leave()
	l := s.link.Load()
	b, err := l.reads.HGet(ctx, metaKey, name).Bytes()
	found := err == nil
	if errors.Is(err, goredis.Nil) {
		err = nil
	}
	if err := s.callError(ctx, l, "get metadata", err); err != nil {
		return nil, false, err
	}
	return b, found, nil
}

// Len implements storage.Store.
func (s *Store) Len(ctx context.Context) (int64, error) {
	if err := s.enter(ctx); err != nil {
		return 0, err
	}
	defer s.calls.Leave()
	l := s.link.Load()
	pipe := l.reads.TxPipeline()
	all, own := pipe.DBSize(ctx), pipe.Exists(ctx, fenceKey, metaKey)
	_, err := pipe.Exec(ctx)
	if err := s.callError(ctx, l, "len", err); err != nil {
		return 0, err
	}
	return all.Val() - own.Val(), nil
}

// Ping implements storage.Store. It reads the fence, so that a store that never writes also learns that another one has
// taken over. It does not count as the report of a restart: the next call that reads or writes returns ErrRestarted, too.
func (s *Store) Ping(ctx context.Context) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.calls.Leave()
	l := s.link.Load()
	token, err := l.reads.Get(ctx, fenceKey).Result()
	if err == nil {
		err = s.checkCanary(ctx, l)
	}
	switch {
	case errors.Is(err, errServerChanged):
		return storage.ErrRestarted
	case errors.Is(err, errDataLost):
		return s.noteLost(err)
	case errors.Is(err, goredis.Nil):
		return s.noteLost(errDataLost)
	case err != nil:
		return fmt.Errorf("%s: ping: %w", s.opts.server(), err)
	case !strings.HasPrefix(token, s.owner):
		return s.noteFenced(storage.ErrFenced)
	}
	return nil
}
