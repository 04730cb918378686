package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/coordinator"
	"github.com/causalstore/causalstore/sidecar/causal/group"
	"github.com/causalstore/causalstore/sidecar/causal/member"
	"github.com/causalstore/causalstore/sidecar/register"
	"github.com/causalstore/causalstore/sidecar/topology"
	"github.com/causalstore/causalstore/sidecar/transport"
	"github.com/causalstore/causalstore/sidecar/wal"
)

// Coordinator runs one member of a coordinator: a member.Coordinator with a write-buffer log, and with the register of its group.
type Coordinator struct {
	*host[*member.Coordinator]
	o      CoordinatorOptions
	logger *slog.Logger
	volume volume
	disk   *diskHealth

	// ctx ends when the coordinator is stopped; requests are those to the register.
	ctx      context.Context
	cancel   context.CancelFunc
	requests sync.WaitGroup
	key      register.Key // nil without a register

	// The rest is guarded by host.mu.
	wake       sync.Cond // there is work for appendLoop
	log        *wal.Log  // nil: the volume is damaged
	entries    []group.Entry
	ops        []group.RegisterOp
	life       int // counts machines
	leadership causal.Leadership
	closing    bool
	abandoned  bool // what is not durable is given up

	appenderDone chan struct{}
	failed       sync.Once
	logFailed    atomic.Bool
	truncated    uint64 // the log is truncated before this entry; used by appendLoop only
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
	// MaxLogBytes bounds the log on disk; 0: wal.DefaultMaxBytes. At nine tenths of it, puts are refused. With a register, the log is also in memory, and
	// bounded by member.MaxLogBytesInMemory.
	MaxLogBytes int64
	// Register holds the configuration of the group; nil: the group has one member for ever.
	Register register.Register
	Logger   *slog.Logger
	// OnFailure is called once if the log fails. The coordinator then acknowledges nothing more.
	OnFailure func(error)
	// OnLeadership, if not nil, is called when this member begins to serve, and with no leadership when it ends. Calls are in order, and a call comes before
	// what is sent in the leadership.
	OnLeadership func(causal.Leadership)
}

// NewCoordinator opens the log. A member without a register resumes the writes in it, and serves from then on. The caller registers Handle with
// the network afterwards.
func NewCoordinator(o CoordinatorOptions) (*Coordinator, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	c := &Coordinator{o: o, logger: o.Logger, volume: volume{o.FS, o.Dir}, appenderDone: make(chan struct{}),
		disk: newDiskHealth(o.Logger, "the write buffer log cannot be written; writes are refused until it can")}
	c.host = newHost[*member.Coordinator](o.Config.Self, o.Clock, o.Net, nil)
	c.wake.L = &c.mu
	if err := c.start(); err != nil {
		return nil, err
	}
	c.collectRequests = c.collect
	c.ctx, c.cancel = context.WithCancel(context.Background())
	if o.Register != nil {
		c.key = o.Register.Key(register.KeyOf(o.Config.Self), func() {
			c.step(func(now causal.Now, m *member.Coordinator) { m.RegisterChanged(now) })
		})
	}
	go c.appendLoop()
	if o.Register != nil {
		c.step(func(causal.Now, *member.Coordinator) {}) // what the start has asked for
	}
	return c, nil
}

// complete checks the options and fills in the defaults.
func (o *CoordinatorOptions) complete() error {
	if o.MaxLogBytes == 0 {
		o.MaxLogBytes = wal.DefaultMaxBytes
	}
	if o.MaxLogBytes < MinLogBytes {
		return fmt.Errorf("a write buffer log of at most %d bytes is too small: set at least %d, so that the largest value fits twice", o.MaxLogBytes, MinLogBytes)
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
		return fmt.Errorf("the topology gives each coordinator %d members, which need a register for their configuration: configure one, or set coordinatorMembers to 1", n)
	}
	return nil
}

// start opens the volume and builds the machine.
func (c *Coordinator) start() error {
	o := &c.o
	cfg := member.Config{Coordinator: o.Config, Member: o.Member, Register: o.Register != nil, MaxLogBytes: int(o.MaxLogBytes)}
	if cfg.Register {
		cfg.MaxLogBytes = c.maxLogInMemory()
	}
	segment := min(segmentBytes, o.MaxLogBytes/2)
	v, err := c.volume.open(wal.Options{FS: o.FS, Logger: o.Logger, MaxBytes: o.MaxLogBytes + segment + logReserve, SegmentBytes: segment})
	if damage, ok := errors.AsType[*wal.CorruptError](err); ok && cfg.Register {
		o.Logger.Error("the volume holds less than it had acknowledged; waiting until the other members do without it", "error", damage)
		cfg.Damaged = true
		v, err = c.volume.damaged()
	}
	if err != nil {
		return err
	}
	cfg.Volume = v.id
	m := member.New(cfg, &v.image, o.Clock())
	v.image = group.Image{} // the machine has it
	if !cfg.Register {
		if err := m.StartAlone(o.Clock(), func(entries []group.Entry) error { return c.appendAtStart(v.log, entries) }); err != nil {
			return errors.Join(err, v.log.Close())
		}
	}
	c.m, c.log, c.entries, c.truncated = m, v.log, nil, 0
	c.life++
	return nil
}

// collect takes what the machine asks for after a step.
func (c *Coordinator) collect() {
	had := len(c.entries)
	if c.entries = c.m.Writes(c.entries); len(c.entries) > had || c.closing || c.m.NeedsReset() {
		c.wake.Signal()
	}
	c.ops = c.m.RegisterOps(c.ops[:0])
	for _, op := range c.ops {
		c.request(op)
	}
	if l := c.m.Leadership(); l != c.leadership {
		c.leadership = l
		if c.o.OnLeadership != nil {
			c.notice = func() { c.o.OnLeadership(l) }
		}
	}
	if err := c.m.Failure(); err != nil {
		c.failed.Do(func() { go c.fail(err) })
	}
}

// request carries out a request to the register. Called with the lock held.
func (c *Coordinator) request(op group.RegisterOp) {
	life := c.life
	if c.closing {
		return
	}
	c.requests.Go(func() {
		res := c.key.Do(c.ctx, op)
		c.step(func(now causal.Now, m *member.Coordinator) {
			if c.life == life {
				m.RegisterDone(now, res)
			}
		})
	})
}

// RefusePuts makes the coordinator refuse further puts, because it is about to stop. Sidecars learn that nothing was written and
// retry at another coordinator. Writes that were accepted before continue to propagate.
func (c *Coordinator) RefusePuts() {
	c.step(func(_ causal.Now, m *member.Coordinator) { m.RefusePuts() })
}

// HandOver makes another member serve, because this one is about to stop, if there is one that has everything. Status tells when that is
// done.
func (c *Coordinator) HandOver() {
	c.step(func(now causal.Now, m *member.Coordinator) { m.HandOver(now) })
}

// AcceptRegister makes the group believe its register again, which is another one or older than the group: the configuration that this
// member knows, of the given epoch, continues there. The caller is a person who knows that no other member knows a higher one.
func (c *Coordinator) AcceptRegister(epoch uint64) (err error) {
	c.step(func(now causal.Now, m *member.Coordinator) {
		if s := m.Status(); acceptable(&s, epoch) != nil {
			err = acceptable(&s, epoch)
			return
		}
		m.AcceptRegister(now)
	})
	return err
}

// acceptable returns why the register cannot be accepted at a member, or nil.
func acceptable(s *group.Status, epoch uint64) error {
	switch {
	case s.Frozen == "":
		return errors.New("the group is not frozen, so there is nothing to accept")
	case s.Foreign:
		return fmt.Errorf("%s: to accept it would replace that one. Give each store a prefix of its own in etcd (register.etcd.prefix), or remove the key if that group is gone", s.Frozen)
	case s.Config.Epoch != epoch:
		return fmt.Errorf("this member knows epoch %d, and not epoch %d any more: look again", s.Config.Epoch, epoch)
	case s.Role == group.Following:
		return fmt.Errorf("member %s is the primary and is heard of: accept the register there", s.Config.Primary.Name)
	case s.Role != group.Serving && s.Role != group.Electing && s.Role != group.Aligning:
		return fmt.Errorf("this member is %s, and does not have the whole log: accept the register at another one", s.Role)
	}
	return nil
}

// SetTopology replaces the topology by one that differs only in the numbers of coordinators and their members, shards and caches.
func (c *Coordinator) SetTopology(t *topology.Topology) {
	c.step(func(now causal.Now, m *member.Coordinator) { m.SetTopology(now, t) })
}

// LinkUp tells the machine that a node, or another member, is reachable again: what was on its way to it may be lost.
func (c *Coordinator) LinkUp(n topology.Node) {
	c.step(func(now causal.Now, m *member.Coordinator) { m.LinkUp(now, n) })
}

// closeWait bounds how long Close waits for other members to make accepted writes durable.
const closeWait = 5 * time.Second

// Close stops the coordinator once all accepted writes are durable. answered says that they are, that their replies have been
// passed to the network, and that no later put is accepted.
func (c *Coordinator) Close() (answered bool, err error) {
	giveUp := time.AfterFunc(closeWait, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.abandoned = len(c.entries) == 0 // what is here is still written
		c.wake.Signal()
	})
	defer giveUp.Stop()
	c.mu.Lock()
	c.closing = true
	c.wake.Signal()
	c.mu.Unlock()
	<-c.appenderDone
	c.stop()
	c.leaveRegister()
	c.awaitSent()
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.logFailed.Load() && c.m.IsSettled(), c.closeLog()
}

// Crash stops the coordinator immediately, as kill -9 does. Writes that are not durable are lost.
func (c *Coordinator) Crash() error {
	c.stop()
	c.mu.Lock()
	c.closing, c.abandoned = true, true
	c.wake.Signal()
	c.mu.Unlock()
	<-c.appenderDone
	c.leaveRegister()
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closeLog()
}

// leaveRegister ends the requests to the register.
func (c *Coordinator) leaveRegister() {
	c.cancel()
	c.requests.Wait()
	if c.key != nil {
		c.key.Close()
	}
}

func (c *Coordinator) closeLog() error {
	if c.log == nil {
		return nil
	}
	return c.log.Close()
}
