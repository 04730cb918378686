package topology

import (
	"strings"
	"testing"
)

func TestDefaultTopologyHasEightRegionsInThreeRings(t *testing.T) {
	topo := Default()
	if len(topo.DCs) != 8 || len(topo.Rings) != 3 {
		t.Fatalf("%d data centers in %d rings", len(topo.DCs), len(topo.Rings))
	}
	for i := range topo.DCs {
		for j := range topo.DCs {
			if i != j && (topo.RTT[i][j] < 20 || topo.RTT[i][j] != topo.RTT[j][i]) {
				t.Errorf("%s to %s: %g ms and back %g ms", topo.DCs[i].Name, topo.DCs[j].Name, topo.RTT[i][j],
					topo.RTT[j][i])
			}
		}
	}
}

func TestRingsAssignSlotsEvenly(t *testing.T) {
	topo := Default()
	for r := range topo.Rings {
		owned := map[Node]int{}
		for slot := range Slots {
			n := topo.Owner(RingID(r), Slot(slot))
			if topo.RingOf(n.DC) != RingID(r) || n.Part != Middleman {
				t.Fatalf("slot %d of ring %d belongs to %v", slot, r, n)
			}
			owned[n]++
		}
		for n, k := range owned {
			if fair := Slots / len(owned); k < fair*8/10 || k > fair*12/10 {
				t.Errorf("%v owns %d of %d slots; an even share is %d", n, k, Slots, fair)
			}
		}
	}
}

func TestAddingAShardMovesSlotsOnlyToIt(t *testing.T) {
	dcs := func(shards int) []DataCenter { return []DataCenter{{Name: "a", Coordinators: 1, Shards: shards}} }
	rings := []Ring{{Name: "r", DCs: []DC{0}}}
	two, err := New(1, dcs(2), rings, nil)
	if err != nil {
		t.Fatal(err)
	}
	three, err := New(2, dcs(3), rings, nil)
	if err != nil {
		t.Fatal(err)
	}
	for slot := range Slots {
		if before, after := two.Owner(0, Slot(slot)), three.Owner(0, Slot(slot)); before != after && after.Index != 2 {
			t.Fatalf("slot %d moved from shard %d to shard %d, not to the new one", slot, before.Index, after.Index)
		}
	}
}

func TestCoordinatorOfInvertsOriginOf(t *testing.T) {
	topo, err := New(1, []DataCenter{{Name: "a", Coordinators: 3, Shards: 1}, {Name: "b", Coordinators: 2, Shards: 1}},
		[]Ring{{Name: "r", DCs: []DC{0, 1}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for o := Origin(1); int(o) <= topo.Origins(); o++ {
		if back := topo.OriginOf(topo.CoordinatorOf(o)); back != o {
			t.Errorf("origin %d is coordinator %v, whose origin is %d", o, topo.CoordinatorOf(o), back)
		}
	}
	if want := 2 * MaxCoordinators; topo.Origins() != want {
		t.Errorf("%d origins, want %d", topo.Origins(), want)
	}
}

func TestScalingCoordinatorsChangesNoOrigin(t *testing.T) {
	b2 := Node{DC: 1, Part: Coordinator, Index: 2}
	var before Origin
	for i, n := range []int{1, 3, MaxCoordinators} {
		topo, err := New(1, []DataCenter{{Name: "a", Coordinators: n, Shards: 1},
			{Name: "b", Coordinators: n, Shards: 1}}, []Ring{{Name: "r", DCs: []DC{0, 1}}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if o := topo.OriginOf(b2); i > 0 && o != before {
			t.Errorf("with %d coordinators, the origin of %v is %d; before it was %d", n, b2, o, before)
		}
		before = topo.OriginOf(b2)
	}
}

func TestKeysWithTheSameTagShareASlot(t *testing.T) {
	if SlotOf("{user:1}:cart") != SlotOf("{user:1}:name") || SlotOf("{user:1}:cart") != SlotOf("user:1") {
		t.Error("the slot depends on more than the tag")
	}
	if SlotOf("{}a") == SlotOf("{}b") {
		t.Error("an empty tag determines the slot")
	}
}

func TestParseRefusesInvalidTopologies(t *testing.T) {
	for text, want := range map[string]string{
		`{"dataCenters":[{"name":"a"}],"rings":[]}`:                                                                                                                                         "between 1 and 64",
		`{"dataCenters":[{"name":"a"},{"name":"b"}],"rings":[{"name":"r","dataCenters":["a"]}]}`:                                                                                            `data center "b" is in no ring`,
		`{"dataCenters":[{"name":"a"}],"rings":[{"name":"r","dataCenters":["a"]},{"name":"q","dataCenters":["a"]}]}`:                                                                        "belongs to exactly one",
		`{"dataCenters":[{"name":"a"},{"name":"a"}],"rings":[{"name":"r","dataCenters":["a"]}]}`:                                                                                            "declared twice",
		`{"dataCenters":[{"name":"a","shards":0}],"rings":[{"name":"r","dataCenters":["a"]}]}`:                                                                                              "at least 1",
		`{"dataCenters":[{"name":"a"}],"rings":[{"name":"r","dataCenters":["c"]}]}`:                                                                                                         `"c", which dataCenters does not list`,
		`{"dataCenters":[{"name":"a"}],"rings":[{"name":"r","dataCenters":["a"]}],"roundTripMs":{"a":{"b":1}}}`:                                                                             "does not list both",
		`{"dataCenters":[{"name":"a"}],"rings":[{"name":"r","data-centers":["a"]}]}`:                                                                                                        "data-centers",
		`{"dataCenters":[{"name":"a"},{"name":"b"}],"rings":[{"name":"r","dataCenters":["a","b"]}],"roundTripMs":{"a":{"b":1},"b":{"a":2}}}`:                                                "twice",
		`{"dataCenters":[{"name":"a","exclusions":1},{"name":"b","exclusions":1,"keepsData":2}],"rings":[{"name":"r","dataCenters":["a"]},{"name":"q","dataCenters":["b"]}]}`:               "keepsData is 2 and exclusions is 1",
		`{"dataCenters":[{"name":"a","exclusions":1,"keepsData":1},{"name":"b","exclusions":1,"keepsData":1}],"rings":[{"name":"r","dataCenters":["a"]},{"name":"q","dataCenters":["b"]}]}`: `"a" and "b" of two rings`,
	} {
		if _, err := Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\n  got error %v, want one that contains %q", text, err, want)
		}
	}
}

func TestPlacesAreReadAndChecked(t *testing.T) {
	parse := func(site string) (*Topology, error) {
		return Parse([]byte("epoch: 1\ndataCenters: [{name: a" + site + "}]\nrings: [{name: r, dataCenters: [a]}]\n"))
	}
	if topo, err := parse(""); err != nil || topo.DCs[0].Place != nil {
		t.Errorf("without a place: %v", err)
	}
	if topo, err := parse(", latitude: -23.5, longitude: 0"); err != nil || topo.DCs[0].Place == nil ||
		*topo.DCs[0].Place != (Place{Latitude: -23.5}) {
		t.Errorf("with a place: %v", err)
	}
	for _, site := range []string{", latitude: 1", ", longitude: 1", ", latitude: 91, longitude: 0",
		", latitude: 0, longitude: -181"} {
		if _, err := parse(site); err == nil {
			t.Errorf("%q was accepted", site)
		}
	}
}
