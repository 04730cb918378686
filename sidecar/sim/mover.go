package sim

import (
	"maps"
	"slices"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/topology"
)

// up reports whether the process of the node runs.
func (n *node) up() bool { return n.m != nil || n.mover != nil }

// wrote tells the mover of a write that the middleman has asked for, or that was done.
func (n *node) wrote(op causal.StorageOp) {
	if n.mover != nil && (op.Kind == causal.StorageWrite || op.Kind == causal.StorageDelete) {
		n.mover.Wrote(op.Key)
	}
}

// startMiddleman starts the process of a middleman; what serves in it depends on whether its ring changes.
func (w *World) startMiddleman(n *node) {
	w.startMover(n)
	w.serve(n)
}

func (w *World) startMover(n *node) {
	n.mover = nil
	if err := causal.CheckStand(n.topo, n.id, n.disk.stand); err != nil {
		panic(err) // whoever changes the topology here waits for the end of each change
	}
	if !n.topo.Changing().Has(n.topo.RingOf(n.id.DC)) {
		n.disk.stand.Map = n.topo.Map(n.topo.RingOf(n.id.DC))
		return
	}
	cfg := causal.DefaultMoverConfig(n.topo, n.id)
	n.disk.moves++
	cfg.Life, cfg.Stand, cfg.Chunk, cfg.Broken = n.disk.moves, n.disk.stand, 3, w.set.Broken
	cfg.Notice = 0
	if w.set.Lease > 0 {
		cfg.Lease = w.set.Lease
	}
	n.mover = causal.NewMover(cfg)
	n.moves++
	life, moves := n.life, n.moves
	w.after(0, func() { w.moving(n, life, moves) })
}

func (w *World) moving(n *node, life, moves uint64) {
	if n.mover == nil || n.life != life || n.moves != moves {
		return
	}
	n.mover.Tick(w.clock(n))
	w.drainMover(n)
	w.after(int64(tick), func() { w.moving(n, life, moves) })
}

func (w *World) stepMover(n *node, msg *causal.Message) {
	if n.mover != nil {
		n.mover.Step(w.clock(n), msg)
		w.drainMover(n)
	}
}

// drainMover sends what a mover has left, starts its I/O, and makes the middleman follow it.
func (w *World) drainMover(n *node) {
	w.serve(n)
	for _, m := range n.mover.Take(nil) {
		w.net.send(n, m)
	}
	for _, op := range n.mover.Ops(nil) {
		w.moveOp(n, op)
	}
}

// serve makes the machine of a middleman the one that it is to have.
func (w *World) serve(n *node) {
	ring := n.topo.RingOf(n.id.DC)
	view, ok := n.topo, true
	if n.mover != nil {
		view, ok = n.mover.Serve()
	}
	if n.m != nil && (!ok || n.view.Map(ring) != view.Map(ring) || n.view.Caches() != view.Caches()) {
		n.m = nil
		n.inst++
		n.disk.crash(w.rng, w.set.Quiet)
	}
	if n.m == nil && n.mover != nil {
		n.mover.Stopped()
		view, ok = n.mover.Serve()
	}
	if n.m != nil || !ok {
		return
	}
	n.inst++
	n.view = view
	cfg := causal.DefaultMiddlemanConfig(view, n.id)
	cfg.Broken, cfg.Incarnation, cfg.Horizon = w.set.Broken, n.inst, n.disk.horizon
	cfg.Fresh = n.inst == 1 && n.mover == nil
	caches := view.Caches()
	if cfg.Fresh {
		n.disk.caches = caches
	}
	cfg.Inherited = !cfg.Fresh && (n.disk.caches != caches || n.mover != nil && n.mover.TookIn())
	if w.set.Lease > 0 {
		cfg.Lease = w.set.Lease
	}
	if w.set.KeepMs > 0 {
		cfg.KeepMs = w.set.KeepMs
	}
	mm := causal.NewMiddleman(cfg, w.clock(n))
	n.disk.tombstones(mm.NoteTombstone)
	n.m = mm
	inst := n.inst
	w.after(int64(cfg.Lease)*11/10, func() { // its clock may be slow
		if n.inst == inst {
			n.disk.caches = caches
		}
	})
	w.startTicking(n)
}

// moveOp carries out one storage request of a mover.
func (w *World) moveOp(n *node, op causal.MoveOp) {
	life, moves := n.life, n.moves
	w.after(w.diskDelay(n, 2*time.Millisecond), func() {
		if n.mover == nil || n.life != life || n.moves != moves {
			// A crash: what storage was asked for may be done all the same.
			if n.mover == nil && n.life == life+1 && op.Kind >= causal.MoveApply && !w.set.Quiet && w.rng.IntN(2) == 0 {
				n.disk.move(op, &causal.MoveResult{})
			}
			return
		}
		r := causal.MoveResult{ID: op.ID, Failed: w.storageFails()}
		if !r.Failed || op.Kind >= causal.MoveApply && w.rng.IntN(2) == 0 {
			n.disk.move(op, &r)
		}
		n.mover.OpDone(op, r)
		w.drainMover(n)
	})
}

func (d *disk) move(op causal.MoveOp, r *causal.MoveResult) {
	switch op.Kind {
	case causal.MoveList:
		for _, key := range slices.Sorted(maps.Keys(d.records)) {
			if op.Want(topology.SlotOf(key)) {
				r.Keys = append(r.Keys, key)
			}
		}
	case causal.MoveRead:
		for _, key := range op.Keys {
			r.Records = append(r.Records, causal.Moved{Key: key, Record: d.records[key]})
		}
		r.Horizon = d.horizon
	case causal.MoveApply:
		for _, m := range op.Records {
			if m.Record.Version.IsZero() {
				delete(d.records, m.Key)
			} else {
				d.records[m.Key] = m.Record
			}
		}
		d.horizon = max(d.horizon, op.Horizon)
	case causal.MoveWipe:
		maps.DeleteFunc(d.records, func(key string, _ causal.Record) bool { return op.Want(topology.SlotOf(key)) })
	case causal.MoveStand:
		d.stand = op.Stand
	}
}
