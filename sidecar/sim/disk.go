package sim

import (
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/topology"
)

// disk is what a coordinator or a middleman finds again after a crash.
type disk struct {
	// Of a coordinator: the log from firstIndex on, and what is being made durable.
	log        []causal.Message
	firstIndex uint64
	unsynced   []causal.Message
	syncing    bool
	// Of a middleman.
	records map[string]causal.Record
	horizon causal.HLC
	stand   causal.Stand
	moves   uint64         // counts movers
	caches  topology.MapID // noted once the leases of before have run out
	pending []*storageWrite
	// volatile are the records before writes that failed and yet can be read: a crash may undo these, until another write
	// succeeds. A nil record: there was none.
	volatile map[string]*causal.Record
	failing  int // so many of the next writes fail half done: for scenarios

	slow    int64 // added to everything it does until slowTil, ns
	slowTil int64
}

func newDisk() *disk { return &disk{records: map[string]causal.Record{}, firstIndex: 1} }

// storageWrite is a write that storage has not acknowledged.
type storageWrite struct {
	op   causal.StorageOp
	done bool
}

// crash decides which unacknowledged writes made it: a prefix of the log's, any of a storage's; in a scenario none.
func (d *disk) crash(rng *rand.Rand, none bool) {
	if none {
		for key := range d.volatile {
			d.undo(key)
		}
		clear(d.volatile)
		d.unsynced, d.pending, d.syncing = nil, nil, false
		return
	}
	if len(d.unsynced) > 0 {
		d.log = append(d.log, d.unsynced[:rng.IntN(len(d.unsynced)+1)]...)
	}
	d.unsynced, d.syncing = nil, false
	for _, key := range slices.Sorted(maps.Keys(d.volatile)) {
		if rng.IntN(2) == 0 {
			d.undo(key)
		}
	}
	clear(d.volatile)
	for _, p := range d.pending {
		if !p.done && rng.IntN(2) == 0 {
			d.apply(p.op)
		}
	}
	d.pending = nil
}

// undo brings back what stood before a write that was not durable.
func (d *disk) undo(key string) {
	if before := d.volatile[key]; before != nil {
		d.records[key] = *before
	} else {
		delete(d.records, key)
	}
}

// half does a write that will be reported as failed: it can be read and is not durable.
func (d *disk) half(op causal.StorageOp) {
	if op.Kind == causal.StorageHorizon {
		return
	}
	if _, already := d.volatile[op.Key]; !already {
		if d.volatile == nil {
			d.volatile = map[string]*causal.Record{}
		}
		d.volatile[op.Key] = nil
		if before, ok := d.records[op.Key]; ok {
			d.volatile[op.Key] = &before
		}
	}
	d.apply(op)
}

func (d *disk) apply(op causal.StorageOp) {
	switch op.Kind {
	case causal.StorageWrite:
		d.records[op.Key] = op.Record
	case causal.StorageDelete:
		delete(d.records, op.Key)
	case causal.StorageHorizon:
		d.horizon = max(d.horizon, op.Horizon)
	}
}

func (d *disk) tombstones(f func(string, causal.Version)) {
	for _, key := range slices.Sorted(maps.Keys(d.records)) {
		if r := d.records[key]; r.Value.Tombstone {
			f(key, r.Version)
		}
	}
}

// diskDelay draws how long a disk takes.
func (w *World) diskDelay(n *node, typical time.Duration) int64 {
	slow := int64(0)
	if n.disk.slowTil > w.now {
		slow = n.disk.slow
	}
	if w.set.Quiet {
		return int64(typical) + slow
	}
	d := int64(typical)/2 + w.rng.Int64N(int64(typical))
	if w.rng.IntN(50) == 0 {
		d *= 20
	}
	if slow > 0 {
		d += slow/2 + w.rng.Int64N(slow/2+1)
	}
	return d + w.slowness(n)
}

// storage carries out one request of a middleman.
func (w *World) storage(n *node, op causal.StorageOp) {
	inst := n.inst
	answer := func(r causal.StorageResult) {
		if n.m != nil && n.inst == inst {
			n.m.(*causal.Middleman).StorageDone(w.clock(n), r)
			w.drain(n)
		}
	}
	if op.Kind == causal.StorageRead {
		// The value is read at some moment between request and answer.
		w.after(w.diskDelay(n, time.Millisecond), func() {
			if n.inst != inst {
				return
			}
			rec, found := n.disk.records[op.Key]
			failed := w.storageFails()
			w.after(w.diskDelay(n, time.Millisecond), func() { answer(causal.StorageResult{ID: op.ID, Record: rec, Found: found && !failed, Failed: failed}) })
		})
		return
	}
	if op.Kind == causal.StorageCount {
		w.after(0, func() { answer(causal.StorageResult{ID: op.ID, Count: int64(len(n.disk.records))}) })
		return
	}
	p := &storageWrite{op: op}
	n.disk.pending = append(n.disk.pending, p)
	w.after(w.diskDelay(n, 2*time.Millisecond), func() {
		if n.inst != inst {
			return
		}
		p.done = true
		n.wrote(op)
		n.disk.pending = slices.DeleteFunc(n.disk.pending, func(q *storageWrite) bool { return q.done })
		failed := w.storageFails()
		switch {
		case n.disk.failing > 0:
			failed = true
			n.disk.failing--
			n.disk.half(op)
		case !failed:
			n.disk.apply(op)
			clear(n.disk.volatile)
		case w.rng.IntN(2) == 0:
			n.disk.half(op)
		}
		answer(causal.StorageResult{ID: op.ID, Failed: failed})
	})
}

// storageFails draws whether a storage request fails.
func (w *World) storageFails() bool {
	if w.set.BreakLinks == 0 || w.rng.IntN(1_000_000/w.set.BreakLinks) > 3 {
		return false
	}
	w.harm(StorageFail)
	return true
}

// appendLog makes what a coordinator wants durable, one group at a time.
func (w *World) appendLog(n *node, c *causal.Coordinator) {
	n.disk.unsynced = c.Appends(n.disk.unsynced)
	if t := c.TruncateBefore(); t > n.disk.firstIndex {
		drop := min(int(t-n.disk.firstIndex), len(n.disk.log))
		n.disk.log = append([]causal.Message(nil), n.disk.log[drop:]...)
		n.disk.firstIndex += uint64(drop)
	}
	w.syncLog(n)
}

func (w *World) syncLog(n *node) {
	d := n.disk
	if d.syncing || len(d.unsynced) == 0 {
		return
	}
	d.syncing = true
	group, inst := len(d.unsynced), n.inst
	w.after(w.diskDelay(n, 3*time.Millisecond), func() {
		if n.inst != inst || n.m == nil {
			return
		}
		d.log = append(d.log, d.unsynced[:group]...)
		d.unsynced = append([]causal.Message(nil), d.unsynced[group:]...)
		d.syncing = false
		n.m.(*causal.Coordinator).Appended(w.clock(n), d.firstIndex+uint64(len(d.log))-1)
		w.drain(n)
	})
}
