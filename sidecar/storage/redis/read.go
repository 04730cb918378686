package redis

import (
	"context"
	"errors"
	"fmt"
	"strings"

	goredis "github.com/redis/go-redis/v9"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/storage"
)

// Get implements storage.Store.
func (s *Store) Get(ctx context.Context, key string) (causal.Record, bool, error) {
	if err := s.begin(ctx); err != nil {
		return causal.Record{}, false, err
	}
	defer s.calls.Leave()
	l := s.link.Load()
	r, err := interpret(key, l.reads.Get(ctx, nameOf(key)))
	if err := s.settle(ctx, l, "get", err); err != nil {
		return causal.Record{}, false, err
	}
	return r.Record, r.Found, r.Err
}

// interpret reads the reply of a GET: what concerns the key alone is in the result.
func interpret(key string, reply *goredis.StringCmd) (storage.Result, error) {
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

// GetMany implements storage.Store. It is one pipeline of GETs: MGET would answer a key that is not a string as missing.
func (s *Store) GetMany(ctx context.Context, keys []string) ([]storage.Result, error) {
	if err := s.begin(ctx); err != nil {
		return nil, err
	}
	defer s.calls.Leave()
	l := s.link.Load()
	results, err := fetch(ctx, l, keys)
	if err := s.settle(ctx, l, "get", err); err != nil {
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
	if err := notSent(pipe.Exec(ctx)); err != nil {
		return nil, err
	}
	results := make([]storage.Result, len(keys))
	for i, reply := range replies {
		var err error
		if results[i], err = interpret(keys[i], reply); err != nil {
			return nil, err
		}
	}
	return results, nil
}

// Meta implements storage.Store.
func (s *Store) Meta(ctx context.Context, name string) ([]byte, bool, error) {
	if err := s.begin(ctx); err != nil {
		return nil, false, err
	}
	defer s.calls.Leave()
	l := s.link.Load()
	b, err := l.reads.HGet(ctx, metaKey, name).Bytes()
	found := err == nil
	if errors.Is(err, goredis.Nil) {
		err = nil
	}
	if err := s.settle(ctx, l, "get metadata", err); err != nil {
		return nil, false, err
	}
	return b, found, nil
}

// Len implements storage.Store.
func (s *Store) Len(ctx context.Context) (int64, error) {
	if err := s.begin(ctx); err != nil {
		return 0, err
	}
	defer s.calls.Leave()
	l := s.link.Load()
	pipe := l.reads.TxPipeline()
	all, own := pipe.DBSize(ctx), pipe.Exists(ctx, fenceKey, metaKey)
	_, err := pipe.Exec(ctx)
	if err := s.settle(ctx, l, "len", err); err != nil {
		return 0, err
	}
	return all.Val() - own.Val(), nil
}

// Ping implements storage.Store: it looks at the fence, so that a store that never writes also learns that another one has
// taken over. It does not use up the report of a restart: the next call that reads or writes makes it.
func (s *Store) Ping(ctx context.Context) error {
	if err := s.begin(ctx); err != nil {
		return err
	}
	defer s.calls.Leave()
	token, err := s.link.Load().reads.Get(ctx, fenceKey).Result()
	switch {
	case errors.Is(err, errOtherServer), errors.Is(err, goredis.Nil): // without a fence, the data has gone as well
		return storage.ErrRestarted
	case err != nil:
		return fmt.Errorf("%s: ping: %w", s.opts.server(), err)
	case !strings.HasPrefix(token, s.owner):
		return s.noteFenced(storage.ErrFenced)
	}
	return nil
}
