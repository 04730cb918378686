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
				c.Broken = causal.MutationsOf(causal.SalvageStored)
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
		if _, stored := r.records["k"]; stored || len(refused) != 1 || refused[0].PutAck().GivenUpBelow != 5 ||
			len(refused[0].PutAck().Versions) != 0 {
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
		if got := r.salvage(causal.Salvage{ID: 2, Generation: generation}); len(got) != 1 || !got[0].Refused ||
			got[0].Generation != 5 {
			t.Errorf("generation %d: %+v", generation, got)
		}
	}
}

func TestAPageThatCannotBeReadIsReportedAsFailed(t *testing.T) {
	r := newRig(t)
	r.put(r.key(self, 1), record(version(10)))
	r.salvage(causal.Salvage{ID: 1, Generation: 5})
	r.fail = func(op StorageOp) bool { return op.Kind == StorageRead }
	if got := r.salvage(causal.Salvage{ID: 1, Generation: 5, After: inStorage}); len(got) != 1 ||
		!got[0].Failed {
		t.Errorf("answered %+v", got)
	}
	r.fail = nil
	if got := r.salvage(causal.Salvage{ID: 1, Generation: 5, After: inStorage}); len(got) != 1 ||
		got[0].Failed || len(got[0].Records) != 1 {
		t.Errorf("answered %+v", got)
	}
}

func TestAPartOfASalvagedPageFitsAMessageWhateverItsValuesAre(t *testing.T) {
	r := newRig(t)
	missing := after(causal.Version{HLC: 1, Origin: 17}, r.key(peer, 1)) // so they stay pending
	sizes := []int{pagePartBytes - 100, 20<<20 - 400, causal.MaxValueBytes, 10, 10}
	for i, size := range sizes {
		r.put(r.key(self, i), causal.Record{Version: version(causal.HLC(10 + i)),
			Value: causal.Value{Data: make([]byte, size)}}, missing)
	}
	r.salvage(causal.Salvage{ID: 1, Generation: 5})
	records := 0
	parts := r.salvage(causal.Salvage{ID: 1, Generation: 5})
	for _, p := range parts {
		records += len(p.Records)
		m := p.Message(self, coordinator)
		if !m.FitsMessage() || len(p.Records) > 1 && m.PayloadBytes() > pagePartBytes {
			t.Errorf("a part of %d records takes %d bytes", len(p.Records), m.MaxEncodedSize())
		}
	}
	if records != len(sizes) || len(parts) != 4 {
		t.Errorf("%d records in %d parts", records, len(parts))
	}
}

// A page larger than the queue of a link would never get through.
func TestAPageOfStoredValuesIsBounded(t *testing.T) {
	r := newRig(t, func(c *Config) { c.SalvageBytes = 1000 })
	const n = 12
	for i := range n {
		r.put(r.key(self, i), causal.Record{Version: version(causal.HLC(10 + i)),
			Value: causal.Value{Data: make([]byte, 50+i%2*600)}})
	}
	r.salvage(causal.Salvage{ID: 1, Generation: 5})
	found, pages := map[causal.HLC]bool{}, 0
	for after := ""; ; pages++ {
		got := r.salvage(causal.Salvage{ID: 1, Generation: 5, After: after})
		if pages%3 == 1 { // the answer is lost
			got = r.salvage(causal.Salvage{ID: 1, Generation: 5, After: after})
		}
		bytes := 0
		for _, s := range got {
			if s.Failed || s.Edition == 0 || s.Edition != got[0].Edition {
				t.Fatalf("after %q: %+v", after, s)
			}
			for _, m := range s.Records {
				found[m.Record.Version.HLC] = true
				bytes += len(m.Record.Value.Data)
			}
		}
		if after != "" && bytes > 1000 {
			t.Errorf("a page of %d bytes", bytes)
		}
		if after = got[0].Next; after == "" {
			break
		}
	}
	if len(found) != n || pages < 4 {
		t.Errorf("%d records in %d pages", len(found), pages)
	}
	if got := r.salvage(causal.Salvage{ID: 1, Generation: 5, After: "r99"}); len(got) != 1 || !got[0].Failed {
		t.Errorf("a page that is not known any more: %+v", got)
	}
}

// Nobody can have begun a log in the future, so a fence there would refuse the puts of a log that is healthy for good.
func TestAGenerationThatNoClockHasReachedGivesNoLogUp(t *testing.T) {
	const absurd = 1 << 62
	r := newRig(t)
	if got := r.salvage(causal.Salvage{ID: 1, Generation: absurd}); len(got) != 0 || r.fences[1] != 0 ||
		r.m.Stats().ClockRefused != 1 {
		t.Errorf("answered %+v, fences %v", got, r.fences)
	}
	r.fences = causal.Fences{1: absurd} // of an earlier version, which took it
	r.restart()
	r.wait(time.Minute)
	r.put("k", record(version(10)))
	r.wait(time.Minute)
	if _, stored := r.records["k"]; !stored || len(r.received(causal.KindPutAck, coordinator)) == 0 {
		t.Error("a put of a healthy log is refused because of a fence in storage")
	}
	soon := uint64(r.now.WallMs)
	if r.salvage(causal.Salvage{ID: 1, Generation: soon}); r.fences[1] != soon {
		t.Errorf("fences %v after a log was given up in earnest", r.fences)
	}
	r.put("l", record(version(11)))
	if refused := r.received(causal.KindPutAck, coordinator); len(refused) != 1 ||
		refused[0].PutAck().GivenUpBelow != soon {
		t.Errorf("a put of the log that was given up is answered %v", refused)
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
