package node

import (
	"context"
	"errors"
	"fmt"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/member"
	"github.com/causalstore/causalstore/sidecar/storage"
)

// errNotServing fails what was proposed in a session that has ended. It may have been committed or not.
var errNotServing = errors.New("this member does not serve the shard any more")

// replicatedStore is the storage of a shard with several members, as the primary sees it in one session: changes go
// through the log of the group, and are done when all members have them in their logs and the storage beside this
// member has applied them. All else is answered by that one, which has every change that is done.
type replicatedStore struct {
	storage.Store
	sm      *ShardMember
	session uint64
}

// Apply implements storage.Store. When ctx ends, a change that was proposed is still waited for: the session ends if it
// is not committed.
func (s *replicatedStore) Apply(ctx context.Context, writes []storage.Write, meta ...storage.Meta) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if len(writes)+len(meta) == 0 {
		return nil
	}
	c := member.Change{Writes: writes, Meta: make([]member.Meta, len(meta))}
	for i, m := range meta {
		if m.Delete {
			return fmt.Errorf("remove metadata %q: the metadata of a replicated storage are never removed", m.Name)
		}
		c.Meta[i] = member.Meta{Name: m.Name, Value: m.Value}
	}
	if err := s.sm.propose(s.session, c); err != nil {
		return fmt.Errorf("replicate %d writes: %w", len(writes), err)
	}
	return nil
}

// SetMeta implements storage.Store.
func (s *replicatedStore) SetMeta(ctx context.Context, name string, value []byte) error {
	return s.Apply(ctx, nil, storage.Meta{Name: name, Value: value})
}

// Position implements storage.Store. The positions of a group count what all of its members have.
func (s *replicatedStore) Position() (p causal.Position) {
	s.sm.host.Inspect(func(m *member.Storage) {
		applied := m.Applied()
		p = causal.Position{Storage: applied.Group, Changes: applied.Position}
	})
	return p
}

// Clear implements storage.Store. Nothing removes what all members have.
func (s *replicatedStore) Clear(context.Context, ...storage.Meta) error {
	return errors.New("a replicated storage is not cleared")
}

// Close implements storage.Store. The store below stays open.
func (s *replicatedStore) Close() error { return nil }

// Get implements storage.Store.
func (s *replicatedStore) Get(ctx context.Context, key string) (causal.Record, bool, error) {
	rec, found, err := s.Store.Get(ctx, key)
	return rec, found, s.sm.noteLoss(err)
}

// GetMany implements storage.Store.
func (s *replicatedStore) GetMany(ctx context.Context, keys []string, maxBytes int) ([]storage.Result, error) {
	results, err := s.Store.GetMany(ctx, keys, maxBytes)
	return results, s.sm.noteLoss(err)
}

// Meta implements storage.Store.
func (s *replicatedStore) Meta(ctx context.Context, name string) ([]byte, bool, error) {
	value, found, err := s.Store.Meta(ctx, name)
	return value, found, s.sm.noteLoss(err)
}

// Len implements storage.Store.
func (s *replicatedStore) Len(ctx context.Context) (int64, error) {
	n, err := s.Store.Len(ctx)
	return n, s.sm.noteLoss(err)
}

// Scan implements storage.Store.
func (s *replicatedStore) Scan(ctx context.Context, fn func(key string, rec causal.Record) error) error {
	return s.sm.noteLoss(s.Store.Scan(ctx, fn))
}

// Keys implements storage.Store.
func (s *replicatedStore) Keys(ctx context.Context, after string, limit int) ([]string, string, error) {
	keys, next, err := s.Store.Keys(ctx, after, limit)
	return keys, next, s.sm.noteLoss(err)
}

// Ping implements storage.Store.
func (s *replicatedStore) Ping(ctx context.Context) error { return s.sm.noteLoss(s.Store.Ping(ctx)) }

// propose makes a change in a session, and waits until it is committed and applied here, or the session has ended.
func (sm *ShardMember) propose(session uint64, c member.Change) error {
	done := make(chan error, 1)
	refused := errNotServing
	sm.step(func(now causal.Now, m *member.Storage) {
		if m.Session() != session || sm.ending {
			return
		}
		var id uint64
		if id, refused = m.Propose(now, c); refused == nil {
			sm.proposals[id] = done
		}
	})
	if refused != nil {
		return refused
	}
	return <-done
}

// failProposals fails all that is proposed and not done. Called with the lock held.
func (sm *ShardMember) failProposals(err error) {
	for id, done := range sm.proposals {
		delete(sm.proposals, id)
		done <- err
	}
}
