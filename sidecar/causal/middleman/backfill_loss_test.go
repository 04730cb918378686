package middleman

import (
	"testing"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// newPartlyLostRig returns a rig as newLostRig does, of a storage that lacks x and y only.
func newPartlyLostRig(t *testing.T, change func(*Config)) *rig {
	t.Helper()
	topo := newLostRig(t).topo
	r := newRig(t, func(c *Config) {
		*c = DefaultConfig(topo, self)
		c.Incarnation, c.Lease, c.DataLost = 9, lease, true
		c.Missing = causal.KeyRanges{causal.OneKey("x"), causal.OneKey("y")}
		change(c)
	})
	r.topo = topo
	r.records["own"] = record(version(2))
	r.wait(time.Second)
	r.answerHellos(bothCoordinators)
	r.wait(100 * time.Millisecond)
	return r
}

// What it has it gives to other rings, and what it lacks it does not. It answers no client.
func TestAStorageThatLacksSomeKeysGivesTheOthersToOtherRings(t *testing.T) {
	r := newPartlyLostRig(t, func(*Config) {})
	for _, c := range []struct {
		from topology.Node
		key  string
		want causal.ErrCode
	}{{donorNode, "own", causal.OK}, {donorNode, "x", causal.ErrDataLost}, {sidecar, "own", causal.ErrDataLost}} {
		r.step(causal.Get{ID: 1, Key: c.key}.Message(c.from, self))
		if got := r.received(causal.KindGetReply, c.from); len(got) != 1 || got[0].GetReply().Err != c.want {
			t.Errorf("%s for %s: %v", c.key, c.from, got)
		}
	}
	for _, c := range []struct {
		from   topology.Node
		wanted causal.KeyRanges
		want   causal.ErrCode
	}{
		{donorNode, causal.KeyRanges{causal.OneKey("own")}, causal.OK},
		{donorNode, causal.KeyRanges{causal.OneKey("own"), causal.OneKey("x")}, causal.ErrDataLost},
		{donorNode, nil, causal.ErrDataLost}, // an earlier version wants all keys
		{sidecar, causal.KeyRanges{causal.OneKey("own")}, causal.ErrDataLost},
	} {
		r.received(causal.KindScan, donorNode)
		r.step(causal.Scan{ID: 1, Limit: 10, Map: r.topo.Map(0), Wanted: c.wanted}.Message(c.from, self))
		got := r.received(causal.KindScanReply, c.from)
		if len(got) != 1 || got[0].ScanReply().Err != c.want ||
			(c.want == causal.OK) != (len(got[0].ScanReply().Lacks) == 0) {
			t.Errorf("a scan of %s for %q: %v", c.from, c.wanted, got)
		}
	}
}

func TestOnlyTheKeysThatAreLostAreLookedUp(t *testing.T) {
	r := newPartlyLostRig(t, func(*Config) {})
	r.donate(map[string]causal.Record{"x": record(version(3)), "own": record(version(8)), "other": record(version(4))},
		1)
	if p, _ := r.m.Backfill(); p.Stage != "catching up" || p.Keys != 1 {
		t.Errorf("%+v", p)
	}
	if r.records["x"].Version.HLC != 3 || r.records["own"].Version.HLC != 2 || len(r.records) != 2 {
		t.Errorf("it has %v", r.records)
	}
}

// What no other ring has is given up only if a person has accepted that, and no more than that.
func TestWhatNobodyHasIsGivenUpIfAPersonHasAcceptedThat(t *testing.T) {
	for _, accepted := range []bool{false, true} {
		r := newPartlyLostRig(t, func(c *Config) { c.AcceptLoss = accepted })
		lacks, wanted := causal.KeyRanges{causal.OneKey("x")}, causal.KeyRanges(nil)
		for range 200 {
			r.wait(100 * time.Millisecond)
			for _, m := range r.received(causal.KindScan, donorNode) {
				reply := causal.ScanReply{ID: m.Scan().ID, Map: r.topo.Map(1), Horizon: 1, TellsHorizon: true,
					Keys: []string{"y"}}
				if wanted = m.Scan().Wanted; len(wanted.Overlap(lacks)) > 0 {
					reply = causal.ScanReply{ID: m.Scan().ID, Map: r.topo.Map(1), Err: causal.ErrDataLost, Lacks: lacks}
				}
				r.step(reply.Message(donorNode, self))
			}
			for _, m := range r.received(causal.KindGet, donorNode) {
				r.step(causal.GetReply{ID: m.Get().ID, Ring: 1, Key: m.Get().Key,
					Record: record(version(5))}.Message(donorNode, self))
			}
		}
		p, _ := r.m.Backfill()
		_, found := r.records["y"]
		if accepted != (p.Stage == "catching up") || found != accepted || p.NobodyHas == accepted {
			t.Errorf("accepted %v: %+v, it has %v, and wants %q", accepted, p, r.records, wanted)
		}
	}
}

// A ring that does not answer counts as one that has nothing after a minute, if a person has accepted that.
func TestARingThatDoesNotAnswerIsGivenUpAfterAMinute(t *testing.T) {
	r := newPartlyLostRig(t, func(c *Config) { c.AcceptLoss = true })
	for range 50 {
		r.wait(time.Second)
	}
	if p, _ := r.m.Backfill(); p.Stage != BackfillCopies {
		t.Errorf("after 50 s: %+v", p)
	}
	for range 30 {
		r.wait(time.Second)
	}
	if p, _ := r.m.Backfill(); p.Stage != "catching up" {
		t.Errorf("after 80 s: %+v", p)
	}
}
