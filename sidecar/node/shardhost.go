package node

import (
	"context"
	"fmt"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/member"
	"github.com/causalstore/causalstore/sidecar/causal/middleman"
	"github.com/causalstore/causalstore/sidecar/causal/shard"
	"github.com/causalstore/causalstore/sidecar/storage"
	"github.com/causalstore/causalstore/topology"
)

// Handle implements Host: it delivers messages of other members, and those to the middleman while this member serves.
func (sm *ShardMember) Handle(batch []causal.Message) {
	for len(batch) > 0 {
		n, ofGroup := 1, isOfGroup(&batch[0])
		for n < len(batch) && isOfGroup(&batch[n]) == ofGroup {
			n++
		}
		if ofGroup {
			sm.groupHost.Handle(batch[:n])
		} else if mm := sm.Serving(); mm != nil {
			mm.Handle(batch[:n])
		}
		batch = batch[n:]
	}
}

func isOfGroup(m *causal.Message) bool {
	return m.Kind == causal.KindGroup || m.Kind == causal.KindCopy
}

// Tick implements Host.
func (sm *ShardMember) Tick() {
	sm.groupHost.Tick()
	mm := sm.Serving()
	if mm != nil {
		mm.Tick()
	}
	whole := mm != nil && mm.isWhole()
	sm.mu.Lock()
	sm.m.SetWhole(whole) // nothing follows from it at once
	sm.mu.Unlock()
}

// raiseAlarm raises the alarm of this member for its middleman, which Tick ticks as well.
func (sm *ShardMember) raiseAlarm(in time.Duration) {
	sm.mu.Lock()
	raise := sm.alarm
	sm.mu.Unlock()
	raise(in)
}

// Probe implements Host.
func (sm *ShardMember) Probe() {
	sm.groupHost.Probe()
	if mm := sm.Serving(); mm != nil {
		mm.Probe()
	}
}

// LinkUp tells the machines that a node, or another member, is reachable again: what was on its way to it may be lost.
func (sm *ShardMember) LinkUp(n topology.Node) {
	sm.groupHost.LinkUp(n)
	if mm := sm.Serving(); mm != nil && n.Member == 0 {
		mm.LinkUp(n)
	}
}

// Serving returns the middleman; nil while this member does not serve.
func (sm *ShardMember) Serving() *Middleman {
	sm.mu.Lock()
	defer sm.mu.Unlock()
	return sm.serving
}

// What follows is what Middleman tells, of the one that serves here. A member that does not serve knows nothing of it.

// Inspect calls f with the serving middleman, if there is one. f must not change it.
func (sm *ShardMember) Inspect(f func(*middleman.Middleman)) {
	if mm := sm.Serving(); mm != nil {
		mm.Inspect(f)
	}
}

// Serves reports whether a middleman serves here.
func (sm *ShardMember) Serves() bool {
	mm := sm.Serving()
	return mm != nil && mm.Serves()
}

// DataLost is as for Middleman.
func (sm *ShardMember) DataLost() (lost bool, known []topology.Node) {
	if mm := sm.Serving(); mm != nil {
		return mm.DataLost()
	}
	return false, nil
}

// Backfill is as for Middleman.
func (sm *ShardMember) Backfill() (p middleman.BackfillProgress, ok bool) {
	if mm := sm.Serving(); mm != nil {
		return mm.Backfill()
	}
	return p, false
}

// Unanswered is as for Middleman.
func (sm *ShardMember) Unanswered() []topology.Node {
	if mm := sm.Serving(); mm != nil {
		return mm.Unanswered()
	}
	return nil
}

// Unheard is as for Middleman.
func (sm *ShardMember) Unheard() []topology.Node {
	if mm := sm.Serving(); mm != nil {
		return mm.Unheard()
	}
	return nil
}

// Withdrawn is as for Middleman.
func (sm *ShardMember) Withdrawn() (w shard.Withdrawn, ok bool) {
	if mm := sm.Serving(); mm != nil {
		return mm.Withdrawn()
	}
	return w, false
}

// Resharding is as for Middleman.
func (sm *ShardMember) Resharding() (stage string, copied, of int) {
	if mm := sm.Serving(); mm != nil {
		return mm.Resharding()
	}
	return "none", 0, 0
}

// StorageState returns how many requests to the storage beside this member have failed, and why the last write failed;
// nil if it succeeded.
func (sm *ShardMember) StorageState() (failures uint64, problem error) { return sm.health.disk.state() }

// Stats returns the counters of this member.
func (sm *ShardMember) Stats() (s member.Stats) {
	sm.host.Inspect(func(m *member.Storage) { s = m.Stats() })
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
