package node

import (
	"context"
	"fmt"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/member"
	"github.com/causalstore/causalstore/sidecar/causal/middleman"
	"github.com/causalstore/causalstore/sidecar/causal/process"
	"github.com/causalstore/causalstore/sidecar/causal/shard"
	"github.com/causalstore/causalstore/sidecar/storage"
	"github.com/causalstore/causalstore/topology"
)

// Handle implements Host: it delivers messages of other members, and those to the shard while this member serves.
func (sm *ShardMember) Handle(batch []causal.Message) { sm.driver.Handle(batch) }

// What follows is what Middleman tells, of the shard that this member serves. One that does not serve knows nothing of
// it.

// Inspect calls f with the serving middleman, if there is one. f must not change it.
func (sm *ShardMember) Inspect(f func(*middleman.Middleman)) {
	sm.driver.Inspect(f)
}

// Serves reports whether a middleman serves here.
func (sm *ShardMember) Serves() bool {
	return sm.driver.Serves()
}

// DataLost is as for Middleman.
func (sm *ShardMember) DataLost() (lost bool, known []topology.Node) {
	return sm.driver.DataLost()
}

// Backfill is as for Middleman.
func (sm *ShardMember) Backfill() (p middleman.BackfillProgress, ok bool) {
	return sm.driver.Backfill()
}

// Unanswered is as for Middleman.
func (sm *ShardMember) Unanswered() []topology.Node {
	return sm.driver.Unanswered()
}

// Unheard is as for Middleman.
func (sm *ShardMember) Unheard() []topology.Node {
	return sm.driver.Unheard()
}

// Withdrawn is as for Middleman.
func (sm *ShardMember) Withdrawn() (w shard.Withdrawn, ok bool) {
	return sm.driver.Withdrawn()
}

// Resharding is as for Middleman.
func (sm *ShardMember) Resharding() (stage string, copied, of int) {
	return sm.driver.Resharding()
}

// StorageState returns how many requests to the storage beside this member have failed, and why the last write failed;
// nil if it succeeded.
func (sm *ShardMember) StorageState() (failures uint64, problem error) {
	return sm.driver.StorageState()
}

// Stats returns the counters of this member.
func (sm *ShardMember) Stats() (s member.Stats) {
	sm.host.Inspect(func(m *process.Member) { s = m.Stats() })
	return s
}

// IsOfGroup reports whether a storage is that of a member of a group: some of what it should hold may be in the log
// beside it only.
func IsOfGroup(ctx context.Context, s storage.Store) (bool, error) {
	_, found, err := s.Meta(ctx, metaApplied)
	if err != nil {
		return false, fmt.Errorf("read %s from storage: %w", metaApplied, err)
	}
	return found, nil
}
