package node

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/group"
	"github.com/causalstore/causalstore/sidecar/causal/member"
	"github.com/causalstore/causalstore/sidecar/causal/process"
	"github.com/causalstore/causalstore/sidecar/register"
	"github.com/causalstore/causalstore/sidecar/transport"
	"github.com/causalstore/causalstore/sidecar/wal"
	"github.com/causalstore/causalstore/topology"
)

// groupMachine is the interface that the machines of members of groups share.
type groupMachine interface {
	machine
	LinkUp(now causal.Now, n topology.Node)
	HandOver(now causal.Now)
	process.LogMember
	RegisterOps(dst []group.RegisterOp) []group.RegisterOp
	RegisterDone(now causal.Now, res group.RegisterResult)
	RegisterChanged(now causal.Now)
	Leadership() causal.Leadership
	AcceptRegister(now causal.Now)
	Status() group.Status
	Count() member.Count
	Health(now causal.Now) group.Health
	Stats() member.Stats
	LogBytes() int
	Failure() error
}

// groupHost runs one member of a group: a machine with a log on a volume, and with the register of its group.
type groupHost[M groupMachine] struct {
	*host[M]
	o      groupOptions[M]
	logger *slog.Logger
	volume volume
	disk   *diskHealth

	// ctx ends when the member is stopped; requests are those to the register.
	ctx      context.Context
	cancel   context.CancelFunc
	requests sync.WaitGroup
	key      register.Key // nil without a register

	// The rest is guarded by host.mu.
	wake       sync.Cond // there is work for appendLoop
	log        *wal.Log  // nil: the volume is damaged
	writer     *process.LogWriter
	ops        []group.RegisterOp
	life       int // counts machines
	leadership causal.Leadership
	closing    bool
	abandoned  bool // what is not durable is given up

	appenderDone chan struct{}
	failed       sync.Once
	logFailed    atomic.Bool
}

// groupOptions configures a groupHost. All of them but register, onFailure and onLeadership are required.
type groupOptions[M groupMachine] struct {
	self        topology.Node // the node
	member      uint8
	clock       Clock
	net         transport.Network
	dir         string
	fs          vfs.FS
	maxLogBytes int64
	register    register.Register
	logger      *slog.Logger
	// unwritable is logged when the log cannot be written.
	unwritable string
	// build makes the machine on a volume, which may be damaged. Called before the host runs, and again with host.mu
	// held.
	build func(v *opened, damaged bool) (M, error)
	// suspend, if not nil, is called without the lock before a machine is replaced; what it returns is called
	// afterwards.
	suspend func() (resume func())
	// isSettled reports whether nothing waits to be committed that a stopping member has to wait for.
	isSettled func(M) bool
	// leadership returns the leadership to be announced.
	leadership   func(M) causal.Leadership
	onFailure    func(error)
	onLeadership func(causal.Leadership)
}

// newGroupHost opens the volume and builds the machine. run starts it.
func newGroupHost[M groupMachine](o groupOptions[M]) *groupHost[M] {
	c := &groupHost[M]{o: o, logger: o.logger, volume: volume{o.fs, o.dir}, appenderDone: make(chan struct{}),
		disk: newDiskHealth(o.logger, o.unwritable)}
	var none M
	c.host = newHost(o.self, o.clock, o.net, none)
	c.wake.L = &c.mu
	c.collectRequests = c.collect
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

// run begins to append to the log and to use the register. start has succeeded.
func (c *groupHost[M]) run() {
	if c.o.register != nil {
		c.key = c.o.register.Key(register.KeyOf(c.o.self), func() {
			c.step(func(now causal.Now, m M) { m.RegisterChanged(now) })
		})
	}
	go c.appendLoop()
	if c.o.register != nil {
		c.step(func(causal.Now, M) {}) // what the start has asked for
	}
}

// start opens the volume and builds the machine.
func (c *groupHost[M]) start() error {
	o := &c.o
	segment := min(segmentBytes, o.maxLogBytes/2)
	v, err := c.volume.open(wal.Options{FS: o.fs, Logger: o.logger, MaxBytes: o.maxLogBytes + segment + logReserve,
		SegmentBytes: segment})
	isDamaged := false
	if damage, ok := errors.AsType[*wal.CorruptError](err); ok && o.register != nil {
		o.logger.Error("the volume holds less than it had acknowledged; waiting until the other members do without it",
			"error", damage)
		isDamaged = true
		v, err = c.volume.damaged()
	}
	if err != nil {
		return err
	}
	m, err := o.build(v, isDamaged)
	if err != nil {
		if v.log != nil {
			err = errors.Join(err, v.log.Close())
		}
		return err
	}
	c.m, c.log, c.writer = m, v.log, process.NewLogWriter(m, isDamaged, causal.Mutations{})
	c.life++
	return nil
}

// collect takes what the machine asks for after a step.
func (c *groupHost[M]) collect() {
	if c.writer.Collect() || c.closing || c.m.NeedsReset() {
		c.wake.Signal()
	}
	c.ops = c.m.RegisterOps(c.ops[:0])
	for _, op := range c.ops {
		c.request(op)
	}
	if l := c.o.leadership(c.m); l != c.leadership {
		c.leadership = l
		c.noteLeadership(l)
	}
	if err := c.m.Failure(); err != nil {
		c.failed.Do(func() { go c.fail(err) })
	}
}

// noteLeadership makes the goroutine that sends announce a leadership, or its end. Each end is announced, also if the
// leadership goes on before that goroutine gets to it: between the two the machine has dropped what was sent to the
// node, so the others have to send that again. What was to be announced before an end need not be any more. Called with
// the lock held.
func (c *groupHost[M]) noteLeadership(l causal.Leadership) {
	if c.o.onLeadership == nil {
		return
	}
	if l.IsZero() {
		c.notices = c.notices[:0]
	}
	c.notices = append(c.notices, func() { c.o.onLeadership(l) })
}

// request carries out a request to the register. Called with the lock held.
func (c *groupHost[M]) request(op group.RegisterOp) {
	life := c.life
	if c.closing {
		return
	}
	c.requests.Go(func() {
		res := c.key.Do(c.ctx, op)
		c.step(func(now causal.Now, m M) {
			if c.life == life {
				m.RegisterDone(now, res)
			}
		})
	})
}

// HandOver makes another member serve, because this one is about to stop, if there is one that has everything. Status
// tells when that is done.
func (c *groupHost[M]) HandOver() {
	c.step(func(now causal.Now, m M) { m.HandOver(now) })
}

// LinkUp tells the machine that a node, or another member, is reachable again: what was on its way to it may be lost.
func (c *groupHost[M]) LinkUp(n topology.Node) {
	c.step(func(now causal.Now, m M) { m.LinkUp(now, n) })
}

// close stops the member once its log is written, or when abandoned is set.
func (c *groupHost[M]) close() error {
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
	return c.closeLog()
}

// crash stops the member immediately, as kill -9 does. What is not durable is lost.
func (c *groupHost[M]) crash() error {
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
func (c *groupHost[M]) leaveRegister() {
	c.cancel()
	c.requests.Wait()
	if c.key != nil {
		c.key.Close()
	}
}

func (c *groupHost[M]) closeLog() error {
	if c.log == nil {
		return nil
	}
	return c.log.Close()
}
