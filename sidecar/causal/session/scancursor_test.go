package session

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// PROTOCOL HOM-9: the home has keys that no ring has yet, and rings have those that are complete.
func TestAScanAtLevelLocalAsksTheHomeFirst(t *testing.T) {
	showsFault(t, causal.ScanWithoutHome, func(r *rig) string {
		r.readAtHome("x", causal.HomeReply{Record: record(homeVersion(1500))})
		var named []string
		for res, pages := (Result{}), 0; !res.Scan.Done; pages++ {
			id := r.start(Op{Kind: OpScan, Scan: res.Scan, Limit: 2})
			request := r.request(causal.KindScan)
			switch s := request.Scan(); {
			case request.To.Part != topology.Coordinator:
				r.replyScan(request, causal.ScanReply{Keys: []string{"old"}})
			case request.To.Index != 0: // the other home
				r.replyScan(request, causal.ScanReply{})
			case s.Seen != at(1500) || s.Limit != 2:
				t.Fatalf("the home is asked %+v", s)
			case s.After == "":
				r.replyScan(request, causal.ScanReply{Keys: []string{"x", "y"}, Next: "here", Place: 7})
			case s.After == "here" && s.Place == 0:
				r.replyScan(request, causal.ScanReply{Keys: []string{"z"}})
			}
			res = r.mustResult(id)
			named = append(named, res.Keys...)
		}
		if !slices.Equal(named, []string{"x", "y", "z", "old"}) {
			return fmt.Sprint(named)
		}
		return ""
	}, localReads)
}

func TestAScanWaitsForAHomeThatDoesNotServe(t *testing.T) {
	r := newRig(t, localReads)
	id := r.start(Op{Kind: OpScan})
	r.replyScan(r.request(causal.KindScan), causal.ScanReply{Err: causal.ErrUnavailable})
	r.mustBeUnfinished(id)
	r.tick(homeBusy)
	lost := r.request(causal.KindScan)
	r.tick(homeRetry)
	again := r.request(causal.KindScan)
	r.replyScan(lost, causal.ScanReply{Keys: []string{"late"}}) // dropped
	r.replyScan(again, causal.ScanReply{Keys: []string{"x"}})
	if res := r.mustResult(id); !slices.Equal(res.Keys, []string{"x"}) || res.Scan.Done {
		t.Errorf("got %+v", res)
	}
}

// A cursor says what a position says, at any sidecar, and no other than that of the same slot map understands it.
func TestACursorIsUnderstoodAtEverySidecar(t *testing.T) {
	topo, err := topology.New(1, []topology.DataCenter{{Name: "a", Coordinators: 1, Shards: 3},
		{Name: "b", Coordinators: 1, Shards: 2}},
		[]topology.Ring{{Name: "one", DCs: []topology.DC{0}}, {Name: "two", DCs: []topology.DC{1}}},
		[][]float64{{0, 10}, {10, 0}})
	if err != nil {
		t.Fatal(err)
	}
	resized, err := topology.New(1, []topology.DataCenter{{Name: "a", Coordinators: 1, Shards: 3},
		{Name: "b", Coordinators: 1, Shards: 3}},
		[]topology.Ring{{Name: "one", DCs: []topology.DC{0}}, {Name: "two", DCs: []topology.DC{1}}},
		[][]float64{{0, 10}, {10, 0}})
	if err != nil {
		t.Fatal(err)
	}
	s := newRig(t, func(c *Config) { c.Topology = topo }).s
	other := newRig(t, func(c *Config) { c.Topology = resized }).s
	for _, p := range []ScanPosition{
		{Home: 0, Place: 12}, {Home: 1}, {Ring: 0, Map: topo.Map(0), Shard: 2}, {Ring: 1, Map: topo.Map(1), Shard: 1},
		{Ring: 1, Map: topo.Map(1), Shard: 1, Place: 1<<causal.ScanPlaceBits - 1},
	} {
		told := p
		if p.Place != 0 {
			told.After = "somewhere"
		}
		cursor, ok := told.Cursor()
		if !ok || cursor == 0 || cursor >= 1<<53 {
			t.Errorf("%+v: cursor %d, %t", told, cursor, ok)
		}
		if got, ok := s.positionOf(cursor); !ok || !reflect.DeepEqual(got, p) {
			t.Errorf("%+v became %+v, %t", p, got, ok)
		}
		if got, ok := other.positionOf(cursor); ok && got.Map != 0 && got.Place == 0 && topo.Map(p.Ring) != got.Map {
			t.Errorf("with other shards it is %+v", got)
		}
	}
	for _, cursor := range []uint64{1, 1 << 51, 1 << 53, 1<<52 | 60<<45, 1<<52 | 2000<<33} {
		if p, ok := s.positionOf(cursor); ok {
			t.Errorf("cursor %d is taken for %+v", cursor, p)
		}
	}
	if _, ok := (ScanPosition{Map: 5, After: "told by a shard of an earlier version"}).Cursor(); ok {
		t.Error("a place without a number has a cursor")
	}
}

func TestAScanContinuesByCursorAtThePlaceThatTheShardKnows(t *testing.T) {
	r := newRig(t)
	id := r.start(Op{Kind: OpScan})
	r.replyScan(r.request(causal.KindScan), causal.ScanReply{Keys: []string{"a"}, Next: "here", Place: 9})
	cursor, _ := r.mustResult(id).Scan.Cursor()
	r.write("own", "v", ownVersion(10))
	id = r.start(Op{Kind: OpScan, Cursor: cursor})
	request := r.request(causal.KindScan)
	if s := request.Scan(); s.Place != 9 || s.After != "" || request.To != r.shard(near) {
		t.Fatalf("%s is asked %+v", request.To, s)
	}
	r.replyScan(request, causal.ScanReply{Keys: []string{"b"}})
	if res := r.mustResult(id); !res.Scan.Done || !slices.Equal(res.Keys, []string{"b"}) {
		t.Errorf("got %+v", res)
	}
	id = r.start(Op{Kind: OpScan, Cursor: cursor ^ 1<<30}) // another slot map
	if res := r.mustResult(id); res.Err != causal.ErrNotFound {
		t.Errorf("got %+v", res)
	}
}
