package middleman

import (
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// Tombstones are dropped once no older put of their key can arrive any more (PROTOCOL MM-14, MM-15). So is what values
// that merge remember of what was removed from them (PROTOCOL VAL-15).

// tombstones are those in storage, the values there that have something to drop, and the durable horizon.
type tombstones struct {
	stored         []tombstone // in about the order of their versions
	merging        map[string]struct{}
	horizon        causal.HLC
	raisingHorizon bool
}

type tombstone struct {
	version causal.Version
	key     string
	merges  bool // it is a value from which something was removed
}

// maxCollected bounds the values that merge which are looked at in one step: each is read, and may be written.
const maxCollected = 256

func (ts *tombstones) add(key string, v causal.Version) {
	ts.stored = append(ts.stored, tombstone{version: v, key: key})
}

// addMerging notes a value that has something to drop. A key is noted once: what is removed from it meanwhile is found
// then.
func (ts *tombstones) addMerging(key string, v causal.Version) {
	if _, noted := ts.merging[key]; noted {
		return
	}
	if ts.merging == nil {
		ts.merging = map[string]struct{}{}
	}
	ts.merging[key] = struct{}{}
	ts.stored = append(ts.stored, tombstone{version: v, key: key, merges: true})
}

// horizonStored takes the result of making the horizon durable.
func (ts *tombstones) horizonStored(horizon causal.HLC, failed bool) {
	ts.raisingHorizon = false
	if !failed {
		ts.horizon = max(ts.horizon, horizon)
	}
}

// NoteTombstone reports a tombstone, a value that merges, or one that expires, that storage held at the start, so that
// it is dropped, or what it need not remember, in its time.
func (m *Middleman) NoteTombstone(key string, rec causal.Record) {
	if m.owns(topology.SlotOf(key)) { // a mover may be writing the other slots
		m.noteRemoved(key, &rec)
	}
}

// noteRemoved notes what is in storage if it is a tombstone, has something to drop, or expires.
func (m *Middleman) noteRemoved(key string, rec *causal.Record) {
	m.noteExpiring(key, rec)
	switch {
	case rec.Value.Tombstone:
		m.tombstones.add(key, rec.Version)
	case rec.Value.Merges() && m.cfg.Types.Accepts(&rec.Value) && m.cfg.Types.HasDead(rec):
		m.tombstones.addMerging(key, rec.Version)
	}
}

// dropTombstones removes the tombstones at or below keepFrom, which is below every origin's SV: no older put of their
// keys can arrive. Before the first is dropped the horizon is made durable, so that a coordinator that has lost its
// memory and sends an old put again cannot undo the deletion.
func (m *Middleman) dropTombstones(keepFrom causal.HLC) {
	ts := &m.tombstones
	upTo := min(keepFrom, ts.horizon)
	if m.cfg.Broken.Has(causal.TombstoneEarly) {
		upTo = ^causal.HLC(0)
	} else if len(ts.stored) > 0 && ts.stored[0].version.HLC <= keepFrom && ts.horizon < ts.stored[0].version.HLC {
		m.raiseHorizon(keepFrom)
		return
	}
	for collected := 0; len(ts.stored) > 0 && ts.stored[0].version.HLC <= upTo && collected < maxCollected; {
		t := ts.stored[0]
		ts.stored = ts.stored[1:]
		if t.merges {
			collected++
			delete(ts.merging, t.key)
		}
		m.tasks.submit(&task{kind: taskDropTombstone, key: t.key, tombstone: t.version, horizon: upTo})
	}
}

// raiseHorizon makes a horizon durable, unless another one is about to become so.
func (m *Middleman) raiseHorizon(horizon causal.HLC) {
	if ts := &m.tombstones; !ts.raisingHorizon && ts.horizon < horizon {
		ts.raisingHorizon = true
		m.tasks.request(StorageOp{Kind: StorageHorizon, Horizon: horizon},
			&task{kind: taskRaiseHorizon, horizon: horizon})
	}
}

// continueDrop takes the result of the task's last storage request.
func (m *Middleman) continueDrop(t *task, r StorageResult) {
	switch {
	case r.Failed && t.joined != nil:
		m.tombstones.addMerging(t.key, t.tombstone)
	case r.Failed:
		m.tombstones.add(t.key, t.tombstone)
	case t.joined != nil:
		m.noteRemoved(t.key, t.joined)
	case !t.stored && r.Record.Value.Merges():
		if m.collect(t, &r.Record) {
			return
		}
	case !t.stored && r.Record.Version == t.tombstone:
		m.drop(t, r.Found)
		return
	}
	m.tasks.release(t)
}

// drop removes a key, of which a task has read the record.
func (m *Middleman) drop(t *task, found bool) {
	t.stored = true
	m.oldVersions.forget(t.key) // a read at a cut below the tombstone would find a version from before the deletion
	m.tasks.request(StorageOp{Kind: StorageDelete, Key: t.key, KeyExists: found}, t)
}

// collect drops what a value that merges need not remember any more: all writes up to the horizon are joined in it. It
// returns false if there is nothing to write.
func (m *Middleman) collect(t *task, rec *causal.Record) bool {
	types, horizon := m.cfg.Types, t.horizon
	if m.cfg.Broken.Has(causal.CollectedEarly) {
		horizon = rec.Version.HLC
	}
	if !types.HasDead(rec) {
		return false
	}
	left, remains := types.Collect(*rec, horizon)
	switch {
	case !remains:
		m.drop(t, true)
	case types.HasDead(&left) && left.Value.Size() >= rec.Value.Size(): // nothing is below the horizon
		m.noteRemoved(t.key, &left)
		return false
	default:
		t.stored, t.joined = true, &left
		m.oldVersions.noteOtherWrite(t.key)
		m.tasks.request(StorageOp{Kind: StorageWrite, Key: t.key, Record: left, KeyExists: true}, t)
	}
	return true
}

// Horizon returns the durable tombstone horizon.
func (m *Middleman) Horizon() causal.HLC { return m.tombstones.horizon }
