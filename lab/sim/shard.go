package sim

import (
	"maps"
	"slices"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/member"
	"github.com/causalstore/causalstore/sidecar/causal/middleman"
	"github.com/causalstore/causalstore/sidecar/causal/shard"
	"github.com/causalstore/causalstore/topology"
)

// isUp reports whether the node's process is running.
func (n *node) isUp() bool { return n.m != nil }

// shard returns the machine of a middleman's process; nil if the node is down, follows another member, or is not a
// middleman.
func (n *node) shard() *shard.Shard {
	switch m := n.m.(type) {
	case *shard.Shard:
		return m
	case *shardMember:
		return m.shard
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

// newMover returns the mover of a middleman; nil if its ring is not being resharded.
func (w *World) newMover(n *node) *shard.Mover {
	if err := shard.CheckState(n.topo, n.id, n.disk.state); err != nil {
		panic(err) // the scaler waits for the end of each resharding
	}
	if !shard.NeedsMover(n.topo, n.id) {
		n.disk.state.Map = n.topo.Map(n.topo.RingOf(n.id.DC))
		return nil
	}
	n.disk.moves++
	return w.moverFrom(n, n.topo)
}

// moverFrom returns the mover that the state on the disk of a middleman gives; nil if its ring is not being resharded.
func (w *World) moverFrom(n *node, t *topology.Topology) *shard.Mover {
	if !shard.NeedsMover(t, n.id.Group()) {
		return nil
	}
	cfg := shard.DefaultMoverConfig(t, n.id.Group())
	cfg.Life, cfg.State, cfg.Chunk, cfg.Broken = n.disk.moves, n.disk.state, 3, w.settings.Broken
	cfg.Notice = 0
	if w.settings.Lease > 0 {
		cfg.Lease = w.settings.Lease
	}
	return shard.NewMover(cfg)
}

// past returns what the storage of a middleman tells of earlier starts.
func (n *node) past(w *World) shard.Past {
	return shard.Past{Starts: n.disk.starts, Loss: n.disk.loss, Missing: n.disk.missing,
		HasWritesOf: n.disk.hasWritesOf, ID: n.life, Broken: w.settings.Broken}
}

// startShard starts the process of a middleman.
func (w *World) startShard(n *node) {
	if n.id.Member != 0 {
		w.startShardMember(n)
		return
	}
	n.m = shard.New(n.topo, n.id, w.newMover(n), n.past(w))
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
	plan, ok := s.PlanStart(w.clock(n), w.middlemanConfig(n), n.disk.history())
	if !ok {
		return
	}
	n.serving++
	if plan.Clear {
		clear(n.disk.records)
	}
	n.disk.exclusions = plan.Config.Exclusions
	n.disk.starts, n.disk.lineage, n.disk.loss = plan.Config.Incarnation, plan.Config.Lineage, plan.Loss
	n.disk.changes++
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

func (w *World) middlemanConfig(n *node) middleman.Config {
	cfg := middleman.DefaultConfig(n.topo, n.id.Group())
	cfg.Types = w.types
	cfg.Broken = w.settings.Broken
	cfg.BackfillPage, cfg.SalvageBytes = 3, 60
	if w.settings.Lease > 0 {
		cfg.Lease = w.settings.Lease
	}
	if w.settings.KeepMs > 0 {
		cfg.KeepMs = w.settings.KeepMs
	}
	if w.settings.MaxCopies > 0 {
		cfg.MaxCopies = w.settings.MaxCopies
	}
	return cfg
}

func (d *disk) history() shard.History {
	return shard.History{Lineage: d.lineage, Position: d.position(), Starts: d.starts, Caches: d.caches,
		Horizon: d.horizon, Fences: d.fences, Exclusions: d.exclusions}
}

// position returns how far the storage has come: by the log of its group if it has one.
func (d *disk) position() causal.Position {
	if d.marker != (member.Applied{}) {
		return causal.Position{Storage: d.marker.Group, Changes: d.marker.Position}
	}
	return causal.Position{Changes: d.changes}
}

// runMoveOp executes a mover's storage request, after the delay of the disk.
func (w *World) runMoveOp(n *node, mover *shard.Mover, op shard.MoveOp) {
	life := n.life
	w.schedule(w.storageDelay(n, 2*time.Millisecond), func() {
		if n.mover() != mover || n.life != life {
			// The node crashed: storage may have executed the request all the same.
			if n.mover() == nil && n.life == life+1 && op.Kind >= shard.MoveApply && !w.settings.NoRandomness &&
				w.rng.IntN(2) == 0 {
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
	if op.Kind >= shard.MoveApply {
		d.changes++
	}
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
