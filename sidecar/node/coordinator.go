package node

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/coordinator"
	"github.com/causalstore/causalstore/sidecar/causal/group"
	"github.com/causalstore/causalstore/sidecar/causal/member"
	"github.com/causalstore/causalstore/sidecar/register"
	"github.com/causalstore/causalstore/sidecar/transport"
	"github.com/causalstore/causalstore/sidecar/value"
	"github.com/causalstore/causalstore/sidecar/wal"
	"github.com/causalstore/causalstore/topology"
)

// Coordinator runs one member of a coordinator: a member.Coordinator with a write-buffer log, and with the register of
// its group.
type Coordinator struct {
	*groupHost[*member.Coordinator]
	options CoordinatorOptions
	room    putRoom
	refuses bool // further puts; guarded by host.mu
}

// CoordinatorOptions configures a Coordinator.
type CoordinatorOptions struct {
	Config coordinator.Config
	// Member is the number of this member of the coordinator's group; 0: 1.
	Member uint8
	Clock  Clock
	Net    transport.Network
	// Dir is the directory of the log on the file system FS; nil: vfs.Default.
	Dir string
	FS  vfs.FS
	// MaxLogBytes bounds the log on disk; 0: wal.DefaultMaxBytes. At nine tenths of it, puts are refused. With a
	// register, the log is also in memory, and bounded by member.MaxLogBytesInMemory.
	MaxLogBytes int64
	// Register holds the configuration of the group; nil: the group has one member for ever.
	Register register.Register
	Logger   *slog.Logger
	// OnFailure is called once if the log fails. The coordinator then acknowledges nothing more.
	OnFailure func(error)
	// OnLeadership, if not nil, is called when this member begins to serve, and with no leadership when it ends. Calls
	// are in order, and a call comes before what is sent in the leadership.
	OnLeadership func(causal.Leadership)
}

// NewCoordinator opens the log. A member without a register resumes the writes in it, and serves from then on. The
// caller registers Handle with the network afterwards.
func NewCoordinator(o CoordinatorOptions) (*Coordinator, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	o.Config.Types = value.Shipped()
	c := &Coordinator{options: o, room: putRoom{patience: diskPatience}}
	c.groupHost = newGroupHost(groupOptions[*member.Coordinator]{self: o.Config.Self, member: o.Member, clock: o.Clock,
		net: o.Net, dir: o.Dir, fs: o.FS,
		maxLogBytes: o.MaxLogBytes, register: o.Register, logger: o.Logger,
		unwritable: "the write buffer log cannot be written; writes are refused until it can",
		build:      c.build, isSettled: (*member.Coordinator).IsSettled,
		leadership: (*member.Coordinator).Leadership, onFailure: o.OnFailure, onLeadership: o.OnLeadership})
	c.collectRequests = func() {
		c.collect()
		if n := c.m.UndurableBytes(); n != c.room.bytes {
			c.room.note(c.clock(), n)
		}
	}
	if err := c.start(); err != nil {
		return nil, err
	}
	c.run()
	return c, nil
}

// complete checks the options and fills in the defaults.
func (o *CoordinatorOptions) complete() error {
	if o.MaxLogBytes == 0 {
		o.MaxLogBytes = wal.DefaultMaxBytes
	}
	if o.MaxLogBytes < MinLogBytes {
		return fmt.Errorf(
			"a write buffer log of at most %d bytes is too small: set at least %d, so that the largest value fits "+
				"twice", o.MaxLogBytes, MinLogBytes)
	}
	if o.FS == nil {
		o.FS = vfs.Default
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Member == 0 {
		o.Member = 1
	}
	if n := len(o.Config.Topology.MembersOf(o.Config.Self)); n > 1 && o.Register == nil {
		return fmt.Errorf(
			"the topology gives each coordinator %d members, which need a register for their configuration: "+
				"configure one, or set coordinatorMembers to 1", n)
	}
	return nil
}

// build makes the machine. One that takes the place of another one goes on with what that was told.
func (c *Coordinator) build(v *opened, damaged bool) (*member.Coordinator, error) {
	o := &c.options
	cfg := member.Config{Coordinator: o.Config, Member: o.Member, Volume: v.id, Damaged: damaged,
		Register: o.Register != nil, MaxLogBytes: int(o.MaxLogBytes)}
	if cfg.Register {
		cfg.MaxLogBytes = c.maxLogInMemory()
	}
	if c.m != nil {
		cfg.Coordinator.Topology = c.m.Topology()
	}
	m := member.New(cfg, &v.image, o.Clock())
	v.image = group.Image{} // the machine has it
	if c.refuses {
		m.RefusePuts()
	}
	if cfg.Register {
		return m, nil
	}
	return m, m.StartAlone(o.Clock(), func(entries []group.Entry) error { return c.appendAtStart(v.log, entries) })
}

// AcceptLoss gives up the log, which is lost with all volumes of the group: it starts over with what the shards hold.
// The caller is a person who has seen the given epoch.
func (c *Coordinator) AcceptLoss(epoch uint64) (err error) {
	c.step(func(now causal.Now, m *member.Coordinator) {
		if s := m.Status(); s.Config.Epoch != epoch {
			err = fmt.Errorf("this member knows epoch %d, and not epoch %d any more: look again", s.Config.Epoch, epoch)
			return
		}
		err = m.AcceptLoss(now)
	})
	return err
}

// RefusePuts makes the coordinator refuse further puts, because it is about to stop. Sidecars learn that nothing was
// written and retry at another coordinator. Writes that were accepted before continue to propagate.
func (c *Coordinator) RefusePuts() {
	c.step(func(_ causal.Now, m *member.Coordinator) {
		c.refuses = true
		m.RefusePuts()
	})
}

// SetTopology replaces the topology by one that differs only in the numbers of coordinators and their members, shards
// and caches.
func (c *Coordinator) SetTopology(t *topology.Topology) {
	c.step(func(now causal.Now, m *member.Coordinator) { m.SetTopology(now, t) })
}

// closeWait bounds how long Close waits for other members to make accepted writes durable.
const closeWait = 5 * time.Second

// Close stops the coordinator once all accepted writes are durable. answered says that they are, that their replies
// have been passed to the network, and that no later put is accepted.
func (c *Coordinator) Close() (answered bool, err error) {
	giveUp := time.AfterFunc(closeWait, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.abandoned = !c.writer.HasCollected() // what is here is still written
		c.wake.Signal()
	})
	defer giveUp.Stop()
	err = c.close()
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.logFailed.Load() && c.m.IsSettled(), err
}

// Crash stops the coordinator immediately, as kill -9 does. Writes that are not durable are lost.
func (c *Coordinator) Crash() error { return c.crash() }
