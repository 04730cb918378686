package sim

import (
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/member"
	"github.com/causalstore/causalstore/sidecar/causal/middleman"
	"github.com/causalstore/causalstore/topology"
)

// disk is the durable state of a coordinator or middleman.
type disk struct {
	// Of a coordinator, and of a member of a shard: the encoded entries of the log from firstIndex on, and those that
	// are not synced.
	volume     uint64 // 0 until it is used
	log        [][]byte
	firstIndex uint64
	unsynced   [][]byte
	syncing    bool
	// Of a middleman.
	content
	pending []*storageWrite
	// volatile holds, for writes that failed and yet can be read, the records before them. A crash may roll such a
	// write back until another write succeeds. A nil record: the key was not there.
	volatile map[string]*causal.Record
	failNext int // the number of writes that will fail and yet can be read; scenarios set it

	// Of a member of a shard: what its storage is asked to do, and what it held before changes that it has reported as
	// failed, though they can be read.
	task   *member.StorageTask
	before *content

	hungSince, hungUntil int64 // the storage does nothing meanwhile
	lag                  int64 // added to the latency of the storage until lagUntil
	lagUntil             int64
	// service is what each request to the storage takes, one after the other; 0: requests do not wait for each other.
	service, busyUntil int64

	slowBy    int64 // added to the latency of every operation until slowUntil, ns
	slowUntil int64
}

func newDisk() *disk {
	return &disk{content: newContent(), firstIndex: 1}
}

// storageWrite is a write that storage has not acknowledged.
type storageWrite struct {
	op   middleman.StorageOp
	done bool
}

// crash decides which unacknowledged writes survive: a prefix of those to the log, and any of those to storage; with
// none set, as in scenarios, no write does.
func (d *disk) crash(rng *rand.Rand, none bool) {
	d.crashTask(rng, none)
	if none {
		for key := range d.volatile {
			d.rollBack(key)
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
			d.rollBack(key)
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

// rollBack restores the record before a write that was not durable.
func (d *disk) rollBack(key string) {
	if before := d.volatile[key]; before != nil {
		d.records[key] = *before
	} else {
		delete(d.records, key)
	}
}

// applyVolatile applies a write that will be reported as failed: it can be read, but is not durable.
func (d *disk) applyVolatile(op middleman.StorageOp) {
	if op.Kind == middleman.StorageHorizon || op.Kind == middleman.StorageFence ||
		op.Kind == middleman.StorageExclusions {
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

func (d *disk) set(key string, rec causal.Record) {
	d.records[key] = rec
	d.origins[rec.Version.Origin] = true
}

func (d *disk) hasWritesOf(o topology.Origin) bool { return d.origins[o] }

func (d *disk) apply(op middleman.StorageOp) {
	d.changes++
	switch op.Kind {
	case middleman.StorageWrite:
		d.set(op.Key, op.Record)
	case middleman.StorageDelete:
		delete(d.records, op.Key)
	case middleman.StorageHorizon:
		d.horizon = max(d.horizon, op.Horizon)
	case middleman.StorageFence:
		d.fences = d.fences.With(op.Origin, op.Generation)
	case middleman.StorageExclusions:
		d.exclusions = d.exclusions.With(op.Exclusions)
	}
}

func (d *disk) eachTombstone(f func(string, causal.Version)) {
	for _, key := range slices.Sorted(maps.Keys(d.records)) {
		if r := d.records[key]; r.Value.Tombstone {
			f(key, r.Version)
		}
	}
}

// diskDelay draws the latency of a disk operation.
func (w *World) diskDelay(n *node, typical time.Duration) int64 {
	slow := int64(0)
	if n.disk.slowUntil > w.now {
		slow = n.disk.slowBy
	}
	if w.settings.NoRandomness {
		return int64(typical) + slow
	}
	d := int64(typical)/2 + w.rng.Int64N(int64(typical))
	if w.rng.IntN(50) == 0 {
		d *= 20
	}
	if slow > 0 {
		d += slow/2 + w.rng.Int64N(slow/2+1)
	}
	return d + w.slowDelay(n)
}

// storageDelay draws the latency of an operation of a storage.
func (w *World) storageDelay(n *node, typical time.Duration) int64 {
	d := max(0, n.disk.hungUntil-w.now) + w.diskDelay(n, typical)
	if n.disk.lagUntil > w.now {
		d += n.disk.lag
	}
	if n.disk.service > 0 { // one request after the other
		n.disk.busyUntil = max(n.disk.busyUntil, w.now) + n.disk.service
		d += n.disk.busyUntil - w.now
	}
	return d
}

// runStorageOp executes a middleman's storage request.
func (w *World) runStorageOp(n *node, op middleman.StorageOp) {
	switch op.Kind {
	case middleman.StorageRead:
		w.readStorage(n, op)
	case middleman.StorageCount:
		answer := w.storageAnswer(n)
		w.schedule(0, func() { answer(middleman.StorageResult{ID: op.ID, Count: int64(len(n.disk.records))}) })
	case middleman.StorageScan:
		w.scanStorage(n, op)
	default:
		if m, ok := n.m.(*shardMember); ok {
			w.proposeWrite(n, m, op)
			return
		}
		w.writeStorage(n, op)
	}
}

// storageAnswer returns a function that delivers a result to the middleman that serves now, if it still does. That of a
// member of a shard gets it while the lease holds.
func (w *World) storageAnswer(n *node) func(middleman.StorageResult) {
	serving := n.serving
	return func(r middleman.StorageResult) {
		if n.serving != serving {
			return
		}
		if m, ok := n.m.(*shardMember); ok {
			w.hold(n, m, r)
		} else {
			n.shard().Serving().StorageDone(w.clock(n), r)
		}
		w.flush(n)
	}
}

// readStorage reads a record at some time between request and answer.
func (w *World) readStorage(n *node, op middleman.StorageOp) {
	answer, serving := w.storageAnswer(n), n.serving
	w.schedule(w.storageDelay(n, time.Millisecond), func() {
		if n.serving != serving {
			return
		}
		rec, found := n.disk.records[op.Key]
		failed := w.storageFails()
		w.schedule(w.storageDelay(n, time.Millisecond), func() {
			answer(middleman.StorageResult{ID: op.ID, Record: rec, Found: found && !failed, Failed: failed})
		})
	})
}

// scanStorage names keys at some time between request and answer.
func (w *World) scanStorage(n *node, op middleman.StorageOp) {
	answer, serving := w.storageAnswer(n), n.serving
	w.schedule(w.storageDelay(n, time.Millisecond), func() {
		if n.serving != serving {
			return
		}
		r := middleman.StorageResult{ID: op.ID, Failed: w.storageFails()}
		for _, key := range slices.Sorted(maps.Keys(n.disk.records)) {
			if key < op.Key {
				continue
			}
			if len(r.Keys) == op.Limit {
				r.Next = key
				break
			}
			r.Keys = append(r.Keys, key)
		}
		w.schedule(w.storageDelay(n, time.Millisecond), func() { answer(r) })
	})
}

// writeStorage applies a write. One that fails may be readable all the same.
func (w *World) writeStorage(n *node, op middleman.StorageOp) {
	answer, serving := w.storageAnswer(n), n.serving
	p := &storageWrite{op: op}
	n.disk.pending = append(n.disk.pending, p)
	w.schedule(w.storageDelay(n, 2*time.Millisecond), func() {
		if n.serving != serving {
			return
		}
		p.done = true
		n.shard().NoteWrite(op)
		n.disk.pending = slices.DeleteFunc(n.disk.pending, func(q *storageWrite) bool { return q.done })
		failed := w.storageFails()
		switch {
		case n.disk.failNext > 0:
			failed = true
			n.disk.failNext--
			n.disk.applyVolatile(op)
		case !failed:
			n.disk.apply(op)
			clear(n.disk.volatile)
		case w.rng.IntN(2) == 0:
			n.disk.applyVolatile(op)
		}
		answer(middleman.StorageResult{ID: op.ID, Failed: failed, Changes: n.disk.position().Changes})
	})
}

// storageFails draws whether a storage request fails, and counts the fault.
func (w *World) storageFails() bool {
	if w.settings.FaultsPerMillion == 0 || w.rng.IntN(1_000_000/w.settings.FaultsPerMillion) > 3 {
		return false
	}
	w.countFault(StorageFail)
	return true
}
