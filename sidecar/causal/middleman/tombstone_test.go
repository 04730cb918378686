package middleman

import (
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
)

func hlcAt(ms int64) causal.HLC { return causal.HLCAt(ms) }

func keepTenMs(c *Config) { c.KeepMs = 10 }

// An older put of the key may still arrive, and would bring the deleted value back.
func TestTombstoneIsKeptUntilNoOlderPutOfItsKeyCanArrive(t *testing.T) {
	ruleHolds(t, causal.TombstoneEarly, func(r *rig) string {
		key := r.key(self, 0)
		r.put(key, tombstoneOf(version(hlcAt(100))))
		r.raiseSV(hlcAt(105))
		for range 3 {
			r.wait(purgeInterval)
		}
		if _, kept := r.records[key]; !kept {
			return "the tombstone was dropped early"
		}
		r.raiseSV(hlcAt(110))
		for range 3 {
			r.wait(purgeInterval)
		}
		if _, kept := r.records[key]; kept {
			return "the tombstone was not dropped"
		}
		return ""
	}, keepTenMs)
}

func TestDeleteLeavesATombstoneThatOlderPutsLoseTo(t *testing.T) {
	ruleHolds(t, causal.DeleteRemoves, func(r *rig) string {
		key := r.key(self, 0)
		r.put(key, tombstoneOf(version(20)))
		r.put(key, record(causal.Version{HLC: 10, Origin: 2}))
		if rec, found := r.records[key]; found && !rec.Value.Tombstone {
			return "an older put has undone the deletion"
		}
		return ""
	})
}

func TestHorizonIsDurableBeforeATombstoneIsDropped(t *testing.T) {
	r := newRig(t, keepTenMs)
	key := r.key(self, 0)
	r.put(key, tombstoneOf(version(hlcAt(100))))
	r.raiseSV(hlcAt(150))
	isHorizon := func(op StorageOp) bool { return op.Kind == StorageHorizon }
	r.fail = isHorizon
	for range 3 {
		r.wait(purgeInterval)
	}
	if _, kept := r.records[key]; !kept || r.m.tombstones.horizon != 0 {
		t.Fatal("the tombstone was dropped although the horizon could not be stored")
	}
	r.fail = nil
	r.hold = isHorizon
	for range 3 {
		r.wait(purgeInterval)
	}
	if _, kept := r.records[key]; !kept || len(r.held) != 1 {
		t.Fatalf("%d requests to store the horizon; the tombstone is there: %v", len(r.held), kept)
	}
	r.proceed()
	r.wait(purgeInterval)
	if _, kept := r.records[key]; kept || r.horizon != hlcAt(140) {
		t.Errorf("the horizon is %d; the tombstone is there: %v", r.horizon, kept)
	}
}

func TestPutAtOrBelowTheHorizonIsAcknowledgedAndNotWritten(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Horizon = 100 })
	key := r.key(self, 0)
	r.put(key, record(version(100)))
	if _, found := r.records[key]; found || len(r.acked(coordinator)) != 1 {
		t.Error("a put that was deleted and forgotten was written again, or was not acknowledged")
	}
	r.put(key, record(version(101)))
	if _, found := r.records[key]; !found {
		t.Error("a put above the horizon was not written")
	}
}

func TestTombstoneThatWasOverwrittenIsNotDropped(t *testing.T) {
	r := newRig(t, keepTenMs)
	key := r.key(self, 0)
	r.put(key, tombstoneOf(version(hlcAt(100))))
	r.put(key, record(version(hlcAt(101))))
	r.raiseSV(hlcAt(150))
	for range 3 {
		r.wait(purgeInterval)
	}
	if got := r.records[key].Version; got != version(hlcAt(101)) {
		t.Errorf("storage holds %v", got)
	}
}

func TestTombstonesFromBeforeAStartAreDroppedIfTheSlotIsOwned(t *testing.T) {
	r := newRig(t, keepTenMs)
	own, other := r.key(self, 0), r.key(peer, 0)
	for _, key := range []string{own, other} {
		r.records[key] = tombstoneOf(version(hlcAt(100)))
		r.m.NoteTombstone(key, r.records[key])
	}
	r.raiseSV(hlcAt(150))
	for range 3 {
		r.wait(purgeInterval)
	}
	if _, kept := r.records[own]; kept {
		t.Error("the tombstone of an owned slot is still there")
	}
	if _, kept := r.records[other]; !kept {
		t.Error("the tombstone of another shard's slot was dropped")
	}
}

func TestDropOfATombstoneThatFailsIsRepeated(t *testing.T) {
	r := newRig(t, keepTenMs)
	key := r.key(self, 0)
	r.put(key, tombstoneOf(version(hlcAt(100))))
	r.raiseSV(hlcAt(150))
	r.fail = func(op StorageOp) bool { return op.Kind == StorageDelete }
	for range 3 {
		r.wait(purgeInterval)
	}
	r.fail = nil
	for range 2 {
		r.wait(purgeInterval)
	}
	if _, kept := r.records[key]; kept {
		t.Error("the tombstone is still there")
	}
}

func TestReadBelowADroppedTombstoneFindsNothingOlder(t *testing.T) {
	r := newRig(t, keepTenMs)
	key := r.key(self, 0)
	r.put(key, record(version(hlcAt(50))))
	r.put(key, tombstoneOf(version(hlcAt(100))))
	r.raiseSV(hlcAt(110))
	for range 3 {
		r.wait(purgeInterval)
	}
	if got := r.mustGet(causal.Get{Key: key, Cut: hlcAt(60)}); string(got.Record.Value.Data) != "" {
		t.Errorf("got %+v", got)
	}
}

// The horizon is durable up to the first tombstone only.
func TestATombstoneAboveTheDurableHorizonStays(t *testing.T) {
	r := newRig(t, keepTenMs)
	first, second := r.key(self, 0), r.key(self, 1)
	r.put(first, tombstoneOf(version(hlcAt(100))))
	r.put(second, tombstoneOf(version(hlcAt(150))))
	r.raiseSV(hlcAt(120))
	r.fail = func(op StorageOp) bool { return op.Kind == StorageHorizon && op.Horizon >= hlcAt(150) }
	r.wait(purgeInterval) // the horizon is stored, and nothing is dropped yet
	r.raiseSV(hlcAt(200))
	for range 3 {
		r.wait(purgeInterval)
	}
	if _, kept := r.records[second]; !kept || r.horizon >= hlcAt(150) {
		t.Errorf("the tombstone is there: %v; the horizon is %v", kept, r.horizon)
	}
	if _, kept := r.records[first]; kept {
		t.Error("the first tombstone is still there")
	}
}
