package middleman

import (
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/value"
)

// changed returns what a put brings of a hash as a client has read it: with set, a field more; else without the fields.
func changed(seen causal.Record, v causal.Version, set string, removed ...string) causal.Record {
	c := value.ChangeOf(seen)
	if set != "" {
		c.Add(value.Hash, set, "1")
	}
	for _, field := range removed {
		c.Remove(field)
	}
	return causal.Record{Version: v, Value: c.Value()}
}

func newCollectingRig(t *testing.T, broken ...causal.Mutation) *rig {
	return newRig(t, keepTenMs, func(c *Config) {
		c.Types, c.Broken = value.Shipped(), causal.MutationsOf(broken...)
	})
}

func (r *rig) waitForPurges() {
	for range 3 {
		r.wait(purgeInterval)
	}
}

// PROTOCOL VAL-15.
func TestWhatWasRemovedFromAValueLeavesStorageBelowTheHorizon(t *testing.T) {
	r := newCollectingRig(t)
	types, key := r.config.Types, r.key(self, 0)
	r.put(key, changed(causal.Record{}, version(hlcAt(100)), "a"))
	r.put(key, changed(r.records[key], version(hlcAt(101)), "b"))
	r.put(key, changed(r.records[key], version(hlcAt(102)), "", "a"))
	r.raiseSV(hlcAt(111))
	r.waitForPurges()
	if rec := r.records[key]; !types.HasDead(&rec) {
		t.Fatal("it was collected above the horizon")
	}
	r.raiseSV(hlcAt(150))
	r.waitForPurges()
	rec := r.records[key]
	if hash := value.CollectionOf(rec.Value); types.HasDead(&rec) || hash.Len() != 1 || rec.Version != version(hlcAt(102)) {
		t.Fatalf("storage has %+v", rec)
	}
	r.put(key, changed(causal.Record{}, causal.Version{HLC: hlcAt(99), Origin: 2}, "a"))
	if hash := value.CollectionOf(r.records[key].Value); hash.Len() != 1 {
		t.Error("an older write has undone the removal")
	}
	r.put(key, changed(r.records[key], version(hlcAt(151)), "", "b"))
	r.raiseSV(hlcAt(200))
	r.waitForPurges()
	if rec, found := r.records[key]; found {
		t.Errorf("of a hash without fields storage has %+v", rec)
	}
}

func TestWhatIsToBeCollectedIsNotedOnceAndAgainIfItFails(t *testing.T) {
	r := newCollectingRig(t)
	types, key := r.config.Types, r.key(self, 0)
	r.put(key, changed(causal.Record{}, version(hlcAt(100)), "a"))
	for hlc := int64(101); hlc < 106; hlc++ {
		r.put(key, changed(r.records[key], version(hlcAt(hlc)), "b", "a"))
	}
	if n := len(r.m.tombstones.stored); n != 1 {
		t.Errorf("it is noted %d times", n)
	}
	r.restart()
	r.m.NoteTombstone(key, r.records[key])
	r.raiseSV(hlcAt(150))
	r.fail = func(op StorageOp) bool { return op.Kind == StorageWrite }
	r.waitForPurges()
	if rec := r.records[key]; !types.HasDead(&rec) {
		t.Fatal("a write that has failed was done")
	}
	r.fail = nil
	r.waitForPurges()
	if rec := r.records[key]; types.HasDead(&rec) {
		t.Error("it is not repeated")
	}
}

func TestWritesThatComeLateAreLostIfAValueIsCollectedEarly(t *testing.T) {
	for _, broken := range []bool{false, true} {
		var mutations []causal.Mutation
		if broken {
			mutations = append(mutations, causal.CollectedEarly)
		}
		r := newCollectingRig(t, mutations...)
		key := r.key(self, 0)
		r.put(key, changed(causal.Record{}, version(hlcAt(100)), "a"))
		r.put(key, changed(r.records[key], version(hlcAt(101)), "b", "a"))
		r.raiseSV(hlcAt(130)) // while a write at 140 is not there yet
		r.put(key, changed(r.records[key], version(hlcAt(141)), "b"))
		r.waitForPurges()
		r.put(key, changed(causal.Record{}, causal.Version{HLC: hlcAt(140), Origin: 2}, "c"))
		if hash := value.CollectionOf(r.records[key].Value); (hash.Len() == 2) == broken {
			t.Errorf("broken %v: it has %d fields", broken, hash.Len())
		}
	}
}
