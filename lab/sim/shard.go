package sim

import (
	"errors"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/member"
	"github.com/causalstore/causalstore/sidecar/causal/middleman"
	"github.com/causalstore/causalstore/sidecar/causal/process"
	"github.com/causalstore/causalstore/sidecar/causal/shard"
	"github.com/causalstore/causalstore/topology"
)

// isUp reports whether the node's process is running.
func (n *node) isUp() bool { return n.m != nil }

// process returns what the process of a middleman does; nil if the node is down, follows another member, or is not a
// middleman.
func (n *node) process() *process.Shard {
	switch m := n.m.(type) {
	case *process.Shard:
		return m
	case *process.Member:
		return m.Starting()
	}
	return nil
}

// shardProcess runs a shard: a process.Shard alone, or the process.Member that has one while it serves.
type shardProcess interface {
	machine
	Topology() *topology.Topology
	SetTopology(now causal.Now, t *topology.Topology) error
	Reads(dst []middleman.StorageOp) []middleman.StorageOp
	ReadDone(now causal.Now, generation uint64, r middleman.StorageResult)
	Generation() uint64
	Effects(dst []process.Effect) []process.Effect
	Done(now causal.Now, id uint64, r process.EffectResult)
	NoteTombstone(generation uint64, key string, rec causal.Record) bool
}

// shard returns the machine of a middleman's process; nil if it has none, or not yet.
func (n *node) shard() *shard.Shard {
	if p := n.process(); p != nil {
		return p.Machine()
	}
	return nil
}

// mover returns the mover of a middleman; nil if it is not resharding.
func (n *node) mover() *shard.Mover {
	if s := n.shard(); s != nil {
		return s.Mover()
	}
	return nil
}

// isServing reports whether a middleman serves at a node.
func (n *node) isServing() bool { return n.process() != nil && n.process().Serving() != nil }

// hasWithdrawn reports whether a shard keeps its data and answers nothing.
func (n *node) hasWithdrawn() bool {
	s := n.shard()
	if s == nil {
		return false
	}
	_, withdrawn := s.Withdrawn()
	return withdrawn
}

// hasResharded reports whether a middleman has the topology of its node, and has done what that asks for.
func (n *node) hasResharded() bool {
	s := n.shard()
	return s != nil && n.process().Topology() == n.topo && !s.IsResharding()
}

// startShard starts the process of a middleman.
func (w *World) startShard(n *node) {
	if n.id.Member != 0 {
		w.startShardMember(n)
		return
	}
	cfg := w.shardConfig(n)
	cfg.ID = n.life
	n.m = process.NewShard(cfg, w.clock(n))
	w.flush(n)
}

// shardConfig configures the process of a middleman.
func (w *World) shardConfig(n *node) process.Config {
	mover := func(cfg *shard.MoverConfig) { cfg.Chunk, cfg.Notice = 3, 0 }
	return process.Config{Middleman: w.middlemanConfig(n), Mover: mover, RemoveKeys: 2}
}

func (w *World) middlemanConfig(n *node) middleman.Config {
	cfg := middleman.DefaultConfig(n.topo, n.id.Group())
	cfg.Types = w.typesOf(n)
	cfg.Broken = w.settings.Broken
	cfg.BackfillPage, cfg.SalvageBytes = 3, 60
	if w.settings.Lease > 0 {
		cfg.Lease = w.settings.Lease
	}
	if w.settings.KeepMs > 0 {
		cfg.KeepMs = w.settings.KeepMs
	}
	if w.settings.ExpiredMs > 0 {
		cfg.ExpiredMs = w.settings.ExpiredMs
	}
	if w.settings.MaxCopies > 0 {
		cfg.MaxCopies = w.settings.MaxCopies
	}
	return cfg
}

// drive carries out what the process of a middleman asks for.
func (w *World) drive(n *node, p shardProcess) {
	if p.Topology() != n.topo {
		// if it is refused, it is tried again: there is an input whenever something ends that it waits for
		_ = p.SetTopology(w.clock(n), n.topo)
	}
	w.ops = p.Reads(w.ops[:0])
	for _, op := range w.ops {
		w.readStorage(n, p, op)
	}
	for _, e := range p.Effects(nil) {
		w.runEffect(n, p, e)
	}
}

// replaceProcess starts the process of a middleman again that cannot go on.
func (w *World) replaceProcess(n *node, err error) {
	if !errors.Is(err, errStorage) {
		panic(err) // the scaler waits for the end of each resharding
	}
	w.crash(n)
	w.schedule(int64(10*time.Millisecond), func() { w.restart(n) })
}

var errStorage = errors.New("the storage has failed")

// runEffect carries an effect out, after the delay of the disk.
func (w *World) runEffect(n *node, p shardProcess, e process.Effect) {
	delay := w.storageDelay(n, 2*time.Millisecond)
	isLate := false
	switch e.Kind {
	case process.EffectWrite, process.EffectChange:
		n.disk.pending = append(n.disk.pending, &e)
	case process.EffectTask:
		if n.disk.lagUntil > w.now {
			delay += n.disk.lag
		}
		if e.Task.Kind != member.TaskRead {
			n.disk.task = e.Task
		}
	case process.EffectPing:
		isLate = delay > int64(process.PingTimeout)
		delay = min(delay, int64(process.PingTimeout))
	}
	if w.settings.NoRandomness && e.Kind < process.EffectTask && !n.process().IsSettled() {
		delay = 0 // in scenarios a start takes no time
	}
	w.schedule(delay, func() {
		if n.m != p {
			return
		}
		r := w.effect(n, &e)
		if isLate {
			r.Err = errStorage
		}
		if e.Kind != process.EffectTombstones {
			w.finish(n, p, func(now causal.Now) { p.Done(now, e.ID, r) })
			return
		}
		noted := n.disk.tombstones()
		w.schedule(w.storageDelay(n, 2*time.Millisecond), func() { // a scan takes long
			w.finish(n, p, func(now causal.Now) {
				for _, t := range noted {
					p.NoteTombstone(e.Generation, t.Key, t.Record)
				}
				p.Done(now, e.ID, r)
			})
		})
	})
}

// effect carries an effect out. A change that fails may be readable anyway.
func (w *World) effect(n *node, e *process.Effect) (r process.EffectResult) {
	d := n.disk
	switch e.Kind {
	case process.EffectTask:
		if r = w.refusal(d, e.Task.Kind == member.TaskApply || e.Task.Kind == member.TaskWrite); r.Err != nil {
			d.task = nil
			return r
		}
		return w.runTask(n, e.Task)
	case process.EffectPing:
		return w.refusal(d, true)
	case process.EffectLoss:
		d.marker, d.lost = e.Task.Marker, false
		return r
	}
	failed := w.storageFails()
	switch e.Kind {
	case process.EffectLoad:
		r.Marks = d.Marks
	case process.EffectList:
		r.Keys = d.list(e.Want)
	case process.EffectCheck:
		d.setKeyExists(e.Change.Writes)
	case process.EffectRead:
		for _, key := range e.Keys {
			r.Records = append(r.Records, causal.Moved{Key: key, Record: d.records[key]})
		}
	case process.EffectWrite, process.EffectChange:
		isVolatile := failed && w.rng.IntN(2) == 0
		if d.failNext > 0 && e.Kind == process.EffectWrite {
			failed, isVolatile = true, true
			d.failNext--
		}
		d.endChange(e, failed, isVolatile)
	}
	if failed {
		return process.EffectResult{Err: errStorage}
	}
	r.Position = d.position()
	return r
}

// refusal returns how a storage refuses a request; no error: it does not.
func (w *World) refusal(d *disk, grows bool) (r process.EffectResult) {
	switch {
	case d.lost:
		r.Problem = process.HasLost
	case w.now < d.brokenUntil:
		r.Problem = d.problem
	case w.now < d.fullUntil && grows:
		r.Problem = process.IsFull
	default:
		return r
	}
	r.Err = errStorage
	return r
}

// finish passes a result to the process of a middleman, unless that has ended.
func (w *World) finish(n *node, p shardProcess, pass func(now causal.Now)) {
	if n.m == p {
		pass(w.clock(n))
		w.flush(n)
	}
}

// position returns how far the storage has come: by the log of its group if it has one.
func (d *disk) position() causal.Position {
	if d.marker != (member.Applied{}) {
		return causal.Position{Storage: d.marker.Group, Changes: d.marker.Position}
	}
	return causal.Position{Changes: d.changes}
}

// readStorage carries out a read of a middleman, at some time between request and answer. A storage that has lost
// something does not say of a key that it is missing: those that ship look first at what they held.
func (w *World) readStorage(n *node, p shardProcess, op middleman.StorageOp) {
	generation := p.Generation()
	answer := func(r middleman.StorageResult) {
		w.finish(n, p, func(now causal.Now) { p.ReadDone(now, generation, r) })
	}
	if op.Kind == middleman.StorageCount {
		w.schedule(0, func() { answer(middleman.StorageResult{ID: op.ID, Count: int64(len(n.disk.records))}) })
		return
	}
	w.schedule(w.storageDelay(n, time.Millisecond), func() {
		if n.m != p || p.Generation() != generation {
			return
		}
		r := middleman.StorageResult{ID: op.ID, Failed: w.storageFails()}
		if op.Kind == middleman.StorageScan {
			r.Keys, r.Next = n.disk.page(op.Key, op.Limit)
		} else {
			rec, found := n.disk.records[op.Key]
			r.Failed = r.Failed || n.disk.lost && !found
			r.Record, r.Found = rec, found && !r.Failed
		}
		w.schedule(w.storageDelay(n, time.Millisecond), func() { answer(r) })
	})
}
