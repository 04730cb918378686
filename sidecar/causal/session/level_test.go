package session

import (
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

func TestEveryLevelHasAFile(t *testing.T) {
	for _, l := range causal.Levels() {
		if levels[l] == nil {
			t.Errorf("no file makes %s known", l)
		}
	}
}

// What each level does, of sessions that read at cuts. All is complete up to 1200, and the cut is at 1000.
func TestWhatALevelReadsFromWhere(t *testing.T) {
	for _, c := range []struct {
		level      causal.Level
		cut        causal.HLC // of a get; 0: it reads the newest version
		nearAlone  bool       // an MGET is answered by near copies of all keys alone
		mgetCut    causal.HLC
		ownAnswers bool       // an own write that is complete and above the cut answers
		covers     causal.HLC // is in the past of what a get finds
	}{
		{level: causal.DefaultLevel, cut: at(1000), nearAlone: true, mgetCut: at(1000), ownAnswers: true, covers: at(1000)},
		{level: causal.Snapshot, cut: at(1000), nearAlone: true, mgetCut: at(1000), ownAnswers: true, covers: at(1000)},
		{level: causal.Latest, nearAlone: true, covers: at(1200)},
		{level: causal.Newest, covers: at(1200)},
	} {
		t.Run(c.level.String(), func(t *testing.T) {
			r := newRig(t, snapshotReads)
			r.completeUpTo(at(1200))
			r.sent(causal.KindNone)
			l := r.s.levelOf(c.level)
			if near := l.nearCut(r.s, r.now, r.s.sessions[1], []byte("x")); near != c.cut {
				t.Errorf("near copies are read at %d ms", near.WallMs())
			}
			if covered := l.covers(r.s, r.now); covered.At != c.covers {
				t.Errorf("what is complete up to %d ms is in the past of what a get finds", covered.At.WallMs())
			}
			r.start(Op{Kind: OpGet, Key: "x", Level: c.level})
			m := r.request(causal.KindGet)
			if g := m.Get(); g.Snapshot != (c.cut != 0) || g.Cut != c.cut || m.To.Part != topology.Cache {
				t.Errorf("a get asks %v for %+v", m.To, g)
			}
			r.start(Op{Kind: OpMGet, Keys: []string{"x", "y"}, Level: c.level})
			for _, m := range r.sent(causal.KindGet) {
				if g := m.Get(); g.Cut != c.mgetCut || (m.To.Part == topology.Cache) != (c.mgetCut != 0) {
					t.Errorf("an MGET asks %v for %+v", m.To, g)
				}
			}
			r.write("z", "mine", ownVersion(at(1300)))
			r.complete(ownVersion(at(1300)))
			id := r.start(Op{Kind: OpGet, Key: "z", Level: c.level})
			if _, answered := r.result(id); answered != c.ownAnswers {
				t.Errorf("a complete own write above the cut answers: %v", answered)
			}

			r = newNearRig(t, []string{"x", "y"}, snapshotReads)
			id = r.start(Op{Kind: OpMGet, Keys: []string{"x", "y"}, Level: c.level})
			if _, answered := r.result(id); answered != c.nearAlone {
				t.Errorf("near copies of all keys answer an MGET: %v", answered)
			}
			if _, answered := r.s.GetNear(r.now, 1, []byte("x"), c.level); !answered {
				t.Error("a near copy does not answer a get")
			}
		})
	}
}

func TestAtTheseLevelsWhatIsInFlightBindsAndIsDependedOn(t *testing.T) {
	for _, l := range []causal.Level{causal.Latest, causal.Snapshot, causal.Newest} {
		t.Run(l.String(), func(t *testing.T) {
			r := newRig(t, snapshotReads)
			r.completeUpTo(at(1000))
			r.sent(causal.KindNone)
			id := r.start(Op{Kind: OpGet, Key: "x", Level: l})
			r.replyGet(r.request(causal.KindGet), causal.GetReply{Record: record(version(at(1500))),
				Status: causal.InFlight, Ring: near})
			r.mustResult(id)
			if bound, rings := r.bound(); !bound || rings != topology.RingsOf(near) {
				t.Errorf("bound: %v, to %v", bound, rings)
			}
			r.start(Op{Kind: OpPut, Key: "y", Level: l})
			if p := r.request(causal.KindPut).Put(); p.Floor != at(1500) || len(p.Deps) != 1 ||
				p.Deps[0].Version != version(at(1500)) {
				t.Errorf("the put carries %+v", p)
			}
		})
	}
}

func TestABindingGoesWithEveryLevel(t *testing.T) {
	for _, l := range causal.SessionLevels() {
		for binding, want := range map[causal.Binding]bool{causal.Dynamic: true, causal.Static: false} {
			r := newRig(t, snapshotReads, noCache, func(c *Config) { c.Level, c.Binding = l, binding })
			r.completeUpTo(at(1000))
			r.sent(causal.KindNone)
			r.start(Op{Kind: OpGet, Key: "x"})
			if m := r.request(causal.KindGet); m.To != r.shard(near) || m.Get().Snapshot != (l == causal.Snapshot) {
				t.Errorf("%s, %s: %v is asked for %+v", l, binding, m.To, m.Get())
			}
			if r.s.Status(1).Rings.Has(far) != want {
				t.Errorf("%s, %s: the session may read in %v", l, binding, r.s.Status(1).Rings)
			}
		}
	}
}

// anything is a level of these tests: it reads whatever there is, and a put at it carries nothing. It has no code
// outside of this file, so what it does shows that levels decide all of it.
const anything causal.Level = 255

type readsAnything struct{ latest }

func init() { register(anything, readsAnything{}) }

func (readsAnything) sources(s *Sidecar, _ *session) (topology.RingSet, bool) {
	return s.readable, true
}
func (readsAnything) get(*Sidecar, causal.Now, *call) (causal.Get, causal.HLC) {
	return causal.Get{}, 0
}
func (readsAnything) covers(*Sidecar, causal.Now) causal.Cut {
	return causal.Cut{At: causal.NoLimit, Complete: causal.NoLimit}
}
func (readsAnything) restrictions(*Sidecar, *session, foundValue) int                  { return 0 }
func (readsAnything) observe(*Sidecar, causal.Now, *session, foundValue) bool          { return true }
func (readsAnything) carries(*Sidecar, *session) (floor causal.HLC, deps []causal.Dep) { return 0, nil }
func (readsAnything) acknowledge(*Sidecar, *call, causal.Version)                      {}
func (readsAnything) finishRound(s *Sidecar, now causal.Now, c *call)                  { s.deliver(now, c) }
func (l readsAnything) startMGet(s *Sidecar, now causal.Now, c *call) {
	s.readLatest(now, c)
	c.mget.reader = l
}

func TestALevelDecidesWhatAReadAsksOfItsSession(t *testing.T) {
	r := newRig(t, func(c *Config) { c.MaxRestrictions = 1 })
	if got := r.read("x", version(50), causal.InFlight, near); got.Err != causal.OK {
		t.Fatal(got.Err)
	}
	before := r.s.Status(1)
	// it is bound as much as it may be, and reads through the cache, and is not bound by what it finds
	id := r.start(Op{Kind: OpGet, Key: "y", Level: anything})
	m := r.request(causal.KindGet)
	if m.To.Part != topology.Cache || m.Get().Seen != 0 {
		t.Errorf("%v is asked for %+v", m.To, m.Get())
	}
	r.replyGet(m, causal.GetReply{Record: record(version(70)), Status: causal.InFlight, Ring: far})
	if got := r.mustResult(id); got.Record.Version != version(70) || r.s.Status(1).Restrictions != before.Restrictions {
		t.Errorf("got %+v; the session has %+v", got, r.s.Status(1))
	}
	id = r.start(Op{Kind: OpMGet, Keys: []string{"y", "z"}, Level: anything})
	for _, m := range r.sent(causal.KindGet) {
		r.replyGet(m, causal.GetReply{Record: record(version(80)), Status: causal.InFlight, Ring: near})
	}
	if got := r.mustResult(id); len(got.Records) != 2 || r.s.Status(1).Restrictions != before.Restrictions {
		t.Errorf("got %+v; the session has %+v", got, r.s.Status(1))
	}
	// a put at it carries nothing, and one that follows carries what was read before it
	id = r.start(Op{Kind: OpPut, Key: "y", Level: anything})
	m = r.request(causal.KindPut)
	if p := m.Put(); p.Floor != 0 || len(p.Deps) != 0 {
		t.Errorf("the put carries %+v", p)
	}
	r.replyPut(m, ownVersion(90), causal.OK)
	r.mustResult(id)
	r.startPut("z", "1")
	if p := r.request(causal.KindPut).Put(); p.Floor != 50 || len(p.Deps) != 1 || p.Deps[0].Version != version(50) {
		t.Errorf("the next put carries %+v", p)
	}
}

func TestALevelDecidesWhetherNearCopiesMayAnswer(t *testing.T) {
	r := newNearRig(t, []string{"x"})
	r.read("z", version(50), causal.InFlight, near)
	for l, want := range map[causal.Level]bool{causal.Latest: false, causal.Newest: false, anything: true} {
		if _, ok := r.s.GetNear(r.now, 1, []byte("x"), l); ok != want {
			t.Errorf("%s: a near copy answers a bound session: %v", l, ok)
		}
	}
}

func TestAnAnswerAtAWeakLevelAsksNothingOfThePipeline(t *testing.T) {
	r := newRig(t)
	r.s.DoGets(r.now, []Op{{ID: 1, Session: 1, Key: "x", Level: anything},
		{ID: 2, Session: 1, Key: "y", Level: anything}})
	r.lastOp = 2
	gets := r.sent(causal.KindGet)
	for _, m := range gets {
		r.replyGet(m, causal.GetReply{Record: record(version(70)), Status: causal.InFlight, Ring: near})
	}
	if len(gets) != 2 || len(r.sent(causal.KindGet)) > 0 {
		t.Error("a get is made again")
	}
	r.mustResult(1)
	r.mustResult(2)
}
