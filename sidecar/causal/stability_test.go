package causal

import (
	"testing"

	"github.com/causalstore/causalstore/topology"
)

func TestACutWithoutTheLastDataCenterCoversWhatIsComplete(t *testing.T) {
	dcs := []topology.DataCenter{{Name: "a"}, {Name: "b"}, {Name: "c"}}
	for i := range dcs {
		dcs[i].Coordinators, dcs[i].Shards = 1, 1
	}
	rtt := [][]float64{{0, 1, 1}, {1, 0, 1}, {1, 1, 0}}
	topo, err := topology.New(1, dcs, []topology.Ring{{Name: "r", DCs: []topology.DC{0, 1, 2}}}, rtt)
	if err != nil {
		t.Fatal(err)
	}
	s := NewStability(topo)
	s.Merge([]VectorEntry{{Origin: 1, Last: 16, SV: 30}, {Origin: 17, Last: 32, SV: 25}, {Origin: 33, Last: 48, SV: 20},
		{Origin: 18, SV: 40}}, NoLimit)
	s.Merge([]VectorEntry{{Origin: 34, SV: 50}}, NoLimit)
	c := s.CutWithout(1)
	if c != (Cut{At: 25, Complete: 20, LeftOut: 1 << 2}) {
		t.Errorf("the cut is %+v", c)
	}
	for _, tt := range []struct {
		v    Version
		want bool
	}{
		{Version{HLC: 20, Origin: 33}, true}, {Version{HLC: 21, Origin: 33}, false},
		{Version{HLC: 21, Origin: 48}, false},
		{Version{HLC: 25, Origin: 32}, true}, {Version{HLC: 25, Origin: 1}, true}, {Version{HLC: 26, Origin: 1}, false},
		{Version{HLC: 20}, true}, {Version{HLC: 21}, false}, // a missing key, with a tombstone horizon
	} {
		if got := c.Covers(tt.v); got != tt.want {
			t.Errorf("it covers %s: %v", tt.v, got)
		}
	}
	if c := s.CutWithout(0); c != (Cut{At: 20, Complete: 20}) {
		t.Errorf("the complete cut is %+v", c)
	}
	if c := s.CutWithout(2); c != (Cut{At: 30, Complete: 20, LeftOut: 1<<1 | 1<<2}) {
		t.Errorf("the cut without two is %+v", c)
	}
	if c := s.CutWithout(3); c.At != 30 {
		t.Errorf("the cut without all is %+v", c)
	}
}

func TestWithOneDataCenterNoneIsLeftOut(t *testing.T) {
	topo, err := topology.New(1, []topology.DataCenter{{Name: "a", Coordinators: 1, Shards: 1}},
		[]topology.Ring{{Name: "r", DCs: []topology.DC{0}}}, [][]float64{{0}})
	if err != nil {
		t.Fatal(err)
	}
	s := NewStability(topo)
	s.Merge([]VectorEntry{{Origin: 1, Last: 16, SV: 30}}, NoLimit)
	if c := s.CutWithout(1); c.At != 30 || c.Complete != 30 {
		t.Errorf("the cut is %+v", c)
	}
}

func TestAReadAtALateCutIsUnderstoodByWhoKnowsNone(t *testing.T) {
	m := Get{Snapshot: true, Cut: 10, At: 30, Seen: 20}.Message(topology.Node{}, topology.Node{})
	if m.fields.HLC != 30 || m.fields.Cut != 10 {
		t.Errorf("it reads up to %d, and takes what is up to %d for complete", m.fields.HLC, m.fields.Cut)
	}
}
