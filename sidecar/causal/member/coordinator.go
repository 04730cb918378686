// Package member is the state machine of one member of a coordinator's group (PROTOCOL CGR): a group.Group that
// holds the write-buffer log, and while this member serves, the coordinator.Coordinator whose log that is.
//
// The coordinator's machine is built from the log when the group begins to serve here, and dropped when it stops. It
// gets a message, a tick or a completion only while the group holds its lease, that is, while no other member can
// serve. So to all others a failover is a crash and a restart of the coordinator from a log that has lost nothing, and
// at any time at most one machine acts for the node.
//
// Failure model: those of packages group and coordinator. The simulator and package node host the same code.
package member

import (
	"fmt"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/coordinator"
	"github.com/causalstore/causalstore/sidecar/causal/group"
	"github.com/causalstore/causalstore/topology"
)

// Config configures a Coordinator.
type Config struct {
	// Coordinator configures the coordinator's machine. Self is the node, without a member; Incarnation is set here.
	Coordinator coordinator.Config
	// Member is the number of this member, 1 to topology.MaxMembers, and Volume the id of its volume.
	Member uint8
	Volume uint64
	// Damaged says that the volume holds less than it had acknowledged.
	Damaged bool
	// Register says that there is a register. Without one, the group has one member for ever.
	Register bool
	// MaxLogBytes bounds the log, in memory too if there is a register. At nine tenths of it, puts are refused. 0:
	// MaxLogBytesInMemory.
	MaxLogBytes int
	// CollectBytes is about how much of the log is collected at a time; 0: 1 MiB.
	CollectBytes int
	// Tune changes the options of the group; nil: the defaults.
	Tune func(*group.Options)
}

// reserveBytes is the room in the log beyond its bound: for the last write that was accepted below that, and for the
// checkpoints without which nothing can be collected.
const reserveBytes = 32 << 20

// Coordinator is the state machine of one member of a coordinator's group.
//
// Invariants: machine is not nil only between the group's Lead and Stop. It was built from a log that is committed as a
// whole, and every record that it has emitted since is in backlog or in the log, in its order and under the position
// that the machine knows it by.
type Coordinator struct {
	groupMember
	cfg Config

	machine     *coordinator.Coordinator
	machineTopo *topology.Topology
	deposed     *coordinator.Coordinator // used with the mutation KeepMachine only
	committed   uint64                   // the group has committed the log up to here
	completed   uint64                   // the machine was told so
	records     recordQueue
	refusesPuts bool
	diskFull    bool
	failure     error // the log cannot be read
	left        leftInquiry
	asMember    []causal.Message // what is sent as this member, and not as the coordinator

	appends []coordinator.LogRecord
}

// New starts a member on a disk that holds image.
func New(cfg Config, image *group.Image, now causal.Now) *Coordinator {
	if cfg.MaxLogBytes == 0 {
		cfg.MaxLogBytes = MaxLogBytesInMemory
	}
	if cfg.CollectBytes == 0 {
		cfg.CollectBytes = defaultCollectBytes
	}
	c := &Coordinator{cfg: cfg}
	c.groupMember = groupMember{self: cfg.Coordinator.Self.WithMember(cfg.Member), topo: cfg.Coordinator.Topology,
		now: now, settle: c.settleMachine}
	c.formats = newMemberFormats(cfg.Coordinator.Types.Reads(), cfg.Coordinator.Broken)
	o := group.DefaultOptions(group.ID{Name: nameOf(c.self), Volume: cfg.Volume})
	o.Damaged, o.Register, o.Broken = cfg.Damaged, cfg.Register, cfg.Coordinator.Broken
	o.MaxLogBytes = cfg.MaxLogBytes + reserveBytes
	if !cfg.Register {
		o.MaxUncommittedBytes = o.MaxLogBytes // nobody else has to follow
	}
	if cfg.Tune != nil {
		cfg.Tune(&o)
	}
	c.group = group.New(o, image, now)
	c.group.SetDesired(now, c.desired())
	return c
}

// serves reports whether the machine may act: it is built, and no other member can have one that acts.
func (c *Coordinator) serves(now causal.Now) bool {
	return c.machine != nil && c.group.HoldsLease(now)
}

// Step handles one message: of another member, or to the coordinator.
func (c *Coordinator) Step(now causal.Now, m *causal.Message) {
	c.now = now
	switch {
	case m.Kind == causal.KindGroup:
		c.stepGroup(now, m)
	case c.IsAboutFormats(m):
		c.stepFormats(now, m)
	case c.isAsMember(m):
		c.stepAsMember(now, m)
	case c.serves(now):
		c.machine.Step(now, m)
	}
	c.settle(now)
}

// Tick does what is due.
func (c *Coordinator) Tick(now causal.Now) {
	c.now = now
	if c.serves(now) && c.machine.Membership() == coordinator.Salvaging { // what is collected is in memory only
		c.group.Stay(now)
	}
	c.group.Tick(now)
	c.settle(now)
	c.askWhetherLeft(now)
	c.askFormats(now)
	if c.serves(now) {
		// not while it completes what was found of a log that was given up
		c.group.SetWhole(c.machine.Membership() == coordinator.Serving)
		c.machine.Tick(now)
		c.settle(now)
	}
}

// NextTick returns when Tick has something to do next, if no input comes before.
func (c *Coordinator) NextTick(now causal.Now) int64 {
	next := c.group.NextTick(now)
	if c.serves(now) {
		next = min(next, c.machine.NextTick(now))
	}
	if c.self.Group() != c.topo.Leader(c.self.DC) && c.group.OnlyNewVolumes() {
		next = min(next, c.left.askAt)
	}
	return next
}

// LinkUp says that a node, or another member of the group, can be reached again: what was on its way there may be lost.
func (c *Coordinator) LinkUp(now causal.Now, n topology.Node) {
	c.now = now
	switch {
	case n.Member != 0 && n.Group() == c.self.Group():
		c.group.LinkUp(now, nameOf(n))
	case c.serves(now):
		c.machine.LinkUp(now, n)
	}
	c.settle(now)
}

// NoteFullDisk says that the disk has no room for the entries on their way, which are tried again. Puts are refused if
// nobody else has a disk for them; otherwise they wait, since another member takes over.
func (c *Coordinator) NoteFullDisk() {
	c.group.NoteFullDisk()
	c.SetDiskFull(len(c.group.Status().Config.Members) < 2)
}

// Appended says that the entries up to an index are durable on the disk.
func (c *Coordinator) Appended(now causal.Now, index uint64) {
	c.now = now
	c.group.Appended(now, index)
	if c.cfg.Coordinator.Broken.Has(causal.CompleteUncommitted) && c.machine != nil {
		c.committed = c.records.next - 1 - uint64(len(c.records.waiting))
	}
	c.settle(now)
}

// AcceptLoss says that a person gives up the log, which is lost with all volumes of the group: it starts over with what
// the shards hold. If the volumes have been lost while the group was in the register, the group starts over first.
func (c *Coordinator) AcceptLoss(now causal.Now) (err error) {
	c.now = now
	switch {
	case c.serves(now):
		err = c.machine.AcceptLoss(now)
	default:
		err = c.group.AcceptLoss(now)
	}
	c.settle(now)
	return err
}

// RefusePuts makes the coordinator refuse every further put, because the process is about to stop.
func (c *Coordinator) RefusePuts() {
	c.refusesPuts = true
	if c.machine != nil {
		c.machine.RefusePuts()
	}
}

// HasRoom reports whether a put has room beside those that are not durable yet, or is not accepted for another reason.
func (c *Coordinator) HasRoom(put *causal.Message) bool {
	p := put.Put()
	return c.machine == nil || c.machine.HasRoom(put.From, &p)
}

// UndurableBytes returns about what the puts take that were accepted and are not durable yet, in bytes.
func (c *Coordinator) UndurableBytes() int {
	if c.machine == nil {
		return 0
	}
	return c.machine.UndurableBytes()
}

// SetDiskFull says whether puts are to be refused because the log on the disk has no room.
func (c *Coordinator) SetDiskFull(full bool) {
	c.diskFull = full
	c.limitPuts()
}

// settleMachine carries what the group says to the machine and what the machine logs to the group, until nothing is
// left to be done now.
func (c *Coordinator) settleMachine(now causal.Now) {
	for {
		c.events = c.group.Events(c.events[:0])
		for i := range c.events {
			c.handle(now, &c.events[i])
		}
		if len(c.events) == 0 && !c.advance(now) {
			return
		}
		clear(c.events) // a Lead refers to the whole log
	}
}

// handle takes in what the group says.
func (c *Coordinator) handle(now causal.Now, e *group.Event) {
	switch e.Kind {
	case group.Lead:
		c.lead(now, e)
	case group.Committed:
		c.committed = e.Position
		c.records.release(e.Position)
		c.records.measure(now, e.Position, &c.stats.Commits)
	case group.Stop:
		if c.cfg.Coordinator.Broken.Has(causal.KeepMachine) {
			c.deposed = c.machine
		}
		c.machine, c.records = nil, recordQueue{}
	case group.Reset:
		c.reset = true
	}
}

// lead builds the coordinator from the log.
func (c *Coordinator) lead(now causal.Now, e *group.Event) {
	c.records = recordQueue{next: e.Position + 1, recycle: !c.cfg.Register, collectBytes: c.cfg.CollectBytes}
	replay := make([]coordinator.Logged, 0, len(e.Records))
	for i := range e.Records {
		r := &e.Records[i]
		record, err := coordinator.ParseLogRecord(r.Data)
		if err != nil {
			c.failure = fmt.Errorf("read record %d of the log: %w", r.Position, err) // another version has written it
			return
		}
		replay = append(replay, coordinator.Logged{Index: r.Position, LogRecord: record})
		c.records.noteAppended(r.Position, len(r.Data))
		r.Data = nil // the record has a copy
	}
	cfg := c.cfg.Coordinator
	cfg.MembersRead = c.membersRead
	cfg.Topology, cfg.Incarnation, cfg.Leadership = c.topo, c.incarnation(now), c.group.Leadership(now)
	c.machine, c.machineTopo = coordinator.New(cfg, now, replay, c.records.next), c.topo
	if c.deposed != nil {
		c.machine = c.deposed
	}
	c.committed, c.completed = e.Position, e.Position
	if c.refusesPuts {
		c.machine.RefusePuts()
	}
}

// incarnation returns a number that no other leadership of the node has: a volume has each of its lives once, and a
// life has one session in an epoch.
func (c *Coordinator) incarnation(now causal.Now) uint64 {
	l := c.group.Leadership(now)
	return topology.Hash(fmt.Sprintf("%d %d %d", c.cfg.Volume, l.Epoch, l.Life))
}

// advance tells the machine what is committed, and appends what it has logged. It reports whether the machine has done
// anything.
func (c *Coordinator) advance(now causal.Now) (acted bool) {
	if !c.serves(now) {
		return false
	}
	if c.machineTopo != c.topo {
		c.machineTopo, acted = c.topo, true
		c.machine.SetTopology(now, c.topo)
	}
	if c.completed < c.committed {
		c.completed, acted = c.committed, true
		c.machine.Appended(now, c.committed)
	}
	c.appends = c.machine.Appends(c.appends[:0])
	c.records.push(now, c.appends)
	clear(c.appends)
	c.records.appendTo(now, c.group)
	if before := c.records.collectable(c.machine.TruncateBefore()); before > 0 {
		c.group.Collect(now, before)
	}
	c.limitPuts()
	return acted
}

// limitPuts makes the machine refuse puts while the log has no room for more.
func (c *Coordinator) limitPuts() {
	if c.machine != nil {
		c.machine.SetLogFull(c.diskFull || c.LogBytes() > c.cfg.MaxLogBytes-c.cfg.MaxLogBytes/10)
	}
}
