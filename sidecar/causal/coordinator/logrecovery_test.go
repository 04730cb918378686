package coordinator

import (
	"slices"
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// newLost returns a harness whose coordinator has lost its log, which was given up.
func newLost(t *testing.T, coordinators int, index uint64) *harness {
	h := newEmpty(t, coordinators, index)
	h.lose()
	return h
}

func (h *harness) lose() {
	h.t.Helper()
	if err := h.c.AcceptLoss(h.now); err == nil {
		h.t.Error("a log is given up that is not known to be lost")
	}
	h.tick(200)
	h.reply(shardsA, causal.PastReply{HadData: true})
	h.reply(shardsB, causal.PastReply{})
	if h.c.cfg.Self.Index > 0 {
		h.step(causal.TermReply{ID: h.cfg.Incarnation, Term: 1,
			New: true}.Message(topology.Node{Part: topology.Coordinator}, h.cfg.Self))
	}
	if is := h.c.Membership(); is != LogLost {
		h.t.Fatalf("it is %s", is)
	}
	if err := h.c.AcceptLoss(h.now); err != nil {
		h.t.Fatal(err)
	}
}

// page answers the question of a shard's page.
func (h *harness) page(from topology.Node, change func(*causal.Salvaged)) []causal.Message {
	s := causal.Salvaged{ID: h.cfg.Incarnation, Generation: h.c.recovery.generation, Parts: 1, Incarnation: 7}
	change(&s)
	return h.step(s.Message(from, h.cfg.Self))
}

func held(hlc causal.HLC, key string) causal.Moved {
	return causal.Moved{Key: key, Record: causal.Record{Version: causal.Version{HLC: hlc, Origin: 1},
		Value: causal.Value{Data: []byte(key)}}}
}

// begin lets the shards answer, with two writes and one that is complete, and time pass until the log begins.
func (h *harness) begin(sync bool) (first, second causal.HLC) {
	h.t.Helper()
	h.tick(600)
	first, second = causal.HLCAt(h.now.WallMs-500), causal.HLCAt(h.now.WallMs-400)
	h.page(shardsA, func(s *causal.Salvaged) {
		s.Next, s.Records, s.SV = "s", []causal.Moved{held(second, "y")}, first-1
	})
	h.page(shardsA, func(s *causal.Salvaged) {
		s.After, s.Parts, s.Records = "s", 2, []causal.Moved{held(first-1, "z")}
	})
	h.page(shardsA, func(s *causal.Salvaged) { s.After, s.Part, s.Parts = "s", 1, 2 })
	h.page(shardsB, func(s *causal.Salvaged) { s.Records = []causal.Moved{held(first, "x"), held(second, "y")} })
	if active, waiting, found := h.c.Salvaging(); !active || len(waiting) > 0 || found != 3 {
		h.t.Fatalf("salvaging %v, waiting for %v, %d found", active, waiting, found)
	}
	h.now.Mono += 11e9
	h.now.WallMs += 11_000
	h.c.Tick(h.now)
	if sync {
		h.sync()
	}
	return first, second
}

func TestALogThatIsGivenUpBeginsWithWhatShardsHold(t *testing.T) {
	h := newLost(t, 1, 0)
	generation := h.c.recovery.generation
	first, second := h.begin(true)
	if is := h.c.Membership(); is != Salvaging {
		t.Errorf("with incomplete writes it is %s", is)
	}
	if before, _ := h.put(causal.Put{ID: 1, Session: 1, Seq: 1, Key: "k"}); reply(t,
		before).Err != causal.ErrUnavailable {
		t.Errorf("a put is taken meanwhile: %v", before)
	}
	for _, m := range ofKind(h.step(causal.LaneHello{Incarnation: 8, Map: h.cfg.Topology.Map(0)}.Message(shardsA,
		h.cfg.Self)), causal.KindLaneSync) {
		if !m.LaneSync().Recovering {
			t.Errorf("a shard is told how far its lane was sent: %v", m)
		}
	}
	if sent := ofKind(h.tick(600), causal.KindPutAfter); len(sent) > 0 {
		t.Fatalf("sent before what may precede it is complete: %v", sent)
	}
	if waiting, left := h.c.Recovering(); left != 2 ||
		!slices.Equal(waiting, []topology.Node{{DC: 1, Part: topology.Coordinator}}) {
		t.Errorf("%d writes are left, waiting for %v", left, waiting)
	}
	h.step(
		causal.Vectors{Entries: []causal.VectorEntry{{Origin: 17, Last: 32, SV: second}}}.Message(topology.Node{DC: 1,
			Part: topology.Coordinator}, h.cfg.Self))
	var vs []causal.Version
	for _, m := range ofKind(h.tick(10), causal.KindPutAfter) {
		p := m.PutAfter()
		if p.Generation != generation {
			t.Errorf("sent with generation %d", p.Generation)
		}
		if m.To == shardsA {
			vs = append(vs, p.Record.Version)
		}
	}
	if len(vs) != 2 || vs[0].HLC != first || vs[1].HLC != second {
		t.Fatalf("sent %v", vs)
	}
	if mark := h.c.log.pending.mark(shardsB); mark.Incarnation != 7 || !mark.HasData {
		t.Errorf("what is known of a shard: %+v", mark)
	}
	h.ack(shardsA, vs...) // of an incarnation before the one that was salvaged: what it has may have been lost since
	h.ack(shardsB, vs...)
	h.tick(10)
	if is := h.c.Membership(); is != Salvaging {
		t.Errorf("with acknowledgements of earlier incarnations it is %s", is)
	}
	acknowledge := func() {
		for _, from := range []topology.Node{shardsA, shardsB} {
			h.step(causal.PutAck{Incarnation: 7, Versions: vs}.Message(from, h.cfg.Self))
		}
		h.tick(100)
	}
	acknowledge()
	lostUpTo := h.c.log.durable.LostUpTo
	if lostUpTo <= second || h.c.known.SV(1) != second+1 || h.c.known.Settled(1) < lostUpTo {
		t.Errorf("SV is %d, settled %d; what is lost ends at %d, and others have settled what is up to %d",
			h.c.known.SV(1), h.c.known.Settled(1), lostUpTo, second)
	}
	if is := h.c.Membership(); is != Serving {
		t.Errorf("it is %s", is)
	}
	_, after := h.put(causal.Put{ID: 2, Session: 1, Seq: 2, Key: "k"})
	v := reply(t, after).Version
	if v.HLC <= second+causal.HLCAt(10_000) {
		t.Errorf("a put after that: %+v", v)
	}
	for _, from := range []topology.Node{shardsA, shardsB} {
		h.step(causal.PutAck{Incarnation: 7, Versions: []causal.Version{v}}.Message(from, h.cfg.Self))
	}
	h.restart(h.now)
	for _, m := range ofKind(h.step(causal.LaneHello{Incarnation: 9, Map: h.cfg.Topology.Map(0)}.Message(shardsA,
		h.cfg.Self)), causal.KindLaneSync) {
		if !m.LaneSync().Recovering {
			t.Errorf("a shard is told how far its lane was sent while writes are incomplete: %+v", m.LaneSync())
		}
	}
	h.step(
		causal.Vectors{Entries: []causal.VectorEntry{{Origin: 17, Last: 32, SV: second, Settled: lostUpTo}}}.Message(
			topology.Node{DC: 1, Part: topology.Coordinator}, h.cfg.Self))
	h.tick(200)
	vs = append(vs, v)
	acknowledge()
	h.tick(200)
	if sv := h.c.known.SV(1); sv < v.HLC {
		t.Errorf("SV is %d after all is settled, and the put is %d", sv, v.HLC)
	}
	if _, after := h.put(causal.Put{ID: 3, Session: 2, Seq: 1, Resent: true, Key: "k"}); len(after) > 0 {
		t.Errorf("a put that the lost log may have held is accepted: %v", after)
	}
	h.restart(h.now)
	if is := h.c.Membership(); is != Serving && is != Salvaging || h.c.log.durable.Generation != generation {
		t.Errorf("after a restart it is %s, of generation %d", is, h.c.log.durable.Generation)
	}
}

func TestABeginningWithoutItsCheckpointIsWorthNothing(t *testing.T) {
	h := newLost(t, 1, 0)
	h.begin(false)
	records := h.c.Appends(nil)
	h.log, h.index = records[:1], 1 // the process ends when one record is durable
	h.restart(h.now)
	if is := h.c.Membership(); is != Joining || len(h.c.Unanswered()) == 0 {
		t.Fatalf("it is %s", is)
	}
	h.lose()
	h.tick(600)
	// A shard has been asked with this generation before, by the start that has ended.
	refused := h.c.recovery.generation
	h.page(shardsA, func(s *causal.Salvaged) { s.Refused = true })
	asked := ofKind(h.tick(600), causal.KindSalvage)
	if len(asked) != 2 || asked[0].Salvage().Generation != asked[1].Salvage().Generation ||
		asked[0].Salvage().Generation <= refused {
		t.Fatalf("asked %v", asked)
	}
	h.begin(true)
	h.restart(h.now)
	if writes, _ := h.c.Pending(); writes != 2 || h.c.log.durable.Generation != refused+1 {
		t.Errorf("%d writes, generation %d", writes, h.c.log.durable.Generation)
	}
}

func TestALeaderThatHasLostItsLogAsksForTheTermsOfTheOthers(t *testing.T) {
	other := topology.Node{Part: topology.Coordinator, Index: 1}
	h := newLost(t, 2, 0)
	if asked := ofKind(h.tick(600), causal.KindTermQuery); len(asked) != 1 || asked[0].To != other {
		t.Fatalf("asked %v", asked)
	}
	h.step(causal.TermAnswer{ID: h.cfg.Incarnation, Term: 3}.Message(other, h.cfg.Self))
	h.begin(true)
	if got := h.c.log.durable.Terms; got[1] != 3 || got[2] != hasLeftTerm {
		t.Errorf("the terms are %v", got)
	}
	if h.c.terms.isAway(1) {
		t.Error("it publishes for a coordinator that is in use")
	}
}

func TestACoordinatorTellsItsTermAndForgetsWhatItHasAskedTheLostLog(t *testing.T) {
	leader := topology.Node{Part: topology.Coordinator}
	h := newHarness(t, 2, 1)
	h.tick(200)
	asked := h.c.member.intent
	sent := ofKind(h.step(causal.TermQuery{ID: 5}.Message(leader, h.cfg.Self)), causal.KindTermAnswer)
	if len(sent) != 1 || sent[0].TermAnswer().ID != 5 || sent[0].TermAnswer().Term != uint64(h.c.log.durable.Term) {
		t.Fatalf("answered %v", sent)
	}
	h.step(causal.TermReply{ID: asked, Term: 1, Counted: true}.Message(leader, h.cfg.Self))
	h.sync()
	if h.c.Membership() == Serving {
		t.Error("it joins by what the lost log had answered")
	}
	if sent := h.step(causal.TermQuery{ID: 5}.Message(shardsA, h.cfg.Self)); len(sent) > 0 {
		t.Errorf("somebody else is answered: %v", sent)
	}
}

func TestALogThatWasGivenUpRetires(t *testing.T) {
	h := newHarness(t, 1, 0)
	h.tick(10)
	h.step(causal.PutAck{Incarnation: 1, GivenUpBelow: 1}.Message(shardsA, h.cfg.Self))
	h.step(causal.PutAck{Incarnation: 1, GivenUpBelow: 1}.Message(shardsB, h.cfg.Self))
	if is := h.c.Membership(); is != LogLost || h.c.InUse() != 0 || len(h.c.DataLost()) != 2 {
		t.Errorf("it is %s, in use %b", is, h.c.InUse())
	}
	if err := h.c.AcceptLoss(h.now); err == nil {
		t.Error("it begins another log beside the one that has taken over")
	}
	if sent := ofKind(h.tick(200), causal.KindVectors); len(sent) > 0 {
		for _, m := range sent {
			for _, e := range m.Vectors().Entries {
				if e.Origin == 1 && e.SV > causal.HLCAt(h.now.WallMs-150) {
					t.Errorf("it goes on to publish: %v", e)
				}
			}
		}
	}
}

// Between the two times that a shard has read a page, a record has moved from its second part to the first one.
func TestOnlyPartsOfOneEditionMakeAPage(t *testing.T) {
	h := newLost(t, 1, 0)
	h.tick(600)
	first := causal.HLCAt(h.now.WallMs - 500)
	part := func(edition, part uint64, records ...causal.Moved) {
		h.page(shardsA, func(s *causal.Salvaged) { s.Part, s.Parts, s.Edition, s.Records = part, 2, edition, records })
	}
	part(1, 0, held(first, "a"), held(first+1, "b")) // the other part, with c, is lost
	part(2, 1, held(first+3, "d"))
	if h.c.recovery.sources[shardsA].done {
		t.Error("a page counts as whole, and lacks c")
	}
	part(2, 0, held(first+1, "b"), held(first+2, "c"))
	if _, _, found := h.c.Salvaging(); !h.c.recovery.sources[shardsA].done || found != 4 {
		t.Errorf("done %v, %d found", h.c.recovery.sources[shardsA].done, found)
	}
}

// A shard that somebody has taken over can say anything.
func TestOneShardTakesNoLogOutOfUse(t *testing.T) {
	for name, told := range map[string][]causal.Message{
		"one shard": {causal.PutAck{Incarnation: 1, GivenUpBelow: 1}.Message(shardsA, topology.Node{}),
			causal.PutAck{Incarnation: 1, GivenUpBelow: 2}.Message(shardsA, topology.Node{})},
		"with absurd generations": {causal.PutAck{Incarnation: 1, GivenUpBelow: 1 << 62}.Message(shardsA,
			topology.Node{}), causal.PutAck{Incarnation: 1, GivenUpBelow: 1 << 62}.Message(shardsB, topology.Node{})},
		"with that of this log": {causal.PutAck{Incarnation: 1, GivenUpBelow: 0}.Message(shardsA, topology.Node{}),
			causal.PutAck{Incarnation: 1, GivenUpBelow: 0}.Message(shardsB, topology.Node{})},
		"somebody who has no shard": {causal.PutAck{Incarnation: 1, GivenUpBelow: 1}.Message(shardsA, topology.Node{}),
			causal.PutAck{Incarnation: 1, GivenUpBelow: 1}.Message(topology.Node{Part: topology.Middleman, Index: 70},
				topology.Node{})},
	} {
		h := newHarness(t, 1, 0)
		h.tick(10)
		for _, m := range told {
			h.step(m)
		}
		if is := h.c.Membership(); is != Serving || h.c.IsRetired() {
			t.Errorf("%s: it is %s", name, is)
		}
	}
}

func TestAnAbsurdGenerationOfAnEarlierAttemptIsNotTaken(t *testing.T) {
	h := newLost(t, 1, 0)
	before := h.c.recovery.generation
	h.tick(600)
	h.page(shardsA, func(s *causal.Salvaged) { s.Refused, s.Generation = true, 1<<62 })
	if h.c.recovery.generation != before {
		t.Errorf("it goes on with generation %d", h.c.recovery.generation)
	}
	h.page(shardsA, func(s *causal.Salvaged) { s.Refused, s.Generation = true, before+7 })
	if h.c.recovery.generation != before+8 {
		t.Errorf("after an attempt with %d it goes on with %d", before+7, h.c.recovery.generation)
	}
}

// The data center would wait for ever for a coordinator that is in use and does not exist.
func TestACoordinatorThatTheTopologyDoesNotHaveDoesNotComeIntoUse(t *testing.T) {
	h := newLost(t, 2, 0)
	h.tick(600)
	for i, term := range map[uint64]uint64{1: 3, 9: 5} {
		h.step(causal.TermAnswer{ID: h.cfg.Incarnation, Term: term,
			UpTo: 1}.Message(topology.Node{Part: topology.Coordinator, Index: i}, h.cfg.Self))
	}
	if _, asked := h.c.recovery.terms[9]; asked || h.c.recovery.terms[1] != 3 {
		t.Errorf("terms %v", h.c.recovery.terms)
	}
	leader := newHarness(t, 2, 0)
	for _, term := range []causal.Term{{ID: 1, Term: 1}, {ID: 1, Term: 1, Join: true}, {ID: 1, Term: 2, Join: true},
		{ID: 1, Term: 0, Join: true}} {
		m := term.Message(topology.Node{Part: topology.Coordinator, Index: 9}, leader.cfg.Self)
		if v, _ := causal.Validate(&m, leader.cfg.Topology); v == causal.Valid {
			leader.step(m)
			leader.sync()
		}
		if leader.c.InUse()&(1<<9) != 0 {
			t.Fatalf("it is in use after %+v", term)
		}
	}
}
