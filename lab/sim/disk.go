package sim

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal/member"
	"github.com/causalstore/causalstore/sidecar/causal/process"
	"github.com/causalstore/causalstore/topology"
)

// disk is the durable state of a coordinator or middleman.
type disk struct {
	// Of a coordinator, and of a member of a shard: the encoded entries of the log from firstIndex on, and those of
	// an append that is under way.
	volume     uint64 // 0 until it is used
	log        [][]byte
	firstIndex uint64
	unsynced   [][]byte
	isDamaged  bool // it holds less than it had acknowledged
	// Until when the log takes nothing, because of a problem, and until when it has room for little.
	logFullUntil, logNearlyFullUntil int64
	logProblem                       process.LogProblem
	// Of a middleman.
	content
	pending  []*process.Effect // changes that are not acknowledged
	failNext int               // the number of writes that will fail and yet can be read; scenarios set it
	// before is what it held before changes that it has reported as failed, though they can be read. A crash may undo
	// them until another change succeeds. nil: there are none.
	before *content
	task   *member.StorageTask // of a member of a shard: what its storage is asked to do

	hungSince, hungUntil int64 // the storage does nothing meanwhile
	lag                  int64 // added to the latency of tasks of a member until lagUntil
	lagUntil             int64
	// Of a member of a shard: until when the storage has no room for changes, and until when it fails, with a problem.
	fullUntil, brokenUntil int64
	problem                process.Problem
	lost                   bool // it has lost data, and says so with each request until that is noted
	// service is what each request to the storage takes, one after the other; 0: requests do not wait for each other.
	service, busyUntil int64

	slowBy    int64 // added to the latency of every operation until slowUntil, ns
	slowUntil int64
}

func newDisk() *disk {
	return &disk{content: newContent(), firstIndex: 1}
}

// crash decides which unacknowledged writes survive: a prefix of those to the log, and any of those to storage; with
// none set, as in scenarios, no write does.
func (d *disk) crash(rng *rand.Rand, none bool) {
	d.crashTask(rng, none)
	if none {
		d.unsynced, d.pending = nil, nil
		return
	}
	if len(d.unsynced) > 0 {
		d.log = append(d.log, d.unsynced[:rng.IntN(len(d.unsynced)+1)]...)
	}
	d.unsynced = nil
	for _, e := range d.pending {
		if rng.IntN(2) == 0 {
			d.change(e)
		}
	}
	d.pending = nil
}

// change makes a change of the process of a middleman.
func (d *disk) change(e *process.Effect) {
	d.changes++
	d.apply(&e.Change, e.CheckExistence)
}

// endChange makes a change that was pending. One that fails is not made, or is made and is not durable.
func (d *disk) endChange(e *process.Effect, failed, isVolatile bool) {
	d.pending = slices.DeleteFunc(d.pending, func(p *process.Effect) bool { return p.ID == e.ID })
	switch {
	case !failed:
		d.change(e)
		d.before = nil
	case isVolatile:
		if d.before == nil {
			d.before = d.content.copy()
		}
		d.change(e)
	}
}

func (d *disk) hasWritesOf(o topology.Origin) bool { return d.Origins.Has(o) }

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
	if n.disk.service > 0 { // one request after the other
		n.disk.busyUntil = max(n.disk.busyUntil, w.now) + n.disk.service
		d += n.disk.busyUntil - w.now
	}
	return d
}

// storageFails draws whether a storage request fails, and counts the fault.
func (w *World) storageFails() bool {
	if w.settings.FaultsPerMillion == 0 || w.rng.IntN(1_000_000/w.settings.FaultsPerMillion) > 3 {
		return false
	}
	w.countFault(StorageFail)
	return true
}
