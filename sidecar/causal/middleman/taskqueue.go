package middleman

import (
	"slices"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/keystate"
	"github.com/causalstore/causalstore/sidecar/value"
)

// The queues of storage tasks, one for each key (PROTOCOL MM-11): reads of a key overlap each other, a write is
// alone. So reading a value and registering its copy are one step, and so are writing a value and taking the list of
// copies.

// task is something to do with storage.
type task struct {
	kind taskKind
	// stored says that the task has read the current record, or knows it, and has asked storage to replace it.
	stored  bool
	unread  bool          // taskWrite, once stored: the record to replace was not read, since it was known
	unkept  bool          // taskWrite, once stored: the record to replace is not in replaced
	found   bool          // taskWrite, once stored: there was a record to replace
	foreign bool          // taskWrite, once stored: something else had written it
	status  causal.Status // only for the StatusNotAtomic mutation
	key     string
	read    readRequest // taskRead; taskCount and taskScan use from and id
	put     *put        // taskWrite
	// taskWrite: puts with lower versions, which are written in the same step, or superseded by put
	coalesced []*put
	// taskWrite: what is to be written, if that is not the record of put; taskDropTombstone: what is left of a value
	// that merges
	joined    *causal.Record
	tombstone causal.Version // taskDropTombstone
	horizon   causal.HLC     // taskRaiseHorizon, taskDropTombstone; taskDropExpired: what has expired there is dropped
	replaced  causal.Record  // taskWrite, once stored
	named     []string       // taskScan: keys of puts that are not processed
	holder    causal.Holder  // taskCount, taskScan: who has asked
	size      int            // taskCount, taskScan: bytes that it counts for; 0: nobody has asked
	claim     *claim         // taskFence
	page      *recoveryPage  // taskRecoveryNames, taskRecoveryValue
	copied    *copiedRecord  // taskMerge
}

type taskKind uint8

const (
	taskRead taskKind = iota
	taskWrite
	taskDropTombstone
	taskDropExpired
	taskCount         // of all keys, in no queue
	taskScan          // of some keys, in no queue
	taskRaiseHorizon  // in no queue
	taskFence         // in no queue
	taskExclusions    // in no queue
	taskRecoveryNames // in no queue
	taskRecoveryValue // of one key; in no queue, since what is pending is noted before
	taskLookUp        // of a key, for a backfill, in no queue
	taskMerge         // of a record that was copied
)

// taskQueues are the queues of all keys, and the storage requests of the tasks that run.
type taskQueues struct {
	types *value.Types
	// losesMerged is for the mutation DeltaLost.
	losesMerged bool
	byKey       map[string]*taskQueue
	inFlight    inFlightTasks
	requests    []StorageOp // not taken yet
	// startWrite issues the first storage request of a taskWrite.
	startWrite func(*task)
	retries    []*task // writes whose storage request failed
	// replacedBytes is the size of what writes in progress are about to replace.
	replacedBytes int

	// The queues of keys and the tasks of writes are used again.
	idleQueues []*taskQueue
	idleWrites []*task
}

// maxIdleTasks bounds the queues, and the tasks, that are kept for use.
const maxIdleTasks = 1024

// taskQueue is the queue of one key.
type taskQueue struct {
	readers int
	writing bool
	waiting []*task
}

func newTaskQueues(types *value.Types) taskQueues {
	return taskQueues{types: types, byKey: map[string]*taskQueue{}}
}

// submit runs a read, a write or the removal of a tombstone as soon as the queue of its key allows.
func (qs *taskQueues) submit(t *task) {
	q := qs.byKey[t.key]
	if q == nil {
		q = qs.idleQueue()
		qs.byKey[t.key] = q
	}
	if len(q.waiting) > 0 || !q.allows(t) {
		q.waiting = append(q.waiting, t)
		return
	}
	qs.start(q, t)
}

// run starts every task that the queue allows.
func (qs *taskQueues) run(q *taskQueue) {
	for len(q.waiting) > 0 && q.allows(q.waiting[0]) {
		t := q.waiting[0]
		q.waiting[0] = nil
		q.waiting = q.waiting[1:]
		qs.start(q, t)
	}
}

// allows reports whether a task may run beside those that do.
func (q *taskQueue) allows(t *task) bool { return !q.writing && (t.kind == taskRead || q.readers == 0) }

// start starts a task, with reading the current record if it is not known.
func (qs *taskQueues) start(q *taskQueue, t *task) {
	if t.kind == taskRead {
		q.readers++
		qs.requestRead(t)
		return
	}
	q.writing = true
	qs.coalesce(q, t)
	if t.kind == taskWrite {
		qs.startWrite(t)
		return
	}
	qs.request(StorageOp{Kind: StorageRead, Key: t.key}, t)
}

// requestRead issues the storage request of a read.
func (qs *taskQueues) requestRead(t *task) {
	qs.request(StorageOp{Kind: StorageRead, Key: t.key, ForReader: true, Reader: t.read.from}, t)
}

// coalesce joins the waiting writes of the key with t: what all of them make of the key is written in one step, and of
// registers that is the newest. So a key with many concurrent writers costs one write at a time, and readers do not
// wait for each of them.
func (qs *taskQueues) coalesce(q *taskQueue, t *task) {
	if t.kind != taskWrite {
		return
	}
	q.waiting = slices.DeleteFunc(q.waiting, func(w *task) bool {
		if w.kind != taskWrite {
			return false
		}
		joined := qs.types.Join(*t.record(), *w.record())
		if keystate.Newer(&w.put.record, &t.put.record) {
			t.put, w.put = w.put, t.put
		}
		t.coalesced = append(t.coalesced, w.put)
		if !qs.losesMerged {
			t.write(joined)
		}
		return true
	})
}

// record returns what a taskWrite writes: what its puts make of the key, and once it is stored, with what was in
// storage.
func (t *task) record() *causal.Record {
	if t.joined != nil {
		return t.joined
	}
	return &t.put.record
}

// write makes a record the one that is written. Of registers it is that of put.
func (t *task) write(rec causal.Record) {
	if t.joined = nil; !keystate.Same(&rec, &t.put.record) {
		joined := rec // on the heap in this case only
		t.joined = &joined
	}
}

// release ends a task that submit has started.
func (qs *taskQueues) release(t *task) {
	q := qs.byKey[t.key]
	if q == nil {
		return
	}
	if t.kind == taskRead {
		q.readers--
	} else {
		q.writing = false
	}
	qs.run(q)
	if len(q.waiting) == 0 && q.readers == 0 && !q.writing {
		delete(qs.byKey, t.key)
		if len(qs.idleQueues) < maxIdleTasks {
			q.waiting = nil
			qs.idleQueues = append(qs.idleQueues, q)
		}
	}
}

func (qs *taskQueues) idleQueue() *taskQueue {
	last := len(qs.idleQueues) - 1
	if last < 0 {
		return &taskQueue{}
	}
	q := qs.idleQueues[last]
	qs.idleQueues = qs.idleQueues[:last]
	return q
}

// write returns the task of a put. releaseWrite ends its use.
func (qs *taskQueues) write(p *put) *task {
	last := len(qs.idleWrites) - 1
	if last < 0 {
		return &task{kind: taskWrite, key: p.key, put: p}
	}
	t := qs.idleWrites[last]
	qs.idleWrites = qs.idleWrites[:last]
	t.kind, t.key, t.put = taskWrite, p.key, p
	return t
}

// releaseWrite releases the task of a put, which the caller has no more use for.
func (qs *taskQueues) releaseWrite(t *task) {
	qs.release(t)
	if len(qs.idleWrites) < maxIdleTasks {
		*t = task{}
		qs.idleWrites = append(qs.idleWrites, t)
	}
}

// request issues a storage request for t.
func (qs *taskQueues) request(op StorageOp, t *task) {
	op.ID = qs.inFlight.add(t)
	qs.requests = append(qs.requests, op)
}

// finish returns the task of a storage request that has been carried out, or nil if there is none.
func (qs *taskQueues) finish(id uint64) *task {
	return qs.inFlight.remove(id)
}

// inFlightTasks are tasks with a storage request, by its id: a place in a list, and below it how often that was used.
type inFlightTasks struct {
	places []inFlightTask
	free   []uint32
}

type inFlightTask struct {
	task *task // nil: the place is free
	uses uint32
}

// add returns an id, which is not 0.
func (ts *inFlightTasks) add(t *task) uint64 {
	var place uint32
	if last := len(ts.free) - 1; last >= 0 {
		place, ts.free = ts.free[last], ts.free[:last]
	} else {
		place = uint32(len(ts.places))
		ts.places = append(ts.places, inFlightTask{})
	}
	p := &ts.places[place]
	p.task = t
	p.uses++
	return uint64(place+1)<<32 | uint64(p.uses)
}

// remove returns the task of an id, or nil if there is none.
func (ts *inFlightTasks) remove(id uint64) *task {
	place := id>>32 - 1
	if place >= uint64(len(ts.places)) {
		return nil
	}
	p := &ts.places[place]
	t := p.task
	if t == nil || p.uses != uint32(id) {
		return nil
	}
	p.task = nil
	ts.free = append(ts.free, uint32(place))
	return t
}

// len returns how many there are.
func (ts *inFlightTasks) len() int { return len(ts.places) - len(ts.free) }

// take appends the storage requests to dst and empties the list.
func (qs *taskQueues) take(dst []StorageOp) []StorageOp {
	dst = append(dst, qs.requests...)
	qs.requests = causal.Recycle(qs.requests)
	return dst
}
