package middleman

import (
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// Tombstones are dropped once no older put of their key can arrive any more (PROTOCOL MM-14, MM-15).

// tombstones are those in storage, and the durable horizon.
type tombstones struct {
	stored         []tombstone // in about the order of their versions
	horizon        causal.HLC
	raisingHorizon bool
}

type tombstone struct {
	version causal.Version
	key     string
}

func (ts *tombstones) add(key string, v causal.Version) {
	ts.stored = append(ts.stored, tombstone{version: v, key: key})
}

// horizonStored takes the result of making the horizon durable.
func (ts *tombstones) horizonStored(horizon causal.HLC, failed bool) {
	ts.raisingHorizon = false
	if !failed {
		ts.horizon = max(ts.horizon, horizon)
	}
}

// NoteTombstone reports a tombstone that storage held at the start, so that it is dropped in its time.
func (m *Middleman) NoteTombstone(key string, v causal.Version) {
	if m.owns(topology.SlotOf(key)) { // a mover may be writing the other slots
		m.tombstones.add(key, v)
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
		if !ts.raisingHorizon {
			ts.raisingHorizon = true
			m.tasks.request(StorageOp{Kind: StorageHorizon, Horizon: keepFrom},
				&task{kind: taskRaiseHorizon, horizon: keepFrom})
		}
		return
	}
	for len(ts.stored) > 0 && ts.stored[0].version.HLC <= upTo {
		t := ts.stored[0]
		ts.stored = ts.stored[1:]
		m.tasks.submit(&task{kind: taskDropTombstone, key: t.key, tombstone: t.version})
	}
}

// continueDrop takes the result of the task's last storage request.
func (m *Middleman) continueDrop(t *task, r StorageResult) {
	switch {
	case r.Failed:
		m.tombstones.add(t.key, t.tombstone)
	case !t.stored && r.Record.Version == t.tombstone:
		t.stored = true
		m.oldVersions.forget(t.key) // a read at a cut below the tombstone would find a version from before the deletion
		m.tasks.request(StorageOp{Kind: StorageDelete, Key: t.key, KeyExists: r.Found}, t)
		return
	}
	m.tasks.release(t)
}

// Horizon returns the durable tombstone horizon.
func (m *Middleman) Horizon() causal.HLC { return m.tombstones.horizon }
