package middleman

import (
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// StorageOp is one request of a middleman to its storage. StorageDone takes the result.
type StorageOp struct {
	ID     uint64
	Kind   StorageKind
	Key    string
	Record causal.Record
	// ForReader says that a StorageRead is for Reader, who gets the value.
	ForReader bool
	Reader    topology.Node
	// KeyExists says that storage holds the key before a StorageWrite or StorageDelete, as the read before it found.
	KeyExists bool
	// Horizon is the value for StorageHorizon.
	Horizon causal.HLC
	// Limit is about how many keys StorageScan may return; Key is where it continues.
	Limit int
	// Origin and Generation are a fence for StorageFence.
	Origin     topology.Origin
	Generation uint64
	// Exclusions are those for StorageExclusions.
	Exclusions causal.Exclusions
}

// StorageKind is what a StorageOp does.
type StorageKind uint8

// The storage requests. The effects of Write, Delete, Horizon, Fence and Exclusions must be durable before StorageDone
// is called.
const (
	StorageRead StorageKind = iota
	StorageWrite
	StorageDelete
	StorageHorizon
	StorageCount
	StorageScan
	StorageFence      // from now on puts of the origin are refused if their log is of a lower generation
	StorageExclusions // from now on the shard applies these too
)

// StorageResult is the result of a StorageOp.
type StorageResult struct {
	ID     uint64
	Record causal.Record
	Found  bool
	Failed bool
	// Busy says that nothing was read for a Reader, because there is no room for the reply.
	Busy bool
	// Foreign says that the value has no valid envelope: something else wrote it. Record.Value is the raw value.
	Foreign bool
	// Count is the result of StorageCount.
	Count int64
	// Changes, of a request whose effects are durable, is how far the storage has come with it, or a little further.
	Changes uint64
	// Keys and Next are the result of StorageScan. With BadCursor it cannot continue where it was, and must begin
	// again.
	Keys      []string
	Next      string
	BadCursor bool
}

// StorageDone takes the result of one storage request.
func (m *Middleman) StorageDone(now causal.Now, r StorageResult) {
	t := m.tasks.finish(r.ID)
	if t == nil {
		return
	}
	m.endScan(t)
	m.history.noteChanges(now, &r)
	if t.kind == taskRaiseHorizon {
		m.tombstones.horizonStored(t.horizon, r.Failed)
		if m.backfill != nil && !r.Failed { // else at the next tick
			m.backfill.raiseHorizon()
		}
		return
	}
	if t.kind == taskCount {
		reply := causal.CountReply{ID: t.read.id, Keys: uint64(r.Count)}
		if r.Failed {
			reply = causal.CountReply{ID: t.read.id, Err: causal.ErrStorage}
		}
		m.Send(reply.Message(m.cfg.Self, t.read.from))
		return
	}
	switch t.kind {
	case taskScan:
		m.finishScan(t, r)
		return
	case taskFence:
		t.claim.finishFence(r.Failed)
		return
	case taskExclusions:
		m.exclusion.finish(r.Failed)
		return
	case taskRecoveryNames:
		m.recovery.takeNames(t.page, r)
		return
	case taskRecoveryValue:
		m.recovery.takeValue(t.page, t.key, r)
		return
	}
	if r.Found && !m.knowsType(&r.Record) {
		r.Found, r.Failed = false, true // a later version has written it: it is neither shown nor replaced
	}
	if r.Foreign {
		m.stats.Foreign++
		r.Record.Version = causal.Version{} // less than every write
	} else if !r.Found {
		r.Record = causal.Missing(m.tombstones.horizon)
		if m.cfg.Broken.Has(causal.ForgetDropped) {
			r.Record = causal.Missing(0)
		}
	}
	switch t.kind {
	case taskRead:
		m.finishRead(now, t, r)
	case taskWrite:
		m.continueWrite(now, t, r)
	case taskDropTombstone:
		m.continueDrop(t, r)
	case taskDropExpired:
		m.continueExpired(t, &r)
	case taskLookUp:
		m.backfill.askDonor(now, t, r)
	case taskMerge:
		m.backfill.continueMerge(t, r)
	}
}
