package middleman

import (
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/causalstore/causalstore/topology"
)

// The table must never forget a pair that was added and not taken: that would leave an old value in a cache.
func TestCachedAtHoldsExactlyWhatWasAddedAndNotTaken(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dcs := rapid.SampledFrom([]int{1, 8, 9, 16, 33, 64}).Draw(t, "dcs")
		table, model := newCachedAt(dcs, 1<<20), map[uint64]map[topology.DC]bool{}
		for range rapid.IntRange(1, 2000).Draw(t, "steps") {
			h := rapid.Uint64Range(0, 300).Draw(t, "hash") * 0x123456789abcdef
			what := rapid.IntRange(0, 20).Draw(t, "what")
			if what == 0 {
				gone := table.fullest()
				most := holders(model)
				if len(most) > 0 && most[gone] < slices.Max(slices.Collect(maps.Values(most))) {
					t.Fatalf("data center %d is taken for the fullest of %v", gone, most)
				}
				table.forget(gone)
				for h, dcs := range model {
					if delete(dcs, gone); len(dcs) == 0 {
						delete(model, h)
					}
				}
			}
			if table.live != len(model) {
				t.Fatalf("%d hashes are in use, want %d", table.live, len(model))
			}
			if what > 6 {
				dc := topology.DC(rapid.IntRange(0, dcs-1).Draw(t, "dc"))
				table.add(h, dc)
				if model[storedHash(h)] == nil {
					model[storedHash(h)] = map[topology.DC]bool{}
				}
				model[storedHash(h)][dc] = true
				continue
			}
			got := map[topology.DC]bool{}
			table.take(h, func(dc topology.DC) { got[dc] = true })
			want := model[storedHash(h)]
			if len(got) != len(want) {
				t.Fatalf("hash %x: took %v, want %v", h, got, want)
			}
			for dc := range want {
				if !got[dc] {
					t.Fatalf("hash %x: took %v, want %v", h, got, want)
				}
			}
			delete(model, storedHash(h))
		}
	})
}

// holders returns how many hashes each data center has.
func holders(model map[uint64]map[topology.DC]bool) map[topology.DC]int {
	n := map[topology.DC]int{}
	for _, dcs := range model {
		for dc := range dcs {
			n[dc]++
		}
	}
	return n
}

func TestCachedAtTakesAtMostSixteenBytesPerObjectWithEightDCs(t *testing.T) {
	table := newCachedAt(8, 1<<20)
	worst := 0.0
	for i := uint64(1); i <= 1_000_000; i++ {
		table.add(i*0x9e3779b97f4a7c15, topology.DC(i%8))
		if i > 10_000 {
			worst = max(worst, float64(table.bytes())/float64(i))
		}
	}
	if worst > 16.1 {
		t.Errorf("%.2f bytes per object at the worst, want at most 16", worst)
	}
}
