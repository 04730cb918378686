package middleman

import (
	"slices"
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
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
