package coordinator

import (
	"slices"
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// fakeHost hosts one machine.
type fakeHost struct {
	log       *logState
	drained   bool
	announced causal.Exclusions
	told      []causal.ShardMark
}

func (h *fakeHost) isHome() bool                                  { return false }
func (h *fakeHost) IsDrained() bool                               { return h.drained }
func (h *fakeHost) announce(x causal.Exclusions)                  { h.announced = x }
func (h *fakeHost) mergeVectors([]causal.VectorEntry, causal.HLC) {}
func (h *fakeHost) noteTold(_ causal.Now, m causal.ShardMark) bool {
	h.told = append(h.told, m)
	return true
}
func (h *fakeHost) writeCheckpoint(causal.Now) {
	h.log.checkpoints = append(h.log.checkpoints, loggedCheckpoint{state: h.log.pending})
}

// sync makes the newest checkpoint durable.
func (h *fakeHost) sync() {
	for _, c := range h.log.checkpoints {
		h.log.durable, h.log.checkpointIndex = c.state, h.log.checkpointIndex+1
	}
	h.log.checkpoints = nil
}

func TestACoordinatorLeavesOnlyOnceItIsDrained(t *testing.T) {
	s, log := newParts(t), &logState{checkpointIndex: 1}
	s.cfg.Self.Index = 5 // the topology does not have it
	host := &fakeHost{log: log}
	m := membership{shared: s, host: host, log: log, intent: 1}
	log.pending.Term, log.durable.Term = 1, 1
	now := causal.Now{Mono: 1e9, WallMs: 1000}
	if m.tick(now); log.pending.Term != 1 {
		t.Fatal("it leaves with incomplete writes")
	}
	host.drained = true
	if m.tick(now); log.pending.Term != 2 || len(s.Take(nil)) != 0 {
		t.Fatalf("its term is %d", log.pending.Term)
	}
	host.sync()
	m.tick(now)
	if sent := ofKind(s.Take(nil), causal.KindTerm); len(sent) != 1 || sent[0].Term().Term != 2 {
		t.Fatalf("the leader is told %v", sent)
	}
	if m.takeReply(now, causal.TermReply{ID: 1, Term: 2}); !m.hasLeft {
		t.Error("it does not believe the leader that it has left")
	}
	if m.renewIntent(); m.hasLeft {
		t.Error("it takes an answer to an earlier intent")
	}
}

func TestALeaderAnswersAJoinOnceItsLogHasTheTerm(t *testing.T) {
	s, log := newParts(t), &logState{checkpointIndex: 1}
	host := &fakeHost{log: log}
	k := termKeeper{shared: s, host: host, log: log}
	other, now := topology.Node{Part: topology.Coordinator, Index: 1}, causal.Now{WallMs: 1000}
	join := causal.Term{ID: 7, Join: true}
	if !k.isAway(1) {
		t.Fatal("it is in use before it has joined")
	}
	k.takeTerm(now, other, join)
	if sent := s.Take(nil); len(sent) != 0 || k.isAway(1) {
		t.Fatalf("answered before the log has it: %v; the leader publishes for it: %v", sent, k.isAway(1))
	}
	host.sync()
	k.takeTerm(now, other, join)
	sent := ofKind(s.Take(nil), causal.KindTermReply)
	if len(sent) != 1 || sent[0].TermReply().Term != 1 || sent[0].TermReply().ID != 7 || !sent[0].TermReply().Counted {
		t.Errorf("answered %v", sent)
	}
}

// What the leader publishes for a coordinator that has left is above all that this one has written.
func TestALeaderTakesATermWhenItsClockIsNearAndIssuesNothingBelow(t *testing.T) {
	s, log := newParts(t), &logState{checkpointIndex: 1}
	host := &fakeHost{log: log}
	k := termKeeper{shared: s, host: host, log: log}
	other, now := topology.Node{Part: topology.Coordinator, Index: 1}, causal.Now{WallMs: 1000}
	log.pending.Terms[1], log.durable.Terms[1] = 1, 1
	upTo := causal.HLCAt(now.WallMs + s.cfg.ClockBoundMs + 500)
	left := causal.Term{ID: 7, Term: 2, UpTo: upTo}
	if k.takeTerm(now, other, left); len(log.checkpoints) != 0 || log.pending.Terms[1] != 1 {
		t.Fatal("it takes a term whose writes are above what its clock may reach")
	}
	now.WallMs += 1000
	if k.takeTerm(now, other, left); len(log.checkpoints) != 1 || log.pending.Terms[1] != 2 {
		t.Fatalf("its term is %d", log.pending.Terms[1])
	}
	if next := s.clock.Peek(now); next < upTo {
		t.Errorf("the next timestamp is %d, and the other one has written %d", next, upTo)
	}
}

func TestAnExclusionIsNotAppliedWhileTheDataAreNowhereElse(t *testing.T) {
	s, log := newParts(t), &logState{checkpointIndex: 1}
	log.pending.Term, log.durable.Term = 1, 1
	host, lanes := &fakeHost{log: log}, newLaneTable(s)
	for i, mm := range []topology.Node{shardsA, shardsB} {
		l := &lane{mm: mm, ring: topology.RingID(i), index: i}
		lanes.lanes[mm], lanes.laneOrder = l, append(lanes.laneOrder, l)
	}
	e := newExclusion(s, causal.Now{}, host, log, &lanes, foreignWrites{})
	e.learn(causal.Now{}, causal.Exclusions{0, 1})
	now := causal.Now{Mono: int64(s.cfg.ExclusionDelay)}
	e.tick(now)
	asked := ofKind(s.Take(nil), causal.KindPastQuery)
	if len(asked) != 1 || asked[0].To != shardsA || len(host.log.checkpoints) != 0 {
		t.Fatalf("asked %v, %d checkpoints", asked, len(log.checkpoints))
	}
	now.Mono += int64(copyRound)
	if e.tick(now); e.blocked != 1 || len(log.checkpoints) != 0 {
		t.Fatalf("nobody has said that it has the data, and it begins; blocked by %d", e.blocked)
	}
	asked = ofKind(s.Take(nil), causal.KindPastQuery)
	e.noteCopy(now, shardsA, causal.PastReply{ID: asked[0].PastQuery().ID, HasAll: true,
		Map: s.cfg.Topology.Map(0)}, nil)
	if len(log.checkpoints) != 1 || !log.pending.isExcluded(shardsB) {
		t.Fatal("it does not begin though the other ring has the data")
	}
	if e.activateDurable(); host.announced != nil {
		t.Error("messages name an exclusion that is not durable")
	}
	host.sync()
	if e.activateDurable(); !slices.Equal(host.announced, causal.Exclusions{0, 1}) {
		t.Errorf("messages name %v", host.announced)
	}
}

// excludedRing is a ring whose shard is excluded.
type excludedRing struct {
	ring      topology.RingID
	elsewhere bool
}

func (x *excludedRing) isExcluded(r topology.RingID, _ topology.Slot) bool { return r == x.ring }
func (x *excludedRing) isElsewhere(_ topology.RingID, _ topology.Slot, has func(topology.RingID) bool) bool {
	return x.elsewhere && has(1-x.ring)
}
func (x *excludedRing) hasForeign(topology.RingID, []causal.Dep) bool { return true }

func TestAnAdoptedWriteIsConfirmedInPlaceOfAnExcludedShardOnceAnotherRingHasIt(t *testing.T) {
	s, x := newParts(t), &excludedRing{ring: 1, elsewhere: true}
	a := newAdoption(s, 17, x)
	v := causal.Version{HLC: 50, Origin: 17}
	a.put(0, shardsA, &causal.AdoptHeld{Origin: 17, Key: "k", Record: causal.Record{Version: v}}, 10)
	now := causal.Now{Mono: 1e9}
	a.tick(now)
	w := a.writes[v.HLC]
	if !w.adoptable || w.states[1] != causal.AdoptionReceived {
		t.Fatalf("adoptable %v, for the excluded shard it is in state %d", w.adoptable, w.states[1])
	}
	puts := ofKind(s.Take(nil), causal.KindAdoptPut)
	if len(puts) != 1 || puts[0].To != shardsA {
		t.Fatalf("put to %v", puts)
	}
	if !a.noteState(v, 0, shardsA, causal.AdoptionConfirmed) || a.noteState(v, 0, shardsB, causal.AdoptionComplete) {
		t.Fatal("the word of a shard that does not own the slot counts, or that of the owner does not")
	}
	if a.tick(now); w.states[1] != causal.AdoptionComplete {
		t.Errorf("for the excluded shard it is in state %d", w.states[1])
	}
	if a.forgetStates(shardsB); w.states[1] != causal.AdoptionUnknown || w.states[0] != causal.AdoptionConfirmed {
		t.Errorf("once the shard is back: states %v", w.states)
	}
}

func TestARecoveryEndsOnceAllShardsAndCoordinatorsHaveAnswered(t *testing.T) {
	s, now := newParts(t), causal.Now{Mono: 1e9, WallMs: 100_000}
	r := newLogRecovery(s, now)
	r.tick(now)
	answer := func(from topology.Node, hlcs ...causal.HLC) {
		p := causal.Salvaged{ID: 1, Generation: r.generation, Parts: 1, Incarnation: 7, SV: 10}
		for _, h := range hlcs {
			p.Records = append(p.Records, held(h, "k"))
		}
		m := p.Message(from, s.cfg.Self)
		r.step(now, &m)
	}
	answer(shardsA, 40, 20, 5)
	answer(shardsB, 30, 20)
	now.WallMs += 2 * s.cfg.ClockBoundMs
	if _, done := r.tick(now); done {
		t.Fatal("it does not wait for the term of the other coordinator")
	}
	m := causal.TermAnswer{ID: 1, Term: 3}.Message(topology.Node{Part: topology.Coordinator, Index: 1}, s.cfg.Self)
	r.step(now, &m)
	log, done := r.tick(now)
	var hlcs []causal.HLC
	for _, w := range log.writes {
		hlcs = append(hlcs, w.hlc())
	}
	if !done || !slices.Equal(hlcs, []causal.HLC{20, 30, 40}) || log.sv != 10 || log.terms[1] != 3 ||
		log.shards[shardsA] != 7 || log.above <= causal.HLCAt(100_000) {
		t.Errorf("done %v with %v: %+v", done, hlcs, log)
	}
}
