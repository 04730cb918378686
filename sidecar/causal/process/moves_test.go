package process

import (
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/shard"
	"github.com/causalstore/causalstore/topology"
)

// A taker that starts with a lower horizon keeps no tombstone of what was deleted, and takes it in again.
func TestTheHorizonIsHandedOverWithTheRecords(t *testing.T) {
	topo := twoRings(t, 2, 1)
	before := topo.WithOldMaps(topology.RingsOf(0))
	r := newRig(t, topo, Marks{Starts: 3, Moves: 4, Horizon: 9, State: shard.MigrationState{Map: before.Map(0)}})
	r.start(causal.MutationsOf(causal.ServeUnheard)) // it waits for nobody
	r.settle()
	if r.marks.Moves != 5 {
		t.Errorf("the mover has the number %d, want one that none has had", r.marks.Moves)
	}
	taker := topology.Node{Part: topology.Middleman, Index: 1}
	for i := range 500 {
		key := "k" + string(rune('0'+i))
		if topo.Owner(0, topology.SlotOf(key)) == taker {
			r.records[key] = causal.Record{Version: causal.Version{HLC: 1, Origin: 1}}
			break
		}
	}
	r.p.Tick(r.now)
	r.settle()
	pull := causal.Pull{Map: topo.Map(0), OldMap: before.Map(0), TakerLife: 1, List: 1}.Message(taker, self)
	r.p.Step(r.now, &pull)
	r.settle()
	found := false
	for _, m := range r.p.Take(nil) {
		if m.Kind == causal.KindPulled {
			found = true
			if p := m.Pulled(); p.Horizon != 9 || p.GiverLife != 5 || len(p.Moved) != 1 {
				t.Errorf("life %d hands out %d records with the horizon %d, want life 5, one record, and 9",
					p.GiverLife,
					len(p.Moved), p.Horizon)
			}
		}
	}
	if !found {
		t.Error("nothing is handed out")
	}
}
