package cost

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

func near(t interface {
	Helper()
	Errorf(string, ...any)
}, what string, got, want, within float64) {
	t.Helper()
	if !(math.Abs(got-want) <= within) {
		t.Errorf("%s is %.6g, want %.6g", what, got, want)
	}
}

func TestOperationsCountPutsPerCopyAndMissesByTheirCost(t *testing.T) {
	c := Capex{DataCenters: 8, Rings: 3, MissRatio: 0.1, MissOperations: 2}
	rings, full := c.Operations(0.2)
	near(t, "rings", rings, 0.2*3+0.8*(0.9*1+0.1*3), 1e-12) // a miss is looked up, answered by storage, and filled in
	near(t, "full replication", full, 0.2*8+0.8, 1e-12)
}

func TestCacheStorageScalesWithOperationsAndTheRestWithCopies(t *testing.T) {
	c := Capex{DataCenters: 8, Rings: 2, MissRatio: 0.1, MissOperations: 2, CacheShare: 0.25}
	near(t, "storage", c.Storage(0.5), 0.75*2/8+0.25*c.Compute(0.5), 1e-12)
	c.CacheShare = 0
	near(t, "storage without caches", c.Storage(0.5), 0.25, 1e-12)
}

func TestAlphaForIsTheInverseOfSaving(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dcs := rapid.IntRange(2, 20).Draw(t, "data centers")
		c := Capex{DataCenters: dcs, Rings: rapid.IntRange(1, dcs-1).Draw(t, "rings"),
			MissRatio: rapid.Float64Range(0.01, 1).Draw(t,
				"misses"), MissOperations: 2, CacheShare: 0.25}
		w, alpha := rapid.Float64Range(0, 0.5).Draw(t, "puts"), rapid.Float64Range(0, 1).Draw(t, "alpha")
		near(t, "alpha", c.AlphaFor(w, c.Saving(w, alpha)), alpha, 1e-6)
	})
}

func TestRingPerDataCenterSavesNothing(t *testing.T) {
	s := parse(t, `{dataCenters: [{name: a}, {name: b}, {name: c}]}`)
	near(t, "CAPEX saved", s.Capex(3).Saving(0.3, 0.5), 0, 1e-12)
	full := s.Full(0.3)
	near(t, "OPEX saved", s.Rings(s.FullReplication(), 0.3).SavedBytes(full), 0, 1e-12)
	near(t, "bytes of gets", full.GetBytes, 0, 1e-12)
}
