package middleman

import (
	"fmt"
	"slices"
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// newParts returns what the machines of a middleman share, at a time.
func newParts(t *testing.T) (*shared, causal.Now) {
	t.Helper()
	cfg := DefaultConfig(testTopology(t), self)
	cfg.Incarnation = 1
	s := newShared(cfg)
	return &s, causal.Now{Mono: 1e12, WallMs: 1_000_000}
}

// asked returns the storage requests of the machines.
func (s *shared) asked() (kinds []StorageKind) {
	for _, op := range s.tasks.take(nil) {
		kinds = append(kinds, op.Kind)
	}
	return kinds
}

func TestAnOriginIsSilentUntilSomethingNewIsHeardOfIt(t *testing.T) {
	s, now := newParts(t)
	l := newSilence(s, now)
	if l.isSilent(now, 1) {
		t.Error("it is silent at the start")
	}
	now.Mono += int64(adoptableAfter)
	news := []causal.VectorEntry{{Origin: 1, Last: 2, SV: 5}}
	l.noteNews(now, news)
	if l.isSilent(now, 1) || l.isSilent(now, 2) || !l.isSilent(now, 3) {
		t.Error("an origin is silent of which there is news, or one is not of which there is none")
	}
	s.known.Merge(news, causal.NoLimit)
	now.Mono += int64(adoptableAfter)
	if l.noteNews(now, news); !l.isSilent(now, 1) {
		t.Error("what is known counts as news")
	}
}

func TestALogIsHandedOutOnlyBehindAFenceThatIsDurable(t *testing.T) {
	s, now := newParts(t)
	f, ws := fences{shared: s}, newWrites()
	r := newLogRecovery(s, &f, &ws, &tombstones{})
	v := causal.Version{HLC: 20, Origin: 1}
	ws.stage(ws.get(v), &put{key: "k", record: causal.Record{Version: v}})
	ask := causal.Salvage{ID: 3, Generation: 9}
	r.answer(now, coordinator, ask)
	r.answer(now, coordinator, ask)
	if got := s.asked(); !slices.Equal(got, []StorageKind{StorageFence}) || len(s.Take(nil)) != 0 {
		t.Fatalf("storage is asked for %v", got)
	}
	old := causal.PutAfter{Record: causal.Record{Version: v}, Generation: 8}
	other := causal.PutAfter{Record: record(causal.Version{HLC: 9, Origin: 2})}
	if !f.refuse(now, coordinator, &old) || f.refuse(now, coordinator1, &other) {
		t.Error("a put of a log that is given up is taken, or one of another origin is not")
	}
	s.Take(nil)
	r.claims[1].finishFence(false)
	r.answer(now, coordinator, ask)
	sent := s.Take(nil)
	if len(sent) != 1 || len(sent[0].Salvaged().Records) != 1 || sent[0].Salvaged().Next != inStorage {
		t.Fatalf("handed out %v", sent)
	}
	r.answer(now, coordinator, causal.Salvage{ID: 4, Generation: 9}) // of another start
	if sent := s.Take(nil); len(sent) != 1 || !sent[0].Salvaged().Refused {
		t.Errorf("another attempt is answered %v", sent)
	}
}

func TestAnExclusionIsInMessagesOnceItIsDurable(t *testing.T) {
	s, _ := newParts(t)
	x, all := exclusion{shared: s}, causal.Exclusions{0, 1}
	x.apply(all)
	if got := s.asked(); !slices.Equal(got, []StorageKind{StorageExclusions}) || len(x.active) != 0 {
		t.Fatalf("storage is asked for %v, and %v is applied", got, x.active)
	}
	if x.finish(true); len(x.active) != 0 {
		t.Error("applied though storage has failed")
	}
	x.apply(all)
	x.finish(false)
	s.Send(causal.Ping{}.Message(self, peer))
	if sent := s.Take(nil); !sent[0].Exclusions().Covers(all) {
		t.Errorf("a message says %v", sent[0].Exclusions())
	}
}

func TestABackfillTakesNoPutsOfAnOriginBeforeItsFenceIsDurable(t *testing.T) {
	s, now := newParts(t)
	f, ls := fences{shared: s}, newLanes(s.cfg.Topology, false)
	b := newBackfill(s, &ls, &tombstones{}, &oldVersions{}, &f)
	if b.admit(now, 1, 7) || b.takesPutsOf(1) {
		t.Error("puts are taken before the fence is durable")
	}
	b.admitted[1].finishFence(false)
	if !b.admit(now, 1, 7) || !b.takesPutsOf(1) || b.admit(now, 1, 6) {
		t.Error("puts are not taken behind the fence, or those of an earlier log are")
	}
	if !b.admit(now, 2, 0) || !slices.Equal(s.asked(), []StorageKind{StorageFence}) {
		t.Error("a log that was never given up needs a fence")
	}
}

// adoptionFake hosts an adoption. It counts what puts were released from.
type adoptionFake struct{ processed, clean, complete int }

func (h *adoptionFake) isClean(causal.Version, topology.Slot) bool    { return false }
func (h *adoptionFake) noteComplete(causal.Now, causal.Version)       { h.complete++ }
func (h *adoptionFake) noteLaneProgress(causal.Now, topology.Origin)  {}
func (h *adoptionFake) awaitWrite(_ causal.Now, p *put, _ causal.Dep) { p.unprocessedDeps++ }
func (h *adoptionFake) awaitLane(p *put, _ causal.Dep)                { p.uncleanDeps++ }
func (h *adoptionFake) depProcessed(_ causal.Now, p *put)             { p.unprocessedDeps--; h.processed++ }
func (h *adoptionFake) depClean(_ causal.Now, p *put)                 { p.uncleanDeps--; h.clean++ }

func TestAnAdoptedPutWaitsForTheWordOfItsAdopterInPlaceOfLanes(t *testing.T) {
	s, now := newParts(t)
	host, l, f := &adoptionFake{}, newSilence(s, now), fences{shared: s}
	ls, ws := newLanes(s.cfg.Topology, true), newWrites()
	fs, staged := newFrontiers(s.cfg.Topology, self), newStagedPuts(nil)
	a := adoption{shared: s, host: host, silence: &l, fences: &f, lanes: &ls, frontiers: &fs, writes: &ws,
		staged: &staged, retained: newRetainedPuts()}
	v := version(20)
	put := causal.AdoptPut{Key: keyOf(s), Record: record(v), Map: s.slotMap(),
		Deps: []causal.Dep{{Version: causal.Version{HLC: 3, Origin: 2}}}}.Message(leader1, self)
	a.step(now, &put)
	if ws.pending != 0 {
		t.Fatal("a write of an origin is taken that is not silent")
	}
	now.Mono += int64(adoptableAfter)
	a.step(now, &put)
	p := ws.pendingPut(v)
	if p == nil || p.unprocessedDeps != 2 || !slices.Contains(a.origins, 1) {
		t.Fatalf("it is staged as %+v", p)
	}
	s.Take(nil)
	step := func(past causal.AdoptionState, incarnation uint64) {
		m := causal.AdoptStep{Past: past, Versions: []causal.Version{v}, Incarnation: incarnation,
			Map: s.slotMap()}.Message(leader1, self)
		a.step(now, &m)
	}
	if step(causal.AdoptionReceived, 9); host.processed != 0 {
		t.Error("a word to another start counts")
	}
	if step(causal.AdoptionReceived, 1); host.processed != 1 || host.clean != 0 {
		t.Errorf("its past is received: released from %d waits to be written, and %d to be acknowledged",
			host.processed, host.clean)
	}
	if step(causal.AdoptionConfirmed, 1); host.processed != 1 || host.clean != 1 {
		t.Errorf("its past is confirmed: released from %d and %d waits", host.processed, host.clean)
	}
	if step(causal.AdoptionComplete, 1); host.complete != 1 {
		t.Error("a write whose past is complete is not")
	}
}

// keyOf returns a key whose slot the middleman owns.
func keyOf(s *shared) string {
	for i := 0; ; i++ {
		if key := fmt.Sprint("k", i); s.owns(topology.SlotOf(key)) {
			return key
		}
	}
}
