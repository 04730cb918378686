package middleman

import (
	"testing"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
)

func (r *rig) salvage(s causal.Salvage) []causal.Salvaged {
	r.step(s.Message(coordinator, self))
	var all []causal.Salvaged
	for _, m := range r.received(causal.KindSalvaged, coordinator) {
		all = append(all, m.Salvaged())
	}
	return all
}

func TestAShardHandsOutWhatItHoldsOfALostLog(t *testing.T) {
	for _, broken := range []bool{false, true} {
		r := newRig(t, func(c *Config) {
			if broken {
				c.Broken = causal.FaultsOf(causal.SalvageStored)
			}
		})
		r.put(r.key(self, 1), record(version(10)))
		r.put(r.key(self, 2), record(version(20)), after(causal.Version{HLC: 15, Origin: 17}, r.key(peer, 1)))
		r.put(r.key(self, 3), record(causal.Version{HLC: 12, Origin: 17}))
		if got := r.salvage(causal.Salvage{ID: 1, Generation: 5}); len(got) != 0 || r.fences[1] != 5 {
			t.Fatalf("before the fence is durable: %v, fences %v", got, r.fences)
		}
		found := map[causal.HLC]bool{}
		for after := ""; ; {
			got := r.salvage(causal.Salvage{ID: 1, Generation: 5, After: after})
			if len(got) != 1 || got[0].Parts != 1 || got[0].Failed || got[0].After != after {
				t.Fatalf("after %q: %+v", after, got)
			}
			for _, m := range got[0].Records {
				if m.Record.Version.Origin != 1 {
					t.Errorf("of another origin: %v", m)
				}
				found[m.Record.Version.HLC] = true
			}
			if after = got[0].Next; after == "" {
				break
			}
		}
		if !found[10] || found[20] == broken || len(found) > 2 {
			t.Errorf("with salvage-stored %v, found %v", broken, found)
		}
	}
}

func TestPutsOfALogThatWasGivenUpAreRefusedAlsoAfterARestart(t *testing.T) {
	r := newRig(t)
	r.salvage(causal.Salvage{ID: 1, Generation: 5})
	for range 2 {
		r.put("k", record(version(10)))
		refused := r.received(causal.KindPutAck, coordinator)
		if _, stored := r.records["k"]; stored || len(refused) != 1 || refused[0].PutAck().GivenUpBelow != 5 || len(refused[0].PutAck().Versions) != 0 {
			t.Fatalf("stored %v, answered %v", stored, refused)
		}
		r.restart()
	}
	r.put("k", record(version(11)), func(a *causal.PutAfter) { a.Generation = 5 })
	r.wait(time.Minute)
	if _, stored := r.records["k"]; !stored {
		t.Error("a put of the log that has begun is not taken")
	}
	// Somebody else has asked with this generation, as far as this start knows; and a smaller one is of the past.
	for _, generation := range []uint64{4, 5} {
		if got := r.salvage(causal.Salvage{ID: 2, Generation: generation}); len(got) != 1 || !got[0].Refused || got[0].Generation != 5 {
			t.Errorf("generation %d: %+v", generation, got)
		}
	}
}

func TestAPageThatCannotBeReadIsReportedAsFailed(t *testing.T) {
	r := newRig(t)
	r.put(r.key(self, 1), record(version(10)))
	r.salvage(causal.Salvage{ID: 1, Generation: 5})
	r.fail = func(op StorageOp) bool { return op.Kind == StorageRead }
	if got := r.salvage(causal.Salvage{ID: 1, Generation: 5, After: salvageInStorage}); len(got) != 1 || !got[0].Failed {
		t.Errorf("answered %+v", got)
	}
	r.fail = nil
	if got := r.salvage(causal.Salvage{ID: 1, Generation: 5, After: salvageInStorage}); len(got) != 1 || got[0].Failed || len(got[0].Records) != 1 {
		t.Errorf("answered %+v", got)
	}
}

// What is handed out before the fence holds is not all: a put of the lost log may arrive after a restart, and be
// acknowledged.
func TestNothingIsHandedOutWhileTheFenceCannotBeMadeDurable(t *testing.T) {
	r := newRig(t)
	r.put(r.key(self, 1), record(version(10)))
	r.fail = func(op StorageOp) bool { return op.Kind == StorageFence }
	for range 3 {
		if got := r.salvage(causal.Salvage{ID: 1, Generation: 5}); len(got) != 0 {
			t.Fatalf("handed out: %+v", got)
		}
		r.wait(time.Second)
	}
	r.fail = nil
	r.salvage(causal.Salvage{ID: 1, Generation: 5})
	if got := r.salvage(causal.Salvage{ID: 1, Generation: 5}); len(got) != 1 || got[0].Refused || r.fences[1] != 5 {
		t.Errorf("handed out %+v, fences %v", got, r.fences)
	}
}
