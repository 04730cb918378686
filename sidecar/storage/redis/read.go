package redis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unsafe"

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
	return decodeRecord(key, b)
}

// decodeRecord decodes a value. If it is damaged, the error concerns the whole server.
func decodeRecord(key string, b []byte) (storage.Result, error) {
	rec, err := storage.DecodeRecord(key, b)
	if errors.Is(err, storage.ErrDataLost) {
		return storage.Result{}, err
	}
	return storage.Result{Record: rec, Found: err == nil, Err: err}, nil
}

// GetMany implements storage.Store.
func (s *Store) GetMany(ctx context.Context, keys []string, maxBytes int) ([]storage.Result, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.calls.Leave()
	l := s.link.Load()
	results, err := s.fetch(ctx, l, keys, maxBytes)
	if err == nil && slices.ContainsFunc(results, func(r storage.Result) bool { return !r.Found && r.Err == nil }) {
		err = s.checkCanary(ctx, l)
	}
	if err := s.callError(ctx, l, "get", err); err != nil {
		return nil, err
	}
	return results, nil
}

// fetch reads the first keys, of which the values have about maxBytes, with one MGET, which costs the server and the
// client less than a GET for each. Where that returns nothing, GET tells a key that is missing from one that is not a
// string.
func (s *Store) fetch(ctx context.Context, l *link, keys []string, maxBytes int) ([]storage.Result, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	n, err := s.readable(ctx, l, keys, maxBytes)
	if err != nil {
		return nil, err
	}
	keys = keys[:n]
	args := make([]any, 1, 1+len(keys))
	args[0] = "MGET"
	for i := range keys {
		args = append(args, nameArg(&keys[i]))
	}
	values := goredis.NewSliceCmd(ctx, args...)
	if err := l.reads.Process(ctx, values); err != nil {
		return nil, err
	}
	if n := len(values.Val()); n != len(keys) {
		return nil, fmt.Errorf("MGET of %d keys returned %d values", len(keys), n)
	}
	results := make([]storage.Result, len(keys))
	var empty []int
	for i, value := range values.Val() {
		text, ok := value.(string)
		if !ok {
			empty = append(empty, i)
			continue
		}
		if results[i], err = decodeRecord(keys[i], bytesOf(text)); err != nil {
			return nil, err
		}
	}
	if len(empty) == 0 {
		return results, nil
	}
	pipe := l.reads.Pipeline()
	replies := make([]*goredis.StringCmd, len(empty))
	for i, k := range empty {
		replies[i] = pipe.Get(ctx, nameOf(keys[k]))
	}
	if err := pipelineError(pipe.Exec(ctx)); err != nil {
		return nil, err
	}
	for i, k := range empty {
		var err error
		if results[k], err = decodeReply(keys[k], replies[i]); err != nil {
			return nil, err
		}
	}
	return results, nil
}

// bytesOf returns the bytes of a string that nobody else has, without a copy. Records do not change, so nobody writes
// to them.
func bytesOf(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }

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
// taken over. It does not count as the report of a restart: the next call that reads or writes returns ErrRestarted,
// too.
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
