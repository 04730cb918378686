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

// hostFake hosts machines. It counts what puts were released from.
type hostFake struct{ processed, clean, complete int }

func (h *hostFake) isClean(causal.Version, topology.Slot) bool { return false }
func (h *hostFake) noteComplete(causal.Now, causal.Version)    { h.complete++ }
func (h *hostFake) read(causal.Now, readRequest)               {}
func (h *hostFake) depProcessed(_ causal.Now, p *put)          { p.unprocessedDeps--; h.processed++ }
func (h *hostFake) depClean(_ causal.Now, p *put)              { p.uncleanDeps--; h.clean++ }

func TestAWriteIsAskedForOnceForAllPutsThatWaitForIt(t *testing.T) {
	s, now := newParts(t)
	host, ws := &hostFake{}, newWrites()
	ds := newDependencies(s, host, &ws, &exclusion{shared: s}, &mutationState{})
	v := causal.Version{HLC: 3, Origin: 2}
	dep := causal.Dep{Version: v, Slot: foreignSlot(s)}
	one, two := &put{}, &put{}
	ds.await(now, one, dep)
	ds.await(now, two, dep)
	if sent := s.Take(nil); len(sent) != 1 || sent[0].DepCheck().Version != v || sent[0].To != peer {
		t.Fatalf("asked with %+v", sent)
	}
	ds.tick(now)
	if sent := s.Take(nil); len(sent) != 0 {
		t.Errorf("it is asked again at once: %+v", sent)
	}
	now.Mono += int64(s.cfg.DepRetryInterval)
	ds.tick(now)
	if sent := s.Take(nil); len(sent) != 1 {
		t.Errorf("it is asked %d times when the answer is late", len(sent))
	}
	ds.takeStatus(now, coordinator, causal.DepStatus{Version: v, Ring: s.ring, Clean: true})
	if host.processed != 0 {
		t.Error("a part that does not own the slot answers for it")
	}
	ds.takeStatus(now, peer, causal.DepStatus{Version: v, Ring: s.ring})
	if host.processed != 2 || host.clean != 0 {
		t.Errorf("processed: %d and %d are released", host.processed, host.clean)
	}
	ds.takeStatus(now, peer, causal.DepStatus{Version: v, Ring: s.ring, Clean: true})
	if host.processed != 2 || host.clean != 2 || one.uncleanDeps+two.uncleanDeps != 0 {
		t.Errorf("clean: %d and %d are released", host.processed, host.clean)
	}
	if ds.tick(now); len(ds.unresolved)+len(ds.awaited) != 0 {
		t.Error("it is still waited for")
	}
}

func TestAPutWaitsForALaneUntilItIsReceivedAndThenUntilItIsClean(t *testing.T) {
	s, now := newParts(t)
	host, ls, ws := &hostFake{}, newLanes(s.cfg.Topology, true), newWrites()
	fs := newFrontiers(s, host, &ls, &ws)
	p := &put{}
	fs.await(p, causal.Dep{Version: version(5), Slot: foreignSlot(s)})
	if p.unprocessedDeps != 1 || p.uncleanDeps != 1 {
		t.Fatalf("it waits for %d and %d", p.unprocessedDeps, p.uncleanDeps)
	}
	for _, step := range []struct {
		received, clean   causal.HLC
		processed, isFree int
	}{{4, 4, 0, 0}, {5, 4, 1, 0}, {5, 5, 1, 1}} {
		f := causal.Frontier{Map: s.slotMap()}
		f.Add(causal.LaneProgress{Origin: 1, Received: step.received, Clean: step.clean})
		if fs.merge(now, peer, f); host.processed != step.processed || host.clean != step.isFree {
			t.Errorf("received up to %d and clean up to %d: %d and %d are released", step.received, step.clean,
				host.processed, host.clean)
		}
	}
}

func TestAProbeIsAnsweredOnlyIfTheLaneHasCertainlyNotComeSoFar(t *testing.T) {
	for name, c := range map[string]struct {
		fresh    bool
		received causal.HLC
		answers  int
	}{
		"it has not":                          {true, 4, 1},
		"it has":                              {true, 5, 0},
		"not since a restart, perhaps before": {false, 4, 0},
	} {
		s, now := newParts(t)
		host, ls, ws := &hostFake{}, newLanes(s.cfg.Topology, c.fresh), newWrites()
		ls.of(1).receive(c.received, 0, 0)
		staged := newStagedPuts(nil)
		ps := depProbes{shared: s, host: host, staged: &staged, lanes: &ls, writes: &ws}
		probe := causal.DepProbe{ID: 7, Incarnation: 2, Lane: true, Map: s.slotMap(),
			Dep: causal.Dep{Version: version(5), Slot: topology.SlotOf(keyOf(s))}}
		ps.answer(now, peer, probe)
		sent := s.Take(nil)
		if len(sent) != c.answers || len(sent) == 1 && sent[0].DepMissing().ID != 7 {
			t.Errorf("%s: answered with %+v", name, sent)
		}
	}
}

// foreignSlot returns a slot of the other shard of the ring.
func foreignSlot(s *shared) topology.Slot {
	for slot := topology.Slot(0); ; slot++ {
		if !s.owns(slot) {
			return slot
		}
	}
}

func TestAnAdoptedPutWaitsForTheWordOfItsAdopterInPlaceOfLanes(t *testing.T) {
	s, now := newParts(t)
	host, l, f := &hostFake{}, newSilence(s, now), fences{shared: s}
	ls, ws := newLanes(s.cfg.Topology, true), newWrites()
	fs, staged := newFrontiers(s, host, &ls, &ws), newStagedPuts(nil)
	ds := newDependencies(s, host, &ws, &exclusion{shared: s}, &mutationState{})
	a := adoption{shared: s, host: host, silence: &l, fences: &f, lanes: &ls, deps: &ds, frontiers: &fs, writes: &ws,
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
