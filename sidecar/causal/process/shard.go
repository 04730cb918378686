// Package process is what a process of the store does around its machines: in which order it reads and writes its
// storage, and what has to be durable before what. (Another package, sidecar/process, is the program: it has the flags,
// the configuration and the HTTP of a process.) It decides; its driver carries out. Package node drives it with
// goroutines and real storages, and the simulator with simulated ones, which delay, fail and crash.
//
// Failure model: what a change wrote is durable when Done says so without an error. Until then, and after an error, it
// may be in the storage or not, as a whole. The driver makes a Shard per start of the process, or per session of a
// member. When that ends, it forgets the Shard, and what was under way may be carried out, or not.
package process

import (
	"errors"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/member"
	"github.com/causalstore/causalstore/sidecar/causal/middleman"
	"github.com/causalstore/causalstore/sidecar/causal/shard"
	"github.com/causalstore/causalstore/topology"
)

// Config configures a Shard.
type Config struct {
	// Middleman is the configuration of each middleman that serves, but for what the storage says.
	Middleman middleman.Config
	// ID differs from that of every other start.
	ID uint64
	// Mover changes the configuration of movers; nil: the defaults.
	Mover func(*shard.MoverConfig)
	// RemoveKeys bounds the keys that one change removes.
	RemoveKeys int
}

// DefaultRemoveKeys is what Config.RemoveKeys should be.
const DefaultRemoveKeys = 512

// Shard is the process of a shard on one storage: a shard.Shard, the middleman that serves, and their requests to the
// storage. Only a Shard changes the storage.
//
// After each input the driver calls Reads and Effects, and then Take.
type Shard struct {
	cfg   Config
	now   causal.Now // of the last input
	shard *shard.Shard
	// failure is why it cannot go on.
	failure error

	marks    marks
	position causal.Position
	started  uint64 // Marks.Starts of the time before this Shard

	serving    *middleman.Middleman // nil: none
	generation uint64               // counts the changes of serving
	starting   bool                 // a middleman is about to serve
	draining   bool                 // one was stopped, and a change that it has asked for is under way
	writes     writes
	// cachesAt is when the layout of the caches is to be saved, which is caches; 0: it is not.
	cachesAt int64
	caches   topology.CacheLayout

	effects []Effect
	ids     *uint64 // of the last effect
	running map[uint64]func(EffectResult)
	loss    uint64 // the effect that notes that the storage has lost data: nothing else is done any more; 0: none

	tasks []func()
	busy  bool // a task, or a start, is under way
	moves []shard.MoveOp
	// setting is the topology that is about to be set; nil: none.
	setting    *topology.Topology
	settingErr error // why the last one was not set
}

// NewShard returns a Shard that first asks for the marks of its storage.
func NewShard(cfg Config, now causal.Now) *Shard { return newShard(cfg, now, new(uint64), 0) }

// newShard returns a Shard whose effects have the next ids, and that counts generations from one on.
func newShard(cfg Config, now causal.Now, ids *uint64, generation uint64) *Shard {
	p := &Shard{cfg: cfg, now: now, ids: ids, generation: generation, running: map[uint64]func(EffectResult){},
		busy: true}
	p.do(Effect{Kind: EffectLoad}, p.load)
	return p
}

// Shard returns p: what drives a Member, which has a Shard while it serves, drives a Shard as well.
func (p *Shard) Shard() *Shard { return p }

// Machine returns the machine of the shard; nil until the marks are read. The caller does not change it.
func (p *Shard) Machine() *shard.Shard { return p.shard }

// Serving returns the middleman that serves; nil if none does.
func (p *Shard) Serving() *middleman.Middleman { return p.serving }

// Generation counts the changes of Serving.
func (p *Shard) Generation() uint64 { return p.generation }

// IsSettled reports whether what serves is what is to serve, and it is durable that it does.
func (p *Shard) IsSettled() bool { return p.shard != nil && !p.isReplacing() }

// Failure returns why the Shard cannot go on; nil: it can. The driver makes another one.
func (p *Shard) Failure() error { return p.failure }

// StartsBefore is the incarnation of the last middleman before this Shard.
func (p *Shard) StartsBefore() uint64 { return p.started }

// IsWhole reports whether a middleman serves that lacks nothing.
func (p *Shard) IsWhole() bool {
	if p.serving == nil {
		return false
	}
	lost, _ := p.shard.DataLost()
	return !lost && p.serving.IsChecked()
}

// Step handles one message.
func (p *Shard) Step(now causal.Now, msg *causal.Message) {
	if p.now = now; p.shard != nil {
		p.shard.Step(now, msg)
	}
}

// RefuseRead is as for shard.Shard.
func (p *Shard) RefuseRead(now causal.Now, msg *causal.Message) {
	if p.now = now; p.shard != nil {
		p.shard.RefuseRead(now, msg)
	}
}

// Tick does what is due.
func (p *Shard) Tick(now causal.Now) {
	if p.now = now; p.shard == nil {
		return
	}
	p.shard.Tick(now)
	if p.cachesAt != 0 && now.Mono >= p.cachesAt {
		p.cachesAt = 0
		p.tasks = append(p.tasks, p.saveCaches)
	}
}

// NextTick returns when Tick has something to do next, if no input comes before.
func (p *Shard) NextTick(now causal.Now) int64 {
	next := causal.Never
	if p.shard != nil {
		next = p.shard.NextTick(now)
	}
	if p.cachesAt != 0 {
		next = min(next, p.cachesAt)
	}
	return next
}

// LinkUp says that a node can be reached again.
func (p *Shard) LinkUp(now causal.Now, n topology.Node) {
	if p.now = now; p.shard != nil {
		p.shard.LinkUp(now, n)
	}
}

// Take appends the messages to be sent to dst.
func (p *Shard) Take(dst []causal.Message) []causal.Message {
	if p.shard == nil {
		return dst
	}
	return p.shard.Take(dst)
}

// Topology returns the topology in use.
func (p *Shard) Topology() *topology.Topology { return p.cfg.Middleman.Topology }

// errResharding is why SetTopology refuses.
var errResharding = errors.New("a resharding is in progress on this middleman; retry when it has ended")

// SetTopology begins to replace the topology by one that differs only in the numbers of coordinators, shards and
// caches. IsSetting says when that has ended. It fails while a resharding is in progress.
func (p *Shard) SetTopology(now causal.Now, t *topology.Topology) error {
	if p.now = now; p.shard == nil || p.setting != nil || p.shard.IsResharding() {
		return errResharding
	}
	p.settingErr = nil
	if err := shard.CheckState(t, p.self(), p.marks.durable.State); err != nil {
		return err
	}
	if !shard.NeedsMover(t, p.self()) {
		p.shard.SetTopology(t, nil)
		p.cfg.Middleman.Topology = t
		return nil
	}
	p.setting = t
	p.tasks = append(p.tasks, func() {
		p.newMover(t, func(m *shard.Mover, err error) {
			if p.setting, p.settingErr = nil, err; err == nil {
				p.shard.SetTopology(t, m)
				p.cfg.Middleman.Topology = t
			}
			p.busy = false
		})
	})
	return nil
}

// IsSetting reports whether a topology is about to be set, or why the last one was not.
func (p *Shard) IsSetting() (bool, error) {
	if p.failure != nil {
		return false, p.failure
	}
	return p.setting != nil, p.settingErr
}

func (p *Shard) self() topology.Node { return p.cfg.Middleman.Self }

// Effects appends what the driver has to do to dst.
func (p *Shard) Effects(dst []Effect) []Effect {
	p.settle()
	dst = append(dst, p.effects...)
	clear(p.effects)
	p.effects = p.effects[:0]
	return dst
}

// Done takes what has become of an effect.
func (p *Shard) Done(now causal.Now, id uint64, r EffectResult) {
	p.now = now
	then := p.running[id]
	delete(p.running, id)
	if then == nil || p.failure != nil {
		return
	}
	if r.Problem == HasLost {
		p.NoteLoss(now, r.Err)
	}
	if p.loss != 0 && p.loss != id {
		return
	}
	if r.Err == nil {
		p.position = later(p.position, r.Position)
	}
	then(r)
}

// later returns the later one of two positions of a storage, of which the second is the one that was reported last.
func later(a, b causal.Position) causal.Position {
	if b == (causal.Position{}) || a.Storage == b.Storage && a.Changes > b.Changes {
		return a
	}
	return b
}

// do asks for an effect, and calls then with what has become of it.
func (p *Shard) do(e Effect, then func(EffectResult)) {
	*p.ids++
	e.ID = *p.ids
	p.running[e.ID] = then
	p.effects = append(p.effects, e)
}

// NoteLoss says that the storage no longer has what it had acknowledged. That is made durable, so that the next start
// refuses reads, and then the Shard fails with the cause.
func (p *Shard) NoteLoss(now causal.Now, cause error) {
	if p.now = now; p.loss != 0 {
		return
	}
	found := Marks{Loss: shard.LossFound}
	p.do(Effect{Kind: EffectLoss, Change: member.Change{Meta: found.Metas(MarkLoss)}}, func(r EffectResult) {
		p.failure = cause
		if r.Err != nil && r.Problem != HasLost { // else it says itself, when it is opened, that it has lost data
			p.failure = errors.Join(cause, r.Err)
		}
	})
	p.loss = *p.ids
}

// settle begins what can begin.
func (p *Shard) settle() {
	if p.shard == nil || p.failure != nil || p.loss != 0 {
		return
	}
	p.replace()
	p.moves = p.shard.MoveOps(p.moves[:0])
	for _, op := range p.moves {
		mover := p.shard.Mover()
		p.tasks = append(p.tasks, func() { p.move(mover, op) })
	}
	if p.serving != nil && p.serving.WantsScan() {
		p.scanStorage()
	}
	for !p.busy && len(p.tasks) > 0 && !p.isReplacing() {
		next := p.tasks[0]
		p.tasks[0] = nil
		p.tasks = p.tasks[1:]
		p.busy = true
		next()
	}
	p.marks.release()
	p.beginWrite()
}

// CheckRest returns what is left of the past while nothing is under way.
func (p *Shard) CheckRest() (left causal.Counts) {
	left.CheckEmpty("writes that wait", len(p.writes.queue))
	left.CheckEnded("a change of the storage", p.writes.underWay)
	left.CheckEnded("a change of marks", p.marks.changing)
	left.CheckEnded("what waits for a change of marks", p.marks.waiting != nil)
	left.CheckEmpty("effects", len(p.running))
	left.CheckEmpty("tasks", len(p.tasks))
	left.CheckEmpty("requests of a mover", len(p.moves))
	left.CheckEnded("a start", p.starting || p.draining || p.busy)
	if p.serving != nil {
		left = append(left, p.serving.CheckRest()...)
	}
	return left
}
