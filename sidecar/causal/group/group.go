// Package group replicates one log over the members of a group (PROTOCOL GRP). One member, the primary, appends
// opaque records for its user; a record is committed when it is durable on all members of the configuration. The
// configuration is the value of a register that offers linearizable reads and compare-and-swap, e.g. a key in etcd; it
// is needed to change the configuration, and for nothing else. A group with one member may do without.
//
// Group is a pure machine, as those of the packages beside this one: messages, ticks, and completions of its own I/O go
// in, and messages, entries for the disk, requests to the register and events for the user come out.
//
// Failure model: messages are lost, late, duplicated and reordered. A member stops at any step and starts again from
// the entries that its disk had acknowledged, and perhaps some more. A disk that lost acknowledged entries is noticed
// (Options.Damaged) or is empty; in both cases the others go on without it. The register is unreachable, its answers
// are lost, and requests apply late. One that was restored from a backup has another cluster id or an older
// configuration; then nothing is changed until a person decides (AcceptRegister). If all volumes of a configuration are
// lost, the group says so and serves nothing.
package group

import (
	"slices"

	"github.com/causalstore/causalstore/sidecar/causal"
)

// Desired is what the group should look like.
type Desired struct {
	// Names are those that should be members. The first one creates the group, and is its primary when it can be. None:
	// as it is.
	Names []string
}

func (d Desired) has(name string) bool { return len(d.Names) == 0 || slices.Contains(d.Names, name) }

// Group is one member of a group.
//
// Invariants, of all members together (PROTOCOL GRP):
//   - a record that is committed in a configuration is durable on all of its members, and on all members that it may
//     turn into unnoticed;
//   - a member takes part in sessions in ascending order, also across restarts;
//   - who begins a session is a member of the configuration in whose epoch it begins, and serves once all members have
//     its log.
type Group struct {
	opts Options
	self ID

	out    []Message
	writes []Entry
	ops    []RegisterOp
	events []Event

	state  State
	log    log
	commit uint64 // may lag, but on the primary
	// next is the index of the next entry; those up to durable are durable.
	next, durable         uint64
	stateIndex, baseIndex uint64 // of the last entries of their kind
	needed                uint64 // the disk keeps the entries from this one on
	lifeIndex             uint64 // until it is durable, nothing else is done
	stalledSince          int64  // when the disk has last made progress, while entries are on their way
	diskIsFull            bool   // it has refused what is on its way, for want of space

	desired   Desired
	resigning bool
	damaged   bool
	// frozen says why the register is not believed; "": it is.
	frozen   string
	accept   bool // a person has said to believe the register
	tickedAt int64

	lead        *leadership // of a primary, from the beginning of its session; else nil
	requiredIDs []ID        // what required returned last

	// What follows is for members that are not the primary.
	matched    uint64 // the log is that of the session's primary up to here; since this start
	waits      []wait // in ascending order of indices
	heardAt    int64  // of the primary, or of a change of the configuration
	grantUntil int64  // the primary may serve reads until then
	// grantSentAt is when the newest frame that asked for a grant was sent, in this session and since this start; 0:
	// none was.
	grantSentAt int64
	suspicion   suspicion
	answers     []answer
	probed      uint64 // number of the last probe
	knockAt     int64
	diverged    bool   // records that are committed here differ from the primary's
	lost        bool   // every volume of the configuration is known to be gone
	replacedBy  Config // of the group that has taken the place of the one that this volume belongs to; none: Epoch is 0
	// givesUp: a person gives the group up; givesUpAbsent: volumes that nobody has heard of too; givesUpItself: no
	// person is needed.
	givesUp, givesUpAbsent, givesUpItself bool
	// replacesAbsent: a group was proposed in place of one with members that are absent. They may be heard of again
	// before that is done.
	replacesAbsent bool
	startedAt      int64
	// when a member of the configuration was heard of that has its volume, by this one that has not
	aliveAt int64

	// What follows is used with Options.External only.
	foundation uint64 // the group that the user's storage belongs to
	applied    uint64 // the storage has the log up to here, durably
	impaired   bool   // the storage does not respond
	silentFrom int64  // from then on, an impaired member keeps silent; before, the others go on without it
	unfit      period // another member would serve better

	// What the user says: see SetReplaceable and SetWhole.
	replaceable, whole bool
	onlyNewVolumes     bool // see OnlyNewVolumes

	register register
	proposed uint64 // number of the last nonce
	troubles troubles

	// persisted is used with the mutation SessionNotPersisted only.
	persisted *State
}

// wait is an acknowledgement that waits for an entry to be durable.
type wait struct {
	index uint64
	to    ID
	ack   Ack
}

// Event is something that the user has to know. Events are in order.
type Event struct {
	Kind EventKind
	// Position is, of Lead and Committed, that up to which the log is committed.
	Position uint64
	// Records are, of Lead, those of the user, in order. They are not to be changed.
	Records []Positioned
	// HandedOver says of Stop that nothing was in progress: everything that was appended is committed.
	HandedOver bool
	// From is, of NeedsCopy, the primary that has what is missing.
	From ID
}

// Positioned is a record of the user with its position.
type Positioned struct {
	Position uint64
	Data     []byte
}

// EventKind is the kind of an Event.
type EventKind uint8

// The kinds of events.
const (
	// Lead: this member is the primary, and serves. Records is the whole log, all of it committed.
	Lead EventKind = iota + 1
	// Committed: everything up to Position is committed.
	Committed
	// Stop: this member is not the primary any more. What was appended and is not committed may be committed later, or
	// never.
	Stop
	// Reset: the volume is damaged, and its group does without it. Empty it, and start a new member with another volume
	// id.
	Reset
	// NeedsCopy: the log of the primary From does not continue the user's storage, so that is to be copied. With
	// Options.External only.
	NeedsCopy
)

// New starts a member on a disk that holds image, at a monotonic time in nanoseconds.
func New(opts Options, image *Image, now causal.Now) *Group {
	g := &Group{opts: opts, self: opts.Self, state: image.State, log: image.log, commit: image.State.Commit,
		next:    image.index + 1,
		durable: image.index, stateIndex: image.stateIndex, baseIndex: image.baseIndex, damaged: opts.Damaged,
		heardAt:  now.Mono,
		tickedAt: now.Mono, startedAt: now.Mono, stalledSince: now.Mono, foundation: opts.Foundation,
		applied: opts.Applied,
		// it was not read yet: the clock of a process begins near zero
		register: register{readAt: now.Mono - int64(opts.ReadEvery) - 1}}
	if opts.Broken.Has(causal.DamagedMemberVotes) {
		g.damaged = false
	}
	if opts.Broken.Has(causal.SessionNotPersisted) {
		g.persisted = &State{}
		*g.persisted = image.State
	}
	g.commit = max(g.commit, g.log.first()-1, min(opts.Applied, g.log.last())) // what is applied was committed
	if g.isMember() && !g.IsFounded() {
		g.damaged = true
	}
	if !opts.Broken.Has(causal.SameLifeRestart) || g.state.Life == 0 {
		g.state.Life++
	}
	g.lifeIndex = g.save(now)
	return g
}

// ready reports whether the life is durable.
func (g *Group) ready() bool { return g.durable >= g.lifeIndex }

// Step takes in a message.
func (g *Group) Step(now causal.Now, m *Message) {
	if !g.ready() {
		return
	}
	if m.To.Volume != 0 && m.To.Volume != g.self.Volume {
		if _, ok := m.Body.(*Frame); ok {
			g.answer(m.From, 0) // the volume that is meant is gone
		}
		return
	}
	switch b := m.Body.(type) {
	case *Frame:
		g.noteAlive(now, m.From, false)
		g.stepFrame(now, m.From, b)
	case *Ack:
		g.stepAck(now, m.From, b)
	case *Report:
		g.stepReport(now, m.From, b)
	case *Probe:
		g.stepProbe(now, m.From, b)
	case *Answer:
		g.stepAnswer(now, m.From, b)
	}
}

// Tick does what is due.
func (g *Group) Tick(now causal.Now) {
	paused := now.Mono - g.tickedAt
	g.tickedAt = now.Mono
	if !g.ready() {
		return
	}
	g.noteTroubles(now)
	if paused > int64(g.opts.SilentAfter)/2 {
		g.forgive(now)
	}
	g.expireRequest(now)
	switch {
	case g.lead != nil:
		g.tickPrimary(now)
	case g.isMember():
		g.watchPrimary(now)
	case !g.impaired:
		g.knock(now)
	}
}

// forgive starts the clocks of the others anew, after this process or its disk had stopped: that others were not heard
// is not their fault.
func (g *Group) forgive(now causal.Now) {
	g.heardAt = now.Mono
	if g.lead != nil {
		for _, p := range g.lead.peers {
			p.heardAt, p.waitingSince = now.Mono, now.Mono
		}
	}
}

// NextTick returns when Tick is due.
func (g *Group) NextTick(causal.Now) int64 {
	if l := g.lead; !g.opts.Register && l != nil && l.serving && len(l.peers) == 0 && g.durable+1 == g.next {
		return causal.Never // nobody is to hear of it
	}
	next := g.tickedAt + int64(g.opts.Heartbeat)/4
	switch {
	case g.lead != nil:
		for _, p := range g.lead.peers {
			next = min(next, p.sentAt+int64(g.opts.Heartbeat))
			if p.match < g.log.last() {
				next = min(next, max(p.waitingSince, p.rewoundAt)+int64(g.opts.Retry))
			}
		}
		if !g.lead.serving {
			next = min(next, g.grantUntil)
		} else if g.lead.staysTo > g.tickedAt {
			next = min(next, g.lead.staysTo)
		}
		if yielding := g.unfit.from + int64(g.opts.SilentAfter); g.unfit.is && yielding > g.tickedAt {
			next = min(next, yielding)
		}
	case !g.isMember() || g.damaged || g.frozen != "":
		next = min(next, g.knockAt)
	case g.suspicion.started:
		next = min(next, g.suspicion.until)
	default:
		next = min(next, g.heardAt+int64(g.opts.FailoverAfter))
	}
	return next
}

// SetDesired says what the group should look like.
func (g *Group) SetDesired(now causal.Now, d Desired) {
	g.desired = d
	g.knockAt = min(g.knockAt, now.Mono)
}

// Resign says that this member is about to stop. If it is the primary, it hands over to another member that is desired
// and has everything; and it is not chosen as the primary again. It may still take over from a primary that is gone.
func (g *Group) Resign(now causal.Now) {
	g.resigning = true
	g.plan(now)
}

// LinkUp says that a member can be reached again: what was on its way there may be lost.
func (g *Group) LinkUp(now causal.Now, name string) {
	if g.lead == nil {
		return
	}
	for _, p := range g.lead.peers {
		if p.id.Name == name {
			p.rewind(now)
		}
	}
}

// isMember reports whether this member belongs to the highest configuration that it knows.
func (g *Group) isMember() bool {
	if g.opts.Broken.Has(causal.WipedMemberVotes) {
		return g.state.Config.hasName(g.self.Name)
	}
	return g.state.Config.Has(g.self)
}

// isPrimary reports whether this member is the primary of the highest configuration that it knows.
func (g *Group) isPrimary() bool {
	return g.state.Config.Primary == g.self || g.opts.Broken.Has(causal.WipedMemberVotes) &&
		g.state.Config.Primary.Name == g.self.Name
}

// isForeign reports whether a configuration is that of another group.
func (g *Group) isForeign(c *Config) bool {
	return c.Epoch > 0 && g.state.Config.Epoch > 0 && c.Group != g.state.Config.Group
}

// learn takes in a settled configuration.
func (g *Group) learn(now causal.Now, cluster string, c *Config) {
	if c.Epoch <= g.state.Config.Epoch || g.isForeign(c) { // they come late, and more than once
		return
	}
	own := c.Nonce.Volume == g.self.Volume
	g.state.Config, g.state.Cluster, g.state.Pending = *c, cluster, nil
	g.frozen, g.accept, g.suspicion, g.heardAt, g.register.fresh = "", false, suspicion{}, now.Mono, false
	// it has changed, so somebody has its volume
	g.givesUp, g.givesUpAbsent, g.givesUpItself, g.onlyNewVolumes = false, false, false, false
	g.lost, g.diverged, g.troubles.changesFail.is = false, false, false
	g.save(now)
	if g.isMember() && !g.IsFounded() {
		g.fail() // the storage does not hold what this member has acknowledged
	}
	switch {
	case g.lead != nil && own && c.Primary == g.self:
		g.applyOwnChange(now)
	case g.lead != nil:
		// A swap of an earlier life may apply now, while other records are in progress.
		if g.stop(own && c.Nonce.Life == g.state.Life && g.lead.paused); g.impaired && own {
			// the next primary brings the logs in step, and drops this member
			g.silentFrom = now.Mono + int64(g.opts.YieldFor)
		}
		for _, id := range c.Members {
			g.answer(id, 0) // the next primary need not wait until it finds out
		}
		fallthrough
	default:
		if g.isPrimary() && !g.damaged {
			g.begin(now)
		}
	}
}

// stop ends the session of this primary.
func (g *Group) stop(handedOver bool) {
	if g.lead.serving {
		g.events = append(g.events, Event{Kind: Stop, HandedOver: handedOver})
	}
	g.lead = nil
	g.matched, g.waits = 0, nil
}

// fail makes this member one that is damaged.
func (g *Group) fail() {
	if g.lead != nil {
		g.stop(false)
	}
	g.damaged = true
}

// Take appends the messages to be sent to dst.
func (g *Group) Take(now causal.Now, dst []Message) []Message {
	if g.lead != nil && g.ready() {
		g.replicate(now)
	}
	dst = append(dst, g.out...)
	g.out = causal.Recycle(g.out)
	return dst
}

// Events appends what the user has to know to dst.
func (g *Group) Events(dst []Event) []Event {
	dst = append(dst, g.events...)
	g.events = causal.Recycle(g.events)
	return dst
}

func (g *Group) send(to ID, b Body) { g.out = append(g.out, Message{From: g.self, To: to, Body: b}) }
