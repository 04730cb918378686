package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/group"
	"github.com/causalstore/causalstore/sidecar/causal/member"
	"github.com/causalstore/causalstore/sidecar/causal/process"
	"github.com/causalstore/causalstore/sidecar/register"
	"github.com/causalstore/causalstore/sidecar/value"
	"github.com/causalstore/causalstore/topology"
)

// ShardMember runs one member of a shard's group: a process.Member with a log and a storage of its own.
type ShardMember struct {
	*groupHost[*process.Member]
	options ShardMemberOptions
	driver  *shardDriver[*process.Member]
	isDeaf  bool // the storage does not respond, as was logged; guarded by host.mu
}

// ShardMemberOptions configures a ShardMember.
type ShardMemberOptions struct {
	// Middleman configures the middleman that runs while this member serves. Its Store is the storage beside this
	// member.
	Middleman MiddlemanOptions
	// Member is the number of this member of the shard's group; 0: 1.
	Member uint8
	// Dir is the directory of the log on the file system FS; nil: vfs.Default.
	Dir string
	FS  vfs.FS
	// MaxLogBytes bounds the log on disk and in memory; 0: member.MaxLogBytesInMemory.
	MaxLogBytes int64
	// RetainBytes of changes that are applied are kept for members that were away; 0: 32 MiB.
	RetainBytes int
	// Register holds the configuration of the group. It is required: without a register there is one member, and
	// NewMiddleman runs it.
	Register register.Register
	// OnLeadership is as in CoordinatorOptions.
	OnLeadership func(causal.Leadership)
}

// NewShardMember opens the log. The caller registers Handle with the network afterwards.
func NewShardMember(ctx context.Context, o ShardMemberOptions) (*ShardMember, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	mo := &o.Middleman
	mo.Config.Types = value.Shipped()
	sm := &ShardMember{options: o}
	sm.groupHost = newGroupHost(groupOptions[*process.Member]{self: mo.Config.Self, member: o.Member, clock: mo.Clock,
		net: mo.Net, dir: o.Dir, fs: o.FS,
		maxLogBytes: o.MaxLogBytes, register: o.Register, logger: mo.Logger,
		unwritable: "the log of the shard cannot be written; writes wait until it can",
		build:      sm.build, isSettled: func(*process.Member) bool { return true },
		leadership: (*process.Member).Leadership, onFailure: mo.OnFailure, onLeadership: sm.announce})
	sm.driver = newShardDriver(sm.host, *mo,
		"the storage of this member failed; what failed is repeated until it succeeds")
	sm.o.suspend = sm.driver.suspendTasks
	sm.collectRequests = sm.collectAll
	if err := sm.start(); err != nil {
		sm.driver.cancel()
		return nil, err
	}
	sm.driver.run()
	sm.driver.running.Go(sm.driver.runTasks)
	sm.run()
	return sm, nil
}

// complete checks the options and fills in the defaults.
func (o *ShardMemberOptions) complete() error {
	if o.Register == nil {
		return errors.New(
			"a member of a shard needs a register for the configuration of its group: configure one, or set " +
				"shardMembers to 1")
	}
	if o.MaxLogBytes == 0 {
		o.MaxLogBytes = member.MaxLogBytesInMemory
	}
	if o.MaxLogBytes < MinLogBytes {
		return fmt.Errorf(
			"a log of at most %d bytes is too small: set at least %d, so that the largest value fits twice",
			o.MaxLogBytes, MinLogBytes)
	}
	if o.FS == nil {
		o.FS = vfs.Default
	}
	if o.Middleman.Logger == nil {
		o.Middleman.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Middleman.OnFailure == nil {
		o.Middleman.OnFailure = func(error) {}
	}
	if o.Member == 0 {
		o.Member = 1
	}
	return nil
}

// build makes the machine from the volume, and from what the storage says about itself.
func (sm *ShardMember) build(v *opened, damaged bool) (*process.Member, error) {
	ctx, cancel := context.WithTimeout(sm.ctx, storageTimeout)
	defer cancel()
	o := &sm.options
	found, empty, err := readApplied(ctx, o.Middleman.Store)
	if err != nil {
		return nil, err
	}
	topo := o.Middleman.Config.Topology
	if sm.m != nil {
		topo = sm.m.Topology()
	}
	cfg := process.MemberConfig{Storage: member.StorageConfig{Self: sm.MemberNode(), Topology: topo, Volume: v.id,
		Damaged: damaged, Found: found, Empty: empty,
		MaxLogBytes: int(min(o.MaxLogBytes, member.MaxLogBytesInMemory)), RetainBytes: o.RetainBytes,
		Broken: o.Middleman.Config.Broken},
		Shard: process.Config{Middleman: o.Middleman.Config, RemoveKeys: process.DefaultRemoveKeys},
		NewID: rand.Uint64, Life: uint32(sm.life)}
	m := process.NewMember(cfg, &v.image, o.Middleman.Clock())
	v.image = group.Image{} // the machine has it
	return m, nil
}

// collectAll takes what the machine asks for after a step.
func (sm *ShardMember) collectAll() {
	sm.driver.collect()
	sm.collect()
	if isDeaf := !sm.m.StorageResponds(); isDeaf != sm.isDeaf {
		sm.isDeaf = isDeaf
		sm.notices = append(sm.notices, func() {
			if isDeaf {
				sm.logger.Warn("the storage does not respond; the other members go on without this one until it does")
			} else {
				sm.logger.Info("the storage responds again")
			}
		})
	}
}

// announce passes a leadership on. From then on the shard may act in it.
func (sm *ShardMember) announce(l causal.Leadership) {
	if sm.options.OnLeadership != nil {
		sm.options.OnLeadership(l)
	}
	sm.step(func(now causal.Now, m *process.Member) { m.Announced(now, l) })
}

// HandOver, Status and the like are those of groupHost.

// AcceptLoss gives up what the members held, whose volumes are all lost or absent: a group that has nothing begins at
// this member, and the shard gets its data from other rings. The caller is a person who has seen the given epoch.
func (sm *ShardMember) AcceptLoss(epoch uint64) (err error) {
	sm.step(func(now causal.Now, m *process.Member) {
		if s := m.Status(); s.Config.Epoch != epoch {
			err = fmt.Errorf("this member knows epoch %d, and not epoch %d any more: look again", s.Config.Epoch, epoch)
			return
		}
		err = m.AcceptLoss(now)
	})
	return err
}

// SetTopology replaces the topology by one that differs only in the numbers of coordinators, shards and caches, and of
// their members. It fails while a resharding is in progress on this member.
func (sm *ShardMember) SetTopology(t *topology.Topology) error { return sm.driver.SetTopology(t) }

// Close stops the member. Coordinators send unacknowledged puts again to whoever serves next; HandOver, before, makes
// that soon. The store stays open.
func (sm *ShardMember) Close() error {
	sm.step(func(now causal.Now, m *process.Member) { m.End(now) })
	sm.driver.end()
	return sm.close()
}

// Crash stops the member immediately, as kill -9 does.
func (sm *ShardMember) Crash() error {
	sm.stop()
	sm.driver.end()
	return sm.crash()
}
