package process

import (
	"fmt"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/group"
	"github.com/causalstore/causalstore/sidecar/causal/member"
	"github.com/causalstore/causalstore/sidecar/causal/middleman"
	"github.com/causalstore/causalstore/topology"
)

// MemberConfig configures a Member.
type MemberConfig struct {
	Storage member.StorageConfig
	// Shard configures the Shard of each session, but for its ID and its topology.
	Shard Config
	// NewID returns the ID of the next Shard.
	NewID func() uint64
	// Life counts the members that a process has made on one storage. Ids of effects, and generations, are not used
	// again by a later one.
	Life uint32
}

// Member is the process of one member of a shard's group: the replicated storage, and while that serves here, a Shard
// on it. The inputs and outputs of the log and of the register are those of the member.Storage.
//
// In a session the Shard is the only one that proposes changes. Messages and ticks reach it only while the group holds
// its lease, that is, while no other member can serve, and once the driver has announced the leadership; what has
// become of its effects waits until then (PROTOCOL SGR-17). A session that ends takes its Shard with it.
//
// After each input the driver calls Reads and Effects, and then Take. When Leadership has changed, it announces that,
// and then calls Announced.
type Member struct {
	*member.Storage
	cfg     MemberConfig
	now     causal.Now // of the last input of this type itself
	failure error
	ended   bool
	topo    *topology.Topology

	session   uint64            // of the Storage, in which what follows is meant; 0: none
	shard     *Shard            // nil: none has started in the session
	isReady   bool              // the Shard has started
	announced causal.Leadership // zero: the Shard gets no messages
	start     startAttempts
	proposals map[uint64]uint64 // effects of the Shard, by the number of what was proposed for them
	checking  Effect            // of the Shard: it is proposed once it is known which keys exist
	refusals  refusals
	held      []completion // wait for the lease

	ids        uint64 // of the last effect
	generation uint64 // of the last Shard that has ended
	effects    []Effect
	asked      []Effect
	done       []uint64

	task    member.StorageTask
	taskID  uint64 // of the effect of task; 0: none is under way
	tasks   []member.StorageTask
	health  storageHealth
	pinging uint64 // the effect; 0: no answer is waited for
	loss    struct {
		effect uint64 // notes that the storage has lost data; 0: it has not
		cause  error
	}
}

// NewMember starts a member on a disk that holds image.
func NewMember(cfg MemberConfig, image *group.Image, now causal.Now) *Member {
	first := uint64(cfg.Life) << 32
	cfg.Storage.Reads = cfg.Shard.Middleman.Types.Reads()
	storage := member.NewStorage(cfg.Storage, image, now)
	cfg.Shard.Middleman.MembersRead = storage.MembersRead
	return &Member{Storage: storage, cfg: cfg, now: now, topo: cfg.Storage.Topology,
		proposals: map[uint64]uint64{}, ids: first, generation: first,
		health: storageHealth{pingAt: now.Mono + int64(pingInterval)}}
}

// Shard returns the Shard of the session; nil until it has started.
func (m *Member) Shard() *Shard {
	if !m.isReady {
		return nil
	}
	return m.shard
}

// Starting returns the Shard of the session, also while it starts; nil if there is none.
func (m *Member) Starting() *Shard { return m.shard }

// Failure returns why this member cannot go on. The driver makes another one, from what is durable.
func (m *Member) Failure() error {
	if m.failure != nil {
		return m.failure
	}
	return m.Storage.Failure()
}

// Leadership returns the leadership in which this member serves, once there is a Shard for it.
func (m *Member) Leadership() causal.Leadership {
	if !m.isReady || m.ended || m.session != m.Session() {
		return causal.Leadership{}
	}
	return m.Storage.Leadership()
}

// Announced says that a leadership was announced, or with none, its end.
func (m *Member) Announced(now causal.Now, l causal.Leadership) {
	m.now = now
	m.settle()
	if m.announced = l; l != m.Leadership() {
		m.announced = causal.Leadership{} // what holds now is announced as well
	}
	if m.acts(now) {
		m.shard.Tick(now) // ticks were dropped
	}
}

// holdsLease reports whether the session of the Shard goes on, and no other member can serve.
func (m *Member) holdsLease(now causal.Now) bool {
	return m.shard != nil && m.session == m.Session() && m.HoldsLease(now)
}

// acts reports whether the Shard gets messages.
func (m *Member) acts(now causal.Now) bool { return !m.announced.IsZero() && m.holdsLease(now) }

// isWhole reports whether the shard serves here and lacks nothing.
func (m *Member) isWhole(now causal.Now) bool { return m.acts(now) && m.shard.IsWhole() }

// Step handles one message: of another member, or to the node.
func (m *Member) Step(now causal.Now, msg *causal.Message) {
	m.now = now
	switch {
	case msg.Kind == causal.KindGroup || msg.Kind == causal.KindCopy || m.IsAboutFormats(msg):
		m.Storage.Step(now, msg)
	case m.acts(now):
		m.shard.Step(now, msg)
	}
}

// RefuseRead is as for shard.Shard.
func (m *Member) RefuseRead(now causal.Now, msg *causal.Message) {
	if m.now = now; m.acts(now) {
		m.shard.RefuseRead(now, msg)
	}
}

// Tick does what is due.
func (m *Member) Tick(now causal.Now) {
	m.now = now
	m.Storage.Tick(now)
	if m.acts(now) {
		m.shard.Tick(now)
	}
	m.SetWhole(m.isWhole(now))
	m.ping(now)
	m.noteHealth(now)
}

// NextTick returns when Tick has something to do next, if no input comes before. The Storage ticks often enough for
// everything here but the Shard.
func (m *Member) NextTick(now causal.Now) int64 {
	next := m.Storage.NextTick(now)
	if m.acts(now) {
		next = min(next, m.shard.NextTick(now))
	}
	return next
}

// LinkUp says that a node, or another member, can be reached again.
func (m *Member) LinkUp(now causal.Now, n topology.Node) {
	m.now = now
	m.Storage.LinkUp(now, n)
	if n.Member == 0 && m.acts(now) {
		m.shard.LinkUp(now, n)
	}
}

// Topology returns the topology in use.
func (m *Member) Topology() *topology.Topology { return m.topo }

// SetTopology begins to replace the topology by one that differs only in the numbers of coordinators, shards, their
// members, and caches. IsSetting says when that has ended. It fails while a resharding is in progress on this member.
func (m *Member) SetTopology(now causal.Now, t *topology.Topology) error {
	m.now = now
	m.settle()
	if m.isReady && m.shard.Topology() != t {
		if err := m.shard.SetTopology(now, t); err != nil {
			return err
		}
	}
	m.topo = t
	m.Storage.SetTopology(now, t)
	m.start.refused = false
	m.SetCannotServe(now, false)
	return nil
}

// IsSetting reports whether a topology is about to be set, or why the last one was not.
func (m *Member) IsSetting() (bool, error) {
	if !m.isReady || m.session != m.Session() {
		return false, nil
	}
	return m.shard.IsSetting()
}

// End makes the member begin nothing any more: it is about to stop.
func (m *Member) End(now causal.Now) {
	m.now, m.ended = now, true
	m.dropShard()
}

// Take appends the messages to be sent to dst.
func (m *Member) Take(dst []causal.Message) []causal.Message {
	m.settle()
	if !m.announced.IsZero() {
		dst = m.shard.Take(dst)
	}
	return m.Storage.Take(dst)
}

// Reads is as for Shard.
func (m *Member) Reads(dst []middleman.StorageOp) []middleman.StorageOp {
	m.settle()
	if m.shard == nil {
		return dst
	}
	return m.shard.Reads(dst)
}

// Generation is as for Shard, over all sessions.
func (m *Member) Generation() uint64 {
	if m.shard == nil {
		return m.generation
	}
	return m.shard.Generation()
}

// NoteTombstone is as for Shard.
func (m *Member) NoteTombstone(generation uint64, key string, rec causal.Record) bool {
	return m.shard != nil && m.shard.NoteTombstone(generation, key, rec)
}

// Effects appends what the driver has to do to dst.
func (m *Member) Effects(dst []Effect) []Effect {
	m.settle()
	if m.shard != nil && m.failure == nil {
		m.asked = m.shard.Effects(m.asked[:0])
		for i := range m.asked {
			m.begin(&m.asked[i])
		}
		clear(m.asked)
	}
	m.beginTask()
	dst = append(dst, m.effects...)
	clear(m.effects)
	m.effects = m.effects[:0]
	return dst
}

// begin begins an effect of the Shard. Those that change the storage become proposals.
func (m *Member) begin(e *Effect) {
	switch {
	case e.Kind == EffectWrite || e.Kind == EffectChange && !e.CheckExistence:
		m.propose(e)
	case e.Kind == EffectChange:
		m.checking = *e
		m.effects = append(m.effects, Effect{ID: e.ID, Kind: EffectCheck, Change: e.Change})
	default:
		m.effects = append(m.effects, *e)
	}
}

// do asks for an effect of this type itself.
func (m *Member) do(e Effect) (id uint64) {
	m.ids++
	e.ID = m.ids
	m.effects = append(m.effects, e)
	return e.ID
}

// beginTask asks for the next task of the Storage.
func (m *Member) beginTask() {
	if m.taskID != 0 || m.failure != nil || m.loss.effect != 0 || m.ended {
		return
	}
	if m.tasks = m.Tasks(m.tasks[:0]); len(m.tasks) == 0 {
		return
	}
	m.task = m.tasks[0] // there is one at a time
	clear(m.tasks)
	m.health.beginTask(m.clock(), m.task.Kind == member.TaskApply)
	m.taskID = m.do(Effect{Kind: EffectTask, Task: &m.task})
}

// Done takes what has become of an effect.
func (m *Member) Done(now causal.Now, id uint64, r EffectResult) {
	m.now = now
	if r.Problem == HasLost && id != m.loss.effect {
		m.NoteLoss(now, r.Err)
		// to the Storage and the Shard it is an error as any other: the group has lost nothing
		r.Problem, r.Err = NoProblem, fmt.Errorf("the storage of this member is unusable: %w", r.Err)
	}
	switch {
	case id == m.taskID:
		m.taskDone(now, &r)
	case id == m.pinging:
		m.pinging = 0
		m.health.notePing(now, &r)
		if r.Problem == IsFenced {
			m.failure = r.Err
		}
		m.noteHealth(now)
	case id == m.loss.effect:
		m.lossNoted(&r)
	case id == m.checking.ID && r.Err == nil:
		e := m.checking
		m.checking = Effect{}
		m.propose(&e)
	default:
		m.complete(id, r)
	}
}

func (m *Member) taskDone(now causal.Now, r *EffectResult) {
	id := m.task.ID
	m.task, m.taskID = member.StorageTask{}, 0
	m.health.endTask(now, r)
	m.noteHealth(now)
	m.TaskDone(now, id, member.StorageTaskResult{Err: r.Err, Records: r.Records, Meta: r.Meta, Next: r.Next,
		BadCursor: r.BadCursor})
}

// clock returns the time of the last input.
func (m *Member) clock() causal.Now {
	if now := m.Now(); now.Mono > m.now.Mono {
		return now
	}
	return m.now
}

// NoteLoss says that the storage no longer has what it had acknowledged: this member fails, and its next start finds
// that the storage is worth nothing and gets a copy of another one.
func (m *Member) NoteLoss(now causal.Now, cause error) {
	if m.now = now; m.loss.effect != 0 {
		return
	}
	cause = fmt.Errorf("the storage of this member has lost data, and is copied from another member when this one "+
		"starts again: %w", cause)
	m.loss.cause = cause
	marker := m.Applied()
	t := &member.StorageTask{Kind: member.TaskApply,
		Marker: member.Applied{Group: marker.Group, Volume: marker.Volume, Copying: true}}
	if marker.Volume == 0 { // there is nothing to mark
		m.failure = cause
		return
	}
	m.loss.effect = m.do(Effect{Kind: EffectLoss, Task: t})
}

func (m *Member) lossNoted(r *EffectResult) {
	m.failure = m.loss.cause
	if r.Err != nil && r.Problem != HasLost { // else it says itself, when it is opened, that it has lost data
		m.failure = fmt.Errorf("%w; %w", m.failure, r.Err)
	}
}

// CheckRest returns what is left of the past while nothing is under way.
func (m *Member) CheckRest() (left causal.Counts) {
	left = m.Storage.CheckRest()
	left.CheckEmpty("effects that were proposed", len(m.proposals))
	left.CheckEmpty("effects whose proposal was refused", len(m.refusals.list))
	left.CheckEmpty("results that wait for the lease", len(m.held))
	left.CheckEnded("a change of which it is looked up which keys exist", m.checking.ID != 0)
	if m.shard != nil {
		left = append(left, m.shard.CheckRest()...)
	}
	return left
}
