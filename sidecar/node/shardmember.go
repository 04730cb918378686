package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/group"
	"github.com/causalstore/causalstore/sidecar/causal/member"
	"github.com/causalstore/causalstore/sidecar/register"
	"github.com/causalstore/causalstore/sidecar/retry"
	"github.com/causalstore/causalstore/sidecar/storage"
	"github.com/causalstore/causalstore/topology"
)

// ShardMember runs one member of a shard's group: a member.Storage with a log and a storage of its own, and while this
// member serves, a Middleman on the replicated storage.
//
// Locks: that of the Middleman is taken before that of the ShardMember, never after it.
type ShardMember struct {
	*groupHost[*member.Storage]
	options ShardMemberOptions
	local   storage.Store
	health  storeHealth
	pages   pageCache
	lost    sync.Once
	running sync.WaitGroup // the goroutines of this file

	// What follows is guarded by host.mu.
	tasks     []member.StorageTask
	hasTasks  sync.Cond // tasks, or suspended or ending, have changed
	busy      bool      // a task is being carried out
	suspended bool      // no task is begun
	done      []uint64
	proposals map[uint64]chan error

	session  uint64    // in which this member serves; 0: it does not
	sessions sync.Cond // session has changed, or ending
	serving  *Middleman
	topo     *topology.Topology
	ready    uint64            // the session for which a middleman has been started
	told     causal.Leadership // the leadership that was announced last
	gates    sync.Cond         // a gate that was closed may be open, or will never be again
	awaiting int               // how many wait for gates
	ending   bool

	configuring sync.Mutex // held while a topology is set
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
	sm := &ShardMember{options: o, local: mo.Store, topo: mo.Config.Topology, proposals: map[uint64]chan error{}}
	sm.groupHost = newGroupHost(groupOptions[*member.Storage]{self: mo.Config.Self, member: o.Member, clock: mo.Clock,
		net: mo.Net, dir: o.Dir, fs: o.FS,
		maxLogBytes: o.MaxLogBytes, register: o.Register, logger: mo.Logger,
		unwritable: "the log of the shard cannot be written; writes wait until it can",
		build:      sm.build, suspend: sm.suspendTasks, isSettled: func(*member.Storage) bool {
			return true
		}, setDiskFull: func(*member.Storage, bool) {},
		leadership: sm.leadershipOf, onFailure: mo.OnFailure, onLeadership: sm.announce})
	for _, c := range []*sync.Cond{&sm.hasTasks, &sm.sessions, &sm.gates} {
		c.L = &sm.mu
	}
	sm.health.init(mo.Logger)
	sm.collectRequests = sm.collectAll
	if err := sm.start(); err != nil {
		return nil, err
	}
	sm.running.Go(sm.runTasks)
	sm.running.Go(sm.serve)
	sm.running.Go(sm.watchStore)
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
func (sm *ShardMember) build(v *opened, damaged bool) (*member.Storage, error) {
	ctx, cancel := context.WithTimeout(sm.ctx, storageTimeout)
	defer cancel()
	found, empty, err := readApplied(ctx, sm.local)
	if err != nil {
		return nil, err
	}
	o := &sm.options
	cfg := member.StorageConfig{Self: sm.MemberNode(), Topology: sm.topo, Volume: v.id, Damaged: damaged, Found: found,
		Empty:       empty,
		MaxLogBytes: int(min(o.MaxLogBytes, member.MaxLogBytesInMemory)), RetainBytes: o.RetainBytes,
		Broken: o.Middleman.Config.Broken}
	m := member.NewStorage(cfg, &v.image, o.Middleman.Clock())
	v.image = group.Image{} // the machine has it
	sm.tasks = nil
	return m, nil
}

// collectAll takes what the machine asks for after a step.
func (sm *ShardMember) collectAll() {
	if s := sm.m.Session(); s != sm.session {
		sm.session = s
		sm.failProposals(errNotServing) // what was proposed in an earlier session is never reported as done
		sm.sessions.Signal()
	}
	sm.done = sm.m.Done(sm.done[:0])
	for _, id := range sm.done {
		if c, ok := sm.proposals[id]; ok {
			delete(sm.proposals, id)
			c <- nil
		}
	}
	had := len(sm.tasks)
	if sm.tasks = sm.m.Tasks(sm.tasks); len(sm.tasks) > had {
		sm.hasTasks.Signal()
	}
	sm.collect()
	if sm.awaiting > 0 {
		sm.gates.Broadcast()
	}
}

// leadershipOf returns the leadership in which the machine serves, once there is a middleman for it.
func (sm *ShardMember) leadershipOf(m *member.Storage) causal.Leadership {
	if sm.session == 0 || sm.ready != sm.session || sm.ending {
		return causal.Leadership{}
	}
	return m.Leadership()
}

// announce passes a leadership on. From then on the middleman of it may act.
func (sm *ShardMember) announce(l causal.Leadership) {
	if sm.options.OnLeadership != nil {
		sm.options.OnLeadership(l)
	}
	sm.mu.Lock()
	sm.told = l
	mm := sm.serving
	sm.gates.Broadcast()
	sm.mu.Unlock()
	if mm != nil && !l.IsZero() {
		mm.Tick() // ticks were dropped
	}
}

// sessionGate admits inputs to the middleman of a session while the group holds its lease, that is, while no other
// member can serve.
type sessionGate struct {
	sm      *ShardMember
	session uint64
}

// isOpen implements gate.
func (g sessionGate) isOpen(now causal.Now) bool {
	g.sm.mu.Lock()
	defer g.sm.mu.Unlock()
	return g.sm.mayAct(g.session, now)
}

// await implements gate.
func (g sessionGate) await() bool {
	sm := g.sm
	sm.mu.Lock()
	defer sm.mu.Unlock()
	sm.awaiting++
	defer func() { sm.awaiting-- }()
	for sm.session == g.session && !sm.ending && !sm.stopped {
		if sm.mayAct(g.session, sm.clock()) {
			return true
		}
		sm.gates.Wait()
	}
	return false
}

// mayAct reports whether the middleman of a session may get inputs. Called with the lock held.
func (sm *ShardMember) mayAct(session uint64, now causal.Now) bool {
	return sm.session == session && !sm.told.IsZero() && sm.told == sm.leadership && sm.m.HoldsLease(now)
}

// serve starts and stops the middleman as sessions begin and end.
func (sm *ShardMember) serve() {
	for served := uint64(0); ; {
		sm.mu.Lock()
		for sm.session == served && !sm.ending {
			sm.sessions.Wait()
		}
		session, ending, old := sm.session, sm.ending, sm.serving
		sm.serving = nil
		sm.mu.Unlock()
		if old != nil {
			old.Close()
		}
		if ending {
			return
		}
		if served = session; session != 0 {
			sm.startServing(session)
		}
	}
}

// isServing reports whether a session goes on.
func (sm *ShardMember) isServing(session uint64) bool {
	sm.mu.Lock()
	defer sm.mu.Unlock()
	return session != 0 && sm.session == session && !sm.ending
}

// startServing starts the middleman of a session. What fails is tried again, unless the session has ended, for as long
// as a call to a storage may take. Meanwhile the group hands over, if there is a member that does not fail.
func (sm *ShardMember) startServing(session uint64) {
	ctx, cancel := context.WithTimeout(sm.ctx, storageTimeout)
	defer cancel()
	for wait := (retry.Backoff{First: diskRetryFirst, Max: diskRetryMax}); sm.isServing(session); {
		o := sm.options.Middleman
		sm.mu.Lock()
		o.Config.Topology = sm.topo
		sm.mu.Unlock()
		o.Store, o.gate = &replicatedStore{Store: sm.local, sm: sm, session: session}, sessionGate{sm, session}
		o.OnFailure = func(err error) {
			if sm.isServing(session) {
				sm.options.Middleman.OnFailure(err)
			}
		}
		mm, err := NewMiddleman(ctx, o)
		if err == nil {
			mm.SetAlarm(sm.raiseAlarm)
			sm.setCannotServe(false)
			sm.publish(mm, session, o.Config.Topology)
			return
		}
		sm.setCannotServe(true)
		select {
		case <-time.After(wait.Next()):
		case <-ctx.Done():
			o.OnFailure(fmt.Errorf("start the middleman on this member: %w", err))
			return
		}
	}
}

// setCannotServe tells the machine whether a middleman has failed to start here, until one starts or the topology
// changes.
func (sm *ShardMember) setCannotServe(cannot bool) {
	sm.step(func(now causal.Now, m *member.Storage) { m.SetCannotServe(now, cannot) })
}

// publish makes mm get the inputs from now on. It was made under the topology t.
func (sm *ShardMember) publish(mm *Middleman, session uint64, t *topology.Topology) {
	sm.configuring.Lock()
	defer sm.configuring.Unlock()
	sm.step(func(causal.Now, *member.Storage) {
		sm.serving = mm // serve closes it if the session has ended
		sm.ready = session
	})
	sm.mu.Lock()
	now, published := sm.topo, sm.serving == mm
	sm.mu.Unlock()
	if !published { // this member has stopped
		mm.Close()
		return
	}
	if now == t {
		return
	}
	if err := mm.SetTopology(now); err != nil && sm.isServing(session) {
		sm.options.Middleman.OnFailure(fmt.Errorf("set the topology of a middleman that has just started: %w", err))
	}
}

// HandOver, Status and the like are those of groupHost.

// AcceptLoss gives up what the members held, whose volumes are all lost or absent: a group that has nothing begins at
// this member, and the shard gets its data from other rings. The caller is a person who has seen the given epoch.
func (sm *ShardMember) AcceptLoss(epoch uint64) (err error) {
	sm.step(func(now causal.Now, m *member.Storage) {
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
func (sm *ShardMember) SetTopology(t *topology.Topology) error {
	sm.configuring.Lock()
	defer sm.configuring.Unlock()
	sm.mu.Lock()
	mm, session := sm.serving, sm.session
	sm.mu.Unlock()
	if mm != nil {
		if err := mm.SetTopology(t); err != nil && sm.isServing(session) {
			return err
		}
	}
	sm.step(func(now causal.Now, m *member.Storage) {
		sm.topo = t
		m.SetTopology(now, t)
		m.SetCannotServe(now, false)
	})
	return nil
}

// Close stops the member. Coordinators send unacknowledged puts again to whoever serves next; HandOver, before, makes
// that soon. The store stays open.
func (sm *ShardMember) Close() error {
	sm.end()
	return sm.close()
}

// Crash stops the member immediately, as kill -9 does.
func (sm *ShardMember) Crash() error {
	sm.stop()
	sm.end()
	return sm.crash()
}

// end stops the middleman, and waits until nothing is done to the storage.
func (sm *ShardMember) end() {
	sm.mu.Lock()
	sm.ending = true
	sm.failProposals(errNotServing)
	sm.hasTasks.Broadcast()
	sm.sessions.Broadcast()
	sm.gates.Broadcast()
	sm.mu.Unlock()
	sm.cancel()
	sm.running.Wait()
}
