package coordinator

import (
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// What is on its way to the log may be lost by a crash: nothing is said or done by it before it is durable.

// The disk is slow. A restart would begin at the ceiling that the log holds, and must issue nothing that is published
// as complete.
func TestNoSVIsPublishedAboveTheCeilingThatTheLogHolds(t *testing.T) {
	h := newHarness(t, 1, 0)
	h.tick(10)
	durable := h.c.log.durable.Ceiling
	for range 100 {
		h.now.Mono += 100e6
		h.now.WallMs += 100
		h.c.Tick(h.now)
		if sv := h.c.Known().SV(h.c.origin); sv > durable {
			t.Fatalf("SV is %d, and the log holds the ceiling %d", sv, durable)
		}
	}
	if h.c.log.pending.Ceiling <= durable {
		t.Fatal("the ceiling was not raised meanwhile")
	}
	h.sync()
	for range 10 {
		h.tick(100)
	}
	if sv := h.c.Known().SV(h.c.origin); sv <= durable {
		t.Errorf("SV stays at %d", sv)
	}
}

func TestACoordinatorTellsNoTermThatItsLogDoesNotHold(t *testing.T) {
	leader := topology.Node{Part: topology.Coordinator}
	h := newHarness(t, 2, 1)
	h.tick(200)
	before := h.c.log.durable.Term
	h.step(causal.TermReply{ID: h.c.member.intent, Term: 1, Counted: true}.Message(leader, h.cfg.Self))
	if h.c.log.pending.Term == before {
		t.Fatal("it is in the term that it was in")
	}
	ask := func() []causal.Message {
		return ofKind(h.step(causal.TermQuery{ID: 5}.Message(leader, h.cfg.Self)), causal.KindTermAnswer)
	}
	if sent := ask(); len(sent) > 0 {
		t.Errorf("it tells the term %d, and its log holds %d", sent[0].TermAnswer().Term, before)
	}
	h.sync()
	if sent := ask(); len(sent) != 1 || sent[0].TermAnswer().Term != uint64(h.c.log.durable.Term) {
		t.Errorf("answered %v", sent)
	}
}

// The session has sent the second put before the first one was answered, so the second one names nothing.
func TestThePastOfAPutHasThePutOfItsSessionThatIsNotAnsweredYet(t *testing.T) {
	h := newHarness(t, 1, 0)
	h.tick(10)
	for seq := range uint64(2) {
		h.step(causal.Put{ID: seq + 1, Session: 1, Seq: seq + 1, Key: string(rune('x' + seq))}.Message(app, h.cfg.Self))
	}
	h.sync()
	var puts []causal.PutAfter
	for _, m := range ofKind(h.c.Take(nil), causal.KindPutAfter) {
		if m.To == shardsA {
			puts = append(puts, m.PutAfter())
		}
	}
	if len(puts) != 2 || puts[1].Past < puts[0].Record.Version.HLC {
		t.Errorf("sent %+v", puts)
	}
}

// The beginning of a log ended after its first write, before its checkpoint, and so did nothing. A later one has found
// something else: the first write may be that of another value by now, or complete.
func TestASalvagedWriteOfAnInterruptedBeginningIsNotReplayed(t *testing.T) {
	h := newHarness(t, 1, 0)
	salvaged := func(hlc causal.HLC, generation uint64) LogRecord {
		m := held(hlc, "k")
		return LogRecord{Write: LoggedWrite{Key: m.Key, Record: m.Record, Salvaged: generation}}
	}
	state := State{Generation: 6, Term: 1}
	h.log = []LogRecord{salvaged(100, 5), salvaged(200, 6), {Checkpoint: &Checkpoint{State: state}}}
	h.index = 3
	h.restart(h.now)
	if len(h.c.writes) != 1 || h.c.writes[0].rec.Version.HLC != 200 {
		t.Errorf("%d writes: %v", len(h.c.writes), h.c.versions(0))
	}
}

// A shard that has lost its data counts a lane as received only up to what it is told. The newest write may be
// complete already.
func TestAShardThatHasLostItsDataIsToldOfCompleteWritesBehindIncompleteOnes(t *testing.T) {
	h := newHarness(t, 1, 0)
	h.tick(10)
	var versions []causal.Version
	for i := range uint64(2) {
		_, after := h.put(causal.Put{ID: i + 1, Session: i + 1, Seq: 1, Key: "k"})
		versions = append(versions, reply(t, after).Version)
	}
	h.ack(shardsA, versions...)
	h.ack(shardsB, versions[1])
	hello := causal.LaneHello{Incarnation: 8, Lost: true, Map: h.cfg.Topology.Map(0)}.Message(shardsA, h.cfg.Self)
	h.step(hello)
	h.sync() // it is durable that the acknowledgements count no more
	sync := ofKind(h.step(hello), causal.KindLaneSync)
	if len(sync) != 1 || sync[0].LaneSync().Newest != versions[1].HLC {
		t.Fatalf("answered %+v; the newest write is %v", sync, versions[1])
	}
}

// What the data that are lost have acknowledged counts no more: the shard gets it again, and nothing that it lacks is
// dropped, or vouched for.
func TestAShardThatHasLostItsDataGetsAgainWhatItHadAcknowledged(t *testing.T) {
	h := newHarness(t, 1, 0)
	h.tick(10)
	_, after := h.put(causal.Put{ID: 1, Session: 1, Seq: 1, Key: "k"})
	v := reply(t, after).Version
	h.ack(shardsA, v)
	hello := causal.LaneHello{Incarnation: 8, Lost: true, Map: h.cfg.Topology.Map(0)}.Message(shardsA, h.cfg.Self)
	h.step(hello)
	h.sync()
	puts := ofKind(h.step(hello), causal.KindPutAfter)
	if len(puts) != 1 || puts[0].To != shardsA || puts[0].PutAfter().Record.Version != v {
		t.Fatalf("sent again: %v", puts)
	}
	if p := puts[0].PutAfter(); p.Previous >= v.HLC {
		t.Errorf("the put %s follows %d in its lane", v, p.Previous)
	}
	h.ack(shardsB, v)
	if got := h.c.IncompleteWrites("k"); len(got) != 1 || len(h.c.writes) != 1 {
		t.Errorf("incomplete are %v, and %d writes are kept, want the one that a ring lacks", got, len(h.c.writes))
	}
	if e := h.c.ownEntry(v.HLC + 5); e.SV >= v.HLC {
		t.Errorf("SV is %d, and a ring lacks %s", e.SV, v)
	}
	h.step(causal.PutAck{Incarnation: 8, Versions: []causal.Version{v}}.Message(shardsA, h.cfg.Self))
	if got := h.c.IncompleteWrites("k"); len(got) != 0 || len(h.c.writes) != 0 {
		t.Errorf("%v are incomplete, and all rings have acknowledged them", got)
	}
}

func TestAStableMarkIsSentOnce(t *testing.T) {
	h := newHarness(t, 1, 0)
	h.tick(10)
	_, after := h.put(causal.Put{ID: 1, Session: 1, Seq: 1, Key: "k"})
	v := reply(t, after).Version
	h.ack(shardsA, v)
	sent := ofKind(h.ack(shardsB, v), causal.KindStable)
	for range 10 {
		sent = append(sent, ofKind(h.tick(100), causal.KindStable)...)
	}
	if len(sent) != 2 {
		t.Errorf("%d messages with stable marks, want one to each shard", len(sent))
	}
}
