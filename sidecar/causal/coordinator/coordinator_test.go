package coordinator

import (
	"slices"
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// harness drives the coordinator with an index of a data center with coordinators and one shard in each of two rings.
type harness struct {
	t     *testing.T
	c     *Coordinator
	cfg   Config
	now   causal.Now
	index uint64 // of the last durable record
	log   []LogRecord
}

var (
	app     = topology.Node{Part: topology.Sidecar, Index: 9}
	shardsA = topology.Node{Part: topology.Middleman}        // of ring 0
	shardsB = topology.Node{DC: 1, Part: topology.Middleman} // of ring 1
)

func twoRings(t *testing.T, coordinators int) *topology.Topology {
	t.Helper()
	return twoRingsOf(t, coordinators, 1)
}

func twoRingsOf(t *testing.T, coordinators, shards int) *topology.Topology {
	t.Helper()
	topo, err := topology.New(1, []topology.DataCenter{{Name: "a", Coordinators: coordinators, Shards: shards},
		{Name: "b", Ring: 1, Coordinators: 1, Shards: shards}},
		[]topology.Ring{{Name: "r", DCs: []topology.DC{0}}, {Name: "s", DCs: []topology.DC{1}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return topo
}

func newHarness(t *testing.T, coordinators int, index uint64, mutations ...causal.Mutation) *harness {
	cfg := DefaultConfig(twoRings(t, coordinators), topology.Node{Part: topology.Coordinator, Index: index})
	cfg.Incarnation, cfg.Broken = 1, causal.MutationsOf(mutations...)
	h := &harness{t: t, cfg: cfg, now: causal.Now{Mono: 1, WallMs: 100_000}}
	first := &Checkpoint{}
	if index == 0 {
		first.Term = 1
	}
	h.log, h.index = []LogRecord{{Checkpoint: first}}, 1 // its log is not new
	h.c = New(cfg, h.now, logged(h.log), 2)
	t.Cleanup(func() {
		if cfg.Broken.Any() {
			return
		}
		for _, wrong := range h.c.CheckCounts() {
			t.Error(wrong)
		}
	})
	return h
}

// sync makes everything durable that the coordinator has appended.
func (h *harness) sync() {
	for {
		records := h.c.Appends(nil)
		if len(records) == 0 {
			return
		}
		h.log = append(h.log, records...)
		h.index += uint64(len(records))
		h.c.Appended(h.now, h.index)
	}
}

// logged returns the records of a log that begins with index 1 and has no gaps.
func logged(records []LogRecord) (all []Logged) {
	for i, r := range records {
		all = append(all, Logged{uint64(i + 1), r})
	}
	return all
}

// restart stops the coordinator as a crash does, and starts it from its durable log.
func (h *harness) restart(now causal.Now) {
	h.cfg.Incarnation++
	h.now = now
	h.c = New(h.cfg, now, logged(h.log), h.index+1)
}

func (h *harness) tick(ms int64) []causal.Message {
	h.now.Mono += ms * 1e6
	h.now.WallMs += ms
	h.c.Tick(h.now)
	h.sync()
	return h.c.Take(nil)
}

func (h *harness) step(m causal.Message) []causal.Message {
	h.c.Step(h.now, &m)
	return h.c.Take(nil)
}

// put sends a put and returns what it makes the coordinator send before and after it is durable.
func (h *harness) put(p causal.Put) (before, after []causal.Message) {
	before = h.step(p.Message(app, h.cfg.Self))
	h.sync()
	return before, h.c.Take(nil)
}

func (h *harness) ack(from topology.Node, vs ...causal.Version) []causal.Message {
	return h.step(causal.PutAck{Incarnation: 1, Versions: vs}.Message(from, h.cfg.Self))
}

func ofKind(ms []causal.Message, kind causal.Kind) (found []causal.Message) {
	for _, m := range ms {
		if m.Kind == kind {
			found = append(found, m)
		}
	}
	return found
}

func reply(t *testing.T, ms []causal.Message) causal.PutReply {
	t.Helper()
	found := ofKind(ms, causal.KindPutReply)
	if len(found) != 1 {
		t.Fatalf("%d replies to a put", len(found))
	}
	return found[0].PutReply()
}

func TestAPutIsAcknowledgedAndSentOnlyOnceItIsDurable(t *testing.T) {
	for _, broken := range []bool{false, true} {
		h := newHarness(t, 1, 0, mutationIf(broken, causal.PropagateBeforeDurable)...)
		h.tick(10)
		before := h.step(causal.Put{ID: 3, Session: 1, Seq: 1, Key: "k"}.Message(app, h.cfg.Self))
		h.c.Tick(h.now)
		before = append(before, h.c.Take(nil)...)
		if len(ofKind(before, causal.KindPutReply)) > 0 {
			t.Error("acknowledged before the log held it")
		}
		if sent := len(ofKind(before, causal.KindPutAfter)) > 0; sent != broken {
			t.Errorf("with propagate-before-durable %v it is sent before the log holds it: %v", broken, sent)
		}
		h.sync()
		if r := reply(t, h.c.Take(nil)); r.Err != causal.OK || r.ID != 3 {
			t.Errorf("answered %+v", r)
		}
	}
}

func mutationIf(broken bool, f causal.Mutation) []causal.Mutation {
	if broken {
		return []causal.Mutation{f}
	}
	return nil
}

func TestAWriteIsCompleteOnceEveryRingHasAcknowledgedIt(t *testing.T) {
	h := newHarness(t, 1, 0)
	h.tick(10)
	_, after := h.put(causal.Put{ID: 1, Session: 4, Seq: 1, Key: "k"})
	v := reply(t, after).Version
	if m := ofKind(h.ack(shardsA, v), causal.KindComplete); len(m) > 0 {
		t.Error("complete with one of two rings")
	}
	m := ofKind(h.ack(shardsB, v), causal.KindComplete)
	if len(m) != 1 || !slices.Contains(m[0].Complete().Versions, v) || m[0].Complete().Session != 4 {
		t.Errorf("the session is told %+v", m)
	}
	marks := ofKind(h.tick(10), causal.KindStable)
	if len(marks) != 2 {
		t.Errorf("%d shards are told that it is stable, want 2", len(marks))
	}
}

// What was taken to be sent is encoded later, while the coordinator goes on.
func TestStableMarksThatAreOnTheirWayStayAsTheyAre(t *testing.T) {
	h := newHarness(t, 1, 0)
	h.tick(10)
	complete := func(n uint64) (causal.Version, []causal.Message) {
		_, after := h.put(causal.Put{ID: n, Session: 4, Seq: n, Key: "k"})
		v := reply(t, after).Version
		h.ack(shardsA, v)
		h.ack(shardsB, v)
		return v, ofKind(h.tick(10), causal.KindStable)
	}
	v, marks := complete(1)
	complete(2)
	for _, m := range marks {
		if got := m.StableMarks().Versions; !slices.Equal(got, []causal.Version{v}) {
			t.Errorf("%s was told of %v, and the message now says %v", m.To, v, got)
		}
	}
}

func TestSVStaysBelowTheOldestIncompleteWrite(t *testing.T) {
	for _, broken := range []bool{false, true} {
		h := newHarness(t, 1, 0, mutationIf(broken, causal.SVEarly)...)
		h.tick(10)
		_, after := h.put(causal.Put{ID: 1, Session: 1, Seq: 1, Key: "k"})
		v := reply(t, after).Version
		h.tick(200)
		if covered := h.c.Known().Complete(v); covered != broken {
			t.Errorf("with sv-early %v SV covers an incomplete write: %v", broken, covered)
		}
	}
}

func TestNoTimestampIsIssuedAtOrBelowAPublishedSVAlsoAfterARestart(t *testing.T) {
	for _, broken := range []bool{false, true} {
		h := newHarness(t, 1, 0, mutationIf(broken, causal.ReuseHLC)...)
		for range 20 {
			h.tick(100)
		}
		published := h.c.Known().SV(h.c.origin)
		if published == 0 {
			t.Fatal("an idle coordinator publishes nothing")
		}
		h.restart(causal.Now{Mono: 1, WallMs: 50_000}) // the wall clock is 50 s behind now
		h.c.Tick(h.now)
		_, after := h.put(causal.Put{ID: 1, Session: 1, Seq: 1, Key: "k"})
		if reused := reply(t, after).Version.HLC <= published; reused != broken {
			t.Errorf("with reuse-hlc %v a timestamp at or below a published SV is issued: %v", broken, reused)
		}
	}
}

func TestAPutIsOrderedAfterWhatItsSessionHasSeen(t *testing.T) {
	for _, broken := range []bool{false, true} {
		h := newHarness(t, 1, 0, mutationIf(broken, causal.FloorWithoutOwn)...)
		h.tick(10)
		floor := causal.HLCAt(h.now.WallMs + causal.MaxSessionAheadMs)
		_, after := h.put(causal.Put{ID: 1, Session: 1, Seq: 1, Key: "k", Floor: floor})
		if below := reply(t, after).Version.HLC <= floor; below != broken {
			t.Errorf("with floor-without-own %v the version is below the floor: %v", broken, below)
		}
	}
}

// A sidecar may claim to have seen anything. The clocks of all coordinators follow what is accepted.
func TestWhatASessionClaimsMovesTheClockByLittle(t *testing.T) {
	h := newHarness(t, 1, 0)
	h.tick(10)
	seq, refused := uint64(0), uint64(0)
	ask := func(p causal.Put) causal.PutReply {
		seq++
		p.ID, p.Session, p.Seq, p.Key = seq, 1, seq, "k"
		before, after := h.put(p)
		r := reply(t, append(before, after...))
		if r.Err == causal.ErrClock {
			refused++
		}
		return r
	}
	far := causal.HLCAt(h.now.WallMs + causal.MaxSessionAheadMs + 200)
	if r := ask(causal.Put{Floor: far}); r.Err != causal.ErrClock {
		t.Errorf("a floor far ahead: %s", r.Err)
	}
	if r := ask(
		causal.Put{Deps: []causal.Dep{{Version: causal.Version{HLC: far, Origin: 1}}}}); r.Err != causal.ErrClock {
		t.Errorf("a dependency far ahead: %s", r.Err)
	}
	near := ask(causal.Put{Floor: causal.HLCAt(h.now.WallMs + causal.MaxSessionAheadMs - 100)})
	if near.Err != causal.OK {
		t.Fatalf("a floor that is near: %s", near.Err)
	}
	if r := ask(causal.Put{Floor: near.Version.HLC}); r.Err != causal.OK {
		t.Errorf("a floor that this coordinator has issued: %s", r.Err)
	}
	if r := ask(causal.Put{Floor: near.Version.HLC + causal.HLCAt(300)}); r.Err != causal.ErrClock {
		t.Errorf("a claim moves the limit for the next one: %s", r.Err)
	}
	if n := h.c.Stats().ClockRefused; n != refused || n != 3 {
		t.Errorf("%d refusals, %d are counted", refused, n)
	}
}

func TestATimestampTooFarAheadIsRefused(t *testing.T) {
	h := newHarness(t, 1, 0)
	h.tick(10)
	before, _ := h.put(causal.Put{ID: 1, Session: 1, Seq: 1, Key: "k",
		Floor: causal.HLCAt(h.now.WallMs + h.cfg.ClockBoundMs + 1000)})
	if r := reply(t, before); r.Err != causal.ErrClock {
		t.Errorf("answered %s", r.Err)
	}
}

func TestAPutThatALaterOneOvertookIsRefusedAlsoAfterARestart(t *testing.T) {
	h := newHarness(t, 1, 0)
	h.tick(10)
	h.put(causal.Put{ID: 2, Session: 1, Seq: 2, Key: "k"})
	late := causal.Put{ID: 1, Session: 1, Seq: 1, Key: "k"}
	before, _ := h.put(late)
	if r := reply(t, before); r.Err != causal.ErrStale {
		t.Errorf("answered %s", r.Err)
	}
	h.restart(h.now)
	before, _ = h.put(late)
	if r := reply(t, before); r.Err != causal.ErrStale {
		t.Errorf("after a restart: %s", r.Err)
	}
}

func TestPutsAreRefusedWhenTheBufferOrTheLogIsFullOrTheProcessStops(t *testing.T) {
	for name, c := range map[string]struct {
		fill func(*harness)
		want causal.ErrCode
	}{
		"buffer": {func(h *harness) { h.c.cfg.MaxBytes = 10 }, causal.ErrBusy},
		"log":    {func(h *harness) { h.c.SetLogFull(true) }, causal.ErrBusy},
		"stop":   {func(h *harness) { h.c.RefusePuts() }, causal.ErrUnavailable},
	} {
		h := newHarness(t, 1, 0)
		h.tick(10)
		c.fill(h)
		before, _ := h.put(causal.Put{ID: 1, Session: 1, Seq: 1, Key: "k"})
		if r := reply(t, before); r.Err != c.want {
			t.Errorf("%s: answered %s, want %s", name, r.Err, c.want)
		}
	}
}

func TestAPutNamesWhatItsSessionHasSeenAndItsPredecessorInTheSession(t *testing.T) {
	for _, broken := range []bool{false, true} {
		h := newHarness(t, 1, 0, mutationIf(broken, causal.SkipDeps)...)
		h.tick(10)
		foreign := causal.Dep{Version: causal.Version{HLC: causal.HLCAt(h.now.WallMs), Origin: 17}, Slot: 5}
		_, first := h.put(causal.Put{ID: 1, Session: 1, Seq: 1, Key: "k", Deps: []causal.Dep{foreign}})
		// pipelined: the session does not know the first version yet
		_, second := h.put(causal.Put{ID: 2, Session: 1, Seq: 2, Key: "l"})
		v := reply(t, first).Version
		puts := ofKind(second, causal.KindPutAfter)
		if len(puts) != 2 {
			t.Fatalf("%d puts sent for the second write, want one for each ring", len(puts))
		}
		deps := puts[0].PutAfter().Deps
		named := slices.Contains(deps.Writes(), foreign) && slices.ContainsFunc(deps.Lanes(), func(d causal.Dep) bool {
			return d.Version == v
		})
		if named == broken {
			t.Errorf("with skip-deps %v the second put names %v by id and %v by lane", broken, deps.Writes(),
				deps.Lanes())
		}
	}
}

func TestALongListOfDependenciesIsReplacedByTheDirectPredecessors(t *testing.T) {
	h := newHarness(t, 1, 0)
	h.c.cfg.MaxDeps = 2
	h.tick(10)
	var deps []causal.Dep
	for i := range 3 {
		deps = append(deps,
			causal.Dep{Version: causal.Version{HLC: causal.HLCAt(h.now.WallMs) + causal.HLC(i), Origin: 17}})
	}
	_, first := h.put(causal.Put{ID: 1, Session: 1, Seq: 1, Key: "k", Deps: deps})
	_, second := h.put(causal.Put{ID: 2, Session: 1, Seq: 2, Key: "l"})
	got := ofKind(second, causal.KindPutAfter)[0].PutAfter().Deps
	if v := reply(t, first).Version; len(got.Writes()) != 1 || got.Writes()[0].Version != v || len(got.Lanes()) != 0 {
		t.Errorf("the second put names %v by id and %v by lane, want only %s by id", got.Writes(), got.Lanes(), v)
	}
}

func TestARestartedMiddlemanGetsAgainWhatIsInFlight(t *testing.T) {
	h := newHarness(t, 1, 0)
	h.tick(10)
	h.put(causal.Put{ID: 1, Session: 1, Seq: 1, Key: "k"})
	hello := causal.LaneHello{Incarnation: 8, Map: h.cfg.Topology.Map(0)}
	sent := h.step(hello.Message(shardsA, h.cfg.Self))
	sync := ofKind(sent, causal.KindLaneSync)
	if len(ofKind(sent, causal.KindPutAfter)) != 1 || len(sync) != 1 || sync[0].LaneSync().Incarnation != 8 ||
		sync[0].LaneSync().Newest != h.c.newest {
		t.Errorf("answered %+v", sent)
	}
	// Of another slot map it hears only what is remembered of its storage.
	h.step(causal.PutAck{Incarnation: 8, Changes: 5}.Message(shardsA, h.cfg.Self))
	hello.Map++
	sent = h.step(hello.Message(shardsA, h.cfg.Self))
	want := causal.LaneSync{Incarnation: 8, Map: hello.Map, Recovering: true,
		Reached: causal.Reach{Incarnation: 8, Changes: 5}}
	if len(sent) != 1 || sent[0].Kind != causal.KindLaneSync || sent[0].LaneSync() != want {
		t.Errorf("a middleman of another slot map is answered %+v", sent)
	}
}

func TestACoordinatorThatJoinsStartsAboveWhatTheLeaderHasPublishedForIt(t *testing.T) {
	for _, broken := range []bool{false, true} {
		h := newHarness(t, 2, 1, mutationIf(broken, causal.JoinBelow)...)
		ask := ofKind(h.tick(10), causal.KindTerm)
		if len(ask) != 1 || !ask[0].Term().Join || h.c.Membership() != Joining {
			t.Fatalf("asks %+v, is %s", ask, h.c.Membership())
		}
		before, _ := h.put(causal.Put{ID: 1, Session: 1, Seq: 1, Key: "k"})
		if r := reply(t, before); r.Err != causal.ErrUnavailable {
			t.Errorf("before it is admitted a put is answered %s", r.Err)
		}
		above := causal.HLCAt(h.now.WallMs + 4000)
		lead := topology.Node{Part: topology.Coordinator}
		// A late answer to the question of an empty log knows the new term, and not above what to start.
		h.step(causal.TermReply{ID: ask[0].Term().ID, Term: 1, New: true}.Message(lead, h.cfg.Self))
		h.sync()
		if h.c.Membership() != Joining {
			t.Fatalf("after an answer that admits nobody it is %s", h.c.Membership())
		}
		h.step(causal.TermReply{ID: ask[0].Term().ID, Term: 1, Above: above, Counted: true}.Message(lead, h.cfg.Self))
		h.sync()
		if h.c.Membership() != Serving {
			t.Fatalf("after it was admitted it is %s", h.c.Membership())
		}
		_, after := h.put(causal.Put{ID: 2, Session: 1, Seq: 2, Key: "k"})
		if below := reply(t, after).Version.HLC <= above; below != broken {
			t.Errorf("with join-below %v it writes at or below what was published for it: %v", broken, below)
		}
	}
}

func TestALeaderAdmitsACoordinatorOnlyOnceItsLogHasIt(t *testing.T) {
	h := newHarness(t, 2, 0)
	h.tick(10)
	other := topology.Node{Part: topology.Coordinator, Index: 1}
	join := causal.Term{ID: 5, Term: 0, Join: true}.Message(other, h.cfg.Self)
	if sent := ofKind(h.step(join), causal.KindTermReply); len(sent) != 0 {
		t.Error("admitted before the leader's log has it")
	}
	h.sync()
	sent := ofKind(h.step(join), causal.KindTermReply)
	if len(sent) != 1 || sent[0].TermReply().Term != 1 || sent[0].TermReply().ID != 5 || !sent[0].TermReply().Counted {
		t.Errorf("answered %+v", sent)
	}
	if h.c.InUse() != 0b11 {
		t.Errorf("in use: %b", h.c.InUse())
	}
	for _, broken := range []bool{false, true} {
		if broken {
			h.cfg.Broken = causal.MutationsOf(causal.ForgetTerms)
		}
		h.restart(h.now)
		if knows := h.c.InUse() == 0b11; knows == broken {
			t.Errorf("with forget-terms %v a restarted leader knows who is in use: %v", broken, knows)
		}
	}
}

func TestALeaderPublishesForCoordinatorsThatAreAwayOnly(t *testing.T) {
	for _, broken := range []bool{false, true} {
		h := newHarness(t, 2, 0, mutationIf(broken, causal.VouchInUse)...)
		h.tick(10)
		other := topology.Node{Part: topology.Coordinator, Index: 1}
		h.step(causal.Term{ID: 5, Join: true}.Message(other, h.cfg.Self))
		h.sync()
		at := h.c.Known().SV(h.cfg.Topology.OriginOf(other))
		for range 10 {
			h.tick(200)
		}
		if moved := h.c.Known().SV(h.cfg.Topology.OriginOf(other)) > at; moved != broken {
			t.Errorf("with vouch-in-use %v the leader publishes for one that is in use: %v", broken, moved)
		}
		away := h.cfg.Topology.OriginOf(topology.Node{Part: topology.Coordinator, Index: 2})
		if h.c.Known().SV(away) == 0 {
			t.Error("nobody publishes for one that is away")
		}
	}
}

// The log of a group holds records of its own between those of the coordinator.
func TestARestartFromALogWithGapsKeepsWhatItNeeds(t *testing.T) {
	h := newHarness(t, 1, 0)
	h.put(causal.Put{ID: 1, Session: 1, Seq: 1, Key: "a"})
	h.put(causal.Put{ID: 2, Session: 1, Seq: 2, Key: "b"})
	records := logged(h.log)
	for i := range records {
		records[i].Index = records[i].Index*10 + 3
	}
	last := records[len(records)-1].Index
	h.c = New(h.cfg, h.now, records, last+5)
	h.index = last + 4
	h.tick(2000) // writes a checkpoint
	if first := h.c.writes[0].index; h.c.TruncateBefore() != first || first%10 != 3 {
		t.Errorf("the log is needed from %d on, want %d, that of the oldest write", h.c.TruncateBefore(), first)
	}
	if n := len(h.c.writes); n != 2 {
		t.Errorf("%d writes", n)
	}
	_, after := h.put(causal.Put{ID: 3, Session: 1, Seq: 3, Key: "c"})
	if r := reply(t, after); r.Err != causal.OK {
		t.Errorf("a put got %s", r.Err)
	}
}

// The session has not heard of its first put, so it cannot name it when it sends the second one again.
func TestAPutAfterARestartFollowsThePutOfItsSessionBeforeIt(t *testing.T) {
	h := newHarness(t, 1, 0)
	h.tick(10)
	_, first := h.put(causal.Put{ID: 1, Session: 1, Seq: 1, Key: "k"})
	v := reply(t, first).Version
	h.restart(h.now)
	h.tick(10)
	_, second := h.put(causal.Put{ID: 2, Session: 1, Seq: 2, Unanswered: 1, Resent: true, Since: v.HLC, Key: "l"})
	puts := ofKind(second, causal.KindPutAfter)
	if len(puts) != 2 {
		t.Fatalf("%d puts are sent for the second write, want one for each ring", len(puts))
	}
	for _, m := range puts {
		lanes := m.PutAfter().Deps.Lanes()
		if !slices.ContainsFunc(lanes, func(d causal.Dep) bool { return d.Version == v }) {
			t.Errorf("to %s it names %v by lane, and not %s", m.To, lanes, v)
		}
	}
}

// Else a request to join that is still under way brings back a coordinator that has taken itself for gone, and nobody
// publishes for its origin.
func TestAnAnswerFromBeforeACoordinatorWasToComeBackDoesNotCount(t *testing.T) {
	h := newHarness(t, 2, 1)
	h.tick(10)
	with, without := twoRings(t, 2), twoRings(t, 1)
	without.DCs[0].CoordinatorsBefore = 2
	h.c.SetTopology(h.now, without)
	asked := ofKind(h.tick(1000), causal.KindTerm)
	if len(asked) == 0 || asked[0].Term().Join {
		t.Fatalf("to leave it sends %+v", asked)
	}
	h.c.SetTopology(h.now, with)
	h.c.SetTopology(h.now, without)
	lead := topology.Node{Part: topology.Coordinator}
	late := causal.TermReply{ID: asked[0].Term().ID, Term: asked[0].Term().Term}
	h.step(late.Message(lead, h.cfg.Self))
	if is := h.c.Membership(); is != Leaving {
		t.Errorf("after a late answer it is %s", is)
	}
	asked = ofKind(h.tick(1000), causal.KindTerm)
	if len(asked) != 1 {
		t.Fatalf("then it asks %+v", asked)
	}
	late.ID = asked[0].Term().ID
	h.step(late.Message(lead, h.cfg.Self))
	if is := h.c.Membership(); is != Left {
		t.Errorf("after the answer it is %s", is)
	}
}
