package sim

import (
	"maps"
	"slices"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/middleman"
	"github.com/causalstore/causalstore/sidecar/causal/shard"
	"github.com/causalstore/causalstore/sidecar/topology"
)

// isUp reports whether the node's process is running.
func (n *node) isUp() bool { return n.m != nil }

// shard returns the machine of a middleman's process; nil if the node is down or is not a middleman.
func (n *node) shard() *shard.Shard {
	s, _ := n.m.(*shard.Shard)
	return s
}

// mover returns the mover of a middleman; nil if it is not resharding.
func (n *node) mover() *shard.Mover {
	if s := n.shard(); s != nil {
		return s.Mover()
	}
	return nil
}

// newMover returns the mover of a middleman; nil if its ring is not being resharded.
func (w *World) newMover(n *node) *shard.Mover {
	if err := shard.CheckState(n.topo, n.id, n.disk.state); err != nil {
		panic(err) // the scaler waits for the end of each resharding
	}
	if !shard.NeedsMover(n.topo, n.id) {
		n.disk.state.Map = n.topo.Map(n.topo.RingOf(n.id.DC))
		return nil
	}
	cfg := shard.DefaultMoverConfig(n.topo, n.id)
	n.disk.moves++
	cfg.Life, cfg.State, cfg.Chunk, cfg.Broken = n.disk.moves, n.disk.state, 3, w.settings.Broken
	cfg.Notice = 0
	if w.settings.Lease > 0 {
		cfg.Lease = w.settings.Lease
	}
	return shard.NewMover(cfg)
}

// startShard starts the process of a middleman.
func (w *World) startShard(n *node) {
	past := shard.Past{Starts: n.disk.starts, DataLost: n.disk.dataLost, HasWritesOf: n.disk.hasWritesOf, ID: n.life, Broken: w.settings.Broken}
	n.m = shard.New(n.topo, n.id, w.newMover(n), past)
	w.reconcile(n)
}

// reconcile replaces the serving middleman if it is not current, and starts the mover's I/O.
func (w *World) reconcile(n *node) {
	s := n.shard()
	if !s.IsCurrent() {
		if s.Serving() != nil {
			s.Stop()
			n.serving++
			n.disk.crash(w.rng, w.settings.NoRandomness)
			s.Drained()
		}
		w.serve(n, s)
	}
	mover := s.Mover()
	for _, op := range s.MoveOps(nil) {
		w.runMoveOp(n, mover, op)
	}
}

// serve starts the middleman under the current slot map, if the shard may serve.
func (w *World) serve(n *node, s *shard.Shard) {
	cfg := middleman.DefaultConfig(n.topo, n.id)
	cfg.Broken = w.settings.Broken
	if w.settings.Lease > 0 {
		cfg.Lease = w.settings.Lease
	}
	if w.settings.KeepMs > 0 {
		cfg.KeepMs = w.settings.KeepMs
	}
	plan, ok := s.PlanStart(cfg, shard.History{Starts: n.disk.starts, Caches: n.disk.caches, Horizon: n.disk.horizon})
	if !ok {
		return
	}
	n.serving++
	n.disk.starts, n.disk.dataLost = plan.Config.Incarnation, plan.SaveDataLost
	mm := middleman.New(plan.Config, w.clock(n))
	s.Start(mm, plan)
	n.disk.eachTombstone(mm.NoteTombstone)
	switch {
	case plan.Config.Fresh:
		n.disk.caches = plan.Caches
	case plan.SaveCaches:
		serving := n.serving
		w.schedule(int64(plan.Config.Lease)*11/10, func() { // the clock that the lease is counted on may run slow
			if n.serving == serving {
				n.disk.caches = plan.Caches
			}
		})
	}
}

// runMoveOp executes a mover's storage request, after the delay of the disk.
func (w *World) runMoveOp(n *node, mover *shard.Mover, op shard.MoveOp) {
	life := n.life
	w.schedule(w.diskDelay(n, 2*time.Millisecond), func() {
		if n.mover() != mover || n.life != life {
			// The node crashed: storage may have executed the request all the same.
			if n.mover() == nil && n.life == life+1 && op.Kind >= shard.MoveApply && !w.settings.NoRandomness && w.rng.IntN(2) == 0 {
				n.disk.runMoveOp(op, &shard.MoveResult{})
			}
			return
		}
		r := shard.MoveResult{ID: op.ID, Failed: w.storageFails()}
		if !r.Failed || op.Kind >= shard.MoveApply && w.rng.IntN(2) == 0 {
			n.disk.runMoveOp(op, &r)
		}
		mover.OpDone(op, r)
		w.flush(n)
	})
}

// runMoveOp executes a mover's storage request and fills in its result.
func (d *disk) runMoveOp(op shard.MoveOp, r *shard.MoveResult) {
	switch op.Kind {
	case shard.MoveList:
		for _, key := range slices.Sorted(maps.Keys(d.records)) {
			if op.Want(topology.SlotOf(key)) {
				r.Keys = append(r.Keys, key)
			}
		}
	case shard.MoveRead:
		for _, key := range op.Keys {
			r.Records = append(r.Records, causal.Moved{Key: key, Record: d.records[key]})
		}
		r.Horizon = d.horizon
	case shard.MoveApply:
		for _, m := range op.Records {
			if m.Record.Version.IsZero() {
				delete(d.records, m.Key)
			} else {
				d.set(m.Key, m.Record)
			}
		}
		d.horizon = max(d.horizon, op.Horizon)
	case shard.MoveWipe:
		maps.DeleteFunc(d.records, func(key string, _ causal.Record) bool { return op.Want(topology.SlotOf(key)) })
	case shard.MoveSaveState:
		d.state = op.State
	}
}
