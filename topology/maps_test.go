package topology

import (
	"slices"
	"testing"
)

// parse returns the topology of two rings: a with the given shards and caches, b with two shards.
func parse(t *testing.T, a string) *Topology {
	t.Helper()
	topo, err := Parse([]byte(`{"dataCenters":[{"name":"a",` + a + `},{"name":"b","shards":2}],
		"rings":[{"name":"a","dataCenters":["a"]},{"name":"b","dataCenters":["b"]}]}`))
	if err != nil {
		t.Fatal(err)
	}
	return topo
}

func TestReshardingRingHasAnOldAndANewMap(t *testing.T) {
	two, three := parse(t, `"shards":2`), parse(t, `"shards":3`)
	during := parse(t, `"shards":3,"shardsBefore":2`)
	if got := during.Resharding(); got != RingsOf(0) {
		t.Fatalf("resharding rings: %b", got)
	}
	old := during.WithOldMaps(during.AllRings())
	for name, pair := range map[string][2]*Topology{"new": {during, three}, "old": {old, two},
		"new again": {old.WithOldMaps(0), three}} {
		got, want := pair[0], pair[1]
		if got.Map(0) != want.Map(0) || !slices.Equal(got.RingMiddlemen(0), want.RingMiddlemen(0)) {
			t.Errorf("%s map: %d with %v, want %d with %v", name, got.Map(0), got.RingMiddlemen(0), want.Map(0),
				want.RingMiddlemen(0))
		}
		for slot := range Slots {
			if o := got.Owner(0, Slot(slot)); o != want.Owner(0, Slot(slot)) {
				t.Fatalf("%s map: slot %d belongs to %v, want %v", name, slot, o, want.Owner(0, Slot(slot)))
			}
		}
		if got.Map(1) != two.Map(1) {
			t.Errorf("%s map: the other ring has map %d, want %d", name, got.Map(1), two.Map(1))
		}
	}
	if n := old.DCs[0].RunningMiddlemen(); n != 3 {
		t.Errorf("%d middlemen run during resharding, want 3", n)
	}
}

func TestMapDependsOnShardsAndCacheLayoutOnCaches(t *testing.T) {
	base, shards, caches := parse(t, `"shards":2`), parse(t, `"shards":3`), parse(t, `"shards":2,"caches":2`)
	if shards.Map(0) == base.Map(0) || caches.Map(0) != base.Map(0) {
		t.Errorf("map %d; with another shard %d, with another cache %d", base.Map(0), shards.Map(0), caches.Map(0))
	}
	if caches.CacheLayout() == base.CacheLayout() || shards.CacheLayout() != base.CacheLayout() {
		t.Errorf("cache layout %d; with another cache %d, with another shard %d", base.CacheLayout(),
			caches.CacheLayout(), shards.CacheLayout())
	}
}
