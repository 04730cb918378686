package coordinator

import (
	"slices"
	"strings"
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// elsewhere are n writes of the coordinator of the other data center that are not complete, up to what the clock of h
// says.
func (h *harness) elsewhere(n int) []causal.Dep {
	deps, newest := make([]causal.Dep, n), causal.HLCAt(h.now.WallMs)
	for i := range deps {
		deps[i] = causal.Dep{Version: causal.Version{HLC: newest - causal.HLC(i), Origin: originB},
			Slot: topology.Slots - 1}
	}
	return deps
}

const originB topology.Origin = topology.MaxCoordinators + 1

// completeElsewhere says that everything that the other coordinator has written up to now is complete.
func (h *harness) completeElsewhere() {
	h.step(causal.Vectors{Entries: []causal.VectorEntry{{Origin: originB, SV: causal.HLCAt(h.now.WallMs)}}}.Message(
		topology.Node{DC: 1, Part: topology.Coordinator}, h.cfg.Self))
}

func TestAPutBeyondTheBoundsIsRefusedAndNothingIsLogged(t *testing.T) {
	atBounds := func() causal.Put {
		return causal.Put{Key: strings.Repeat("k", causal.MaxKeyBytes),
			Value: causal.Value{Data: make([]byte, causal.MaxValueBytes)}}
	}
	for name, tt := range map[string]struct {
		change func(*causal.Put)
		want   causal.ErrCode
	}{
		"at all bounds": {func(*causal.Put) {}, causal.OK},
		"a longer key":  {func(p *causal.Put) { p.Key += "k" }, causal.ErrTooLarge},
		"a longer value": {func(p *causal.Put) {
			p.Value.Data = make([]byte, causal.MaxValueBytes+1)
		}, causal.ErrTooLarge},
		"a type that is not known": {func(p *causal.Put) { p.Value.Type = 1 }, causal.ErrType},
		"more dependencies": {func(p *causal.Put) {
			p.Deps = append(p.Deps, p.Deps[0])
		}, causal.ErrTooLarge},
		"a dependency of no origin": {func(p *causal.Put) {
			p.Deps[0].Version.Origin = 0
		}, causal.ErrUnavailable},
		"a dependency of a later origin": {func(p *causal.Put) {
			p.Deps[0].Version.Origin = 2*topology.MaxCoordinators + 1
		}, causal.ErrUnavailable},
		"a dependency of the last origin": {func(p *causal.Put) {
			p.Deps[0].Version.Origin = 2 * topology.MaxCoordinators
		}, causal.OK},
		"the value of a delete is dropped": {func(p *causal.Put) {
			p.Value = causal.Value{Data: []byte("v"), Tombstone: true}
		}, causal.OK},
	} {
		h := newHarness(t, 1, 0)
		h.tick(10)
		p := atBounds()
		p.ID, p.Session, p.Seq, p.Deps = 1, 1, 1, h.elsewhere(causal.MaxPutDeps)
		tt.change(&p)
		logged := len(h.log)
		before, after := h.put(p)
		if r := reply(t, append(before, after...)); r.Err != tt.want {
			t.Errorf("%s: answered %s, want %s", name, r.Err, tt.want)
		}
		if grew := len(h.log) > logged; grew != (tt.want == causal.OK) {
			t.Errorf("%s: answered %s, and something was logged: %v", name, tt.want, grew)
		}
		for _, m := range ofKind(after, causal.KindPutAfter) {
			if r := m.PutAfter().Record.Value; r.Tombstone && r.Data != nil {
				t.Errorf("%s: it is sent with %d bytes", name, len(r.Data))
			}
		}
	}
}

// The greatest put leaves three of twenty MiB of its put-after free, whatever it inherits.
func TestAPutAfterOfTheGreatestPutFits(t *testing.T) {
	h := newHarness(t, 1, 0)
	h.tick(10)
	value := make([]byte, causal.MaxValueBytes)
	for seq := uint64(1); seq <= 3; seq++ {
		_, after := h.put(causal.Put{ID: seq, Session: 1, Seq: seq, Key: strings.Repeat("k", causal.MaxKeyBytes),
			Value: causal.Value{Data: value},
			Deps:  h.elsewhere(causal.MaxPutDeps - int(seq))})
		sent := ofKind(after, causal.KindPutAfter)
		if seq == 1 && len(sent) != 2 {
			t.Fatalf("%d put-afters are sent to two rings", len(sent))
		}
		for i, w := range h.c.writes {
			for _, l := range h.c.laneOrder {
				m := h.c.putAfter(l, i)
				if room := causal.MaxMessageBytes - m.MaxEncodedSize(); room < 3<<20 || !m.FitsMessage() {
					t.Errorf("put %d with %d dependencies leaves %d bytes", i, len(w.deps), room)
				}
			}
		}
	}
}

// A log of a version without bounds: a put of just under 20 MiB with the dependencies that it named, and those that it
// inherited.
func TestAPutOfAnEarlierVersionThatItCouldNotSendIsSent(t *testing.T) {
	h := newHarness(t, 1, 0)
	h.tick(10)
	deps := h.elsewhere(120 + causal.MaxInheritedDeps)
	const estimate = 40 + 256 // what that version counted beside key, value, and 16 bytes for each of the 120
	h.keep(deps, 20<<20-estimate-16*120)
	h.restart(h.now)
	sent := ofKind(append(h.c.Take(nil), h.tick(10)...), causal.KindPutAfter)
	if len(sent) == 0 || sent[0].PutAfter().Deps.Len() != len(deps) {
		t.Fatalf("%d put-afters are sent", len(sent))
	}
	for _, m := range sent {
		if !m.FitsMessage() {
			t.Errorf("a message of %d bytes is sent", m.MaxEncodedSize())
		}
	}
}

// keep puts a write with dependencies of the other origin into the log, as an earlier version would have.
func (h *harness) keep(deps []causal.Dep, size int) {
	r := LogRecord{
		Write: LoggedWrite{Key: "old",
			Record: causal.Record{Version: causal.Version{HLC: causal.HLCAt(h.now.WallMs) + 1, Origin: h.c.origin},
				Value: causal.Value{Data: make([]byte, size-len("old"))}}, Sidecar: app, Session: 1, Seq: 1,
			Deps: deps}}
	r, err := ParseLogRecord(r.AppendTo(nil))
	if err != nil {
		h.t.Fatal(err)
	}
	h.log = append(h.log, r)
	h.index++
}

func TestAPutOfAnEarlierVersionWithTooManyDependenciesWaitsUntilTheyAreComplete(t *testing.T) {
	h := newHarness(t, 1, 0)
	h.tick(10)
	deps := h.elsewhere(causal.MaxDeps + 1)
	h.keep(deps, 10)
	h.restart(h.now)
	h.tick(10)
	_, after := h.put(causal.Put{ID: 1, Session: 2, Seq: 1, Key: "new"})
	if reply(t, after).Err != causal.OK || len(ofKind(after, causal.KindPutAfter)) > 0 {
		t.Errorf("what is behind the put is refused, or overtakes it: %+v", after)
	}
	if sent := ofKind(h.tick(10), causal.KindPutAfter); len(sent) > 0 {
		t.Errorf("%d puts are sent", len(sent))
	}
	h.completeElsewhere()
	sent := ofKind(h.tick(10), causal.KindPutAfter)
	for _, m := range sent { // it counts for all that it named, so the next one waits
		sent = append(sent, ofKind(h.ack(m.To, m.PutAfter().Record.Version), causal.KindPutAfter)...)
	}
	var keys []string
	for _, m := range sent {
		keys = append(keys, m.PutAfter().Key)
	}
	if want := []string{"old", "old", "new", "new"}; !slices.Equal(keys, want) {
		t.Errorf("sent %v, want %v", keys, want)
	}
}

// A replay to a shard that has lost its memory waits in the same way, in the order of the lane.
func TestAReplayGoesOnBehindAPutWithTooManyDependencies(t *testing.T) {
	h := newHarness(t, 1, 0)
	h.tick(10)
	h.keep(h.elsewhere(causal.MaxDeps+1), 10)
	h.restart(h.now)
	h.completeElsewhere()
	h.tick(10)
	h.c.lanes[shardsA].flow.limit = 8 << 20
	h.put(causal.Put{ID: 1, Session: 2, Seq: 1, Key: "new"})
	h.ack(shardsA)
	replayed := ofKind(h.step(causal.LaneHello{Incarnation: 2, Map: h.cfg.Topology.Map(0)}.Message(shardsA,
		h.cfg.Self)), causal.KindPutAfter)
	if len(replayed) != 1 || replayed[0].PutAfter().Key != "old" {
		t.Fatalf("%d puts are sent again, want the old one first: it counts for all that it named", len(replayed))
	}
	more := h.step(
		causal.PutAck{Incarnation: 2, Versions: []causal.Version{replayed[0].PutAfter().Record.Version}}.Message(
			shardsA, h.cfg.Self))
	if again := ofKind(more, causal.KindPutAfter); len(again) != 1 || again[0].PutAfter().Key != "new" {
		t.Errorf("%d puts are sent again once it has arrived, want the other one", len(again))
	}
}

func TestADependencyOfAnOriginThatTheTopologyDoesNotHaveIsDroppedFromAnOldLog(t *testing.T) {
	h := newHarness(t, 1, 0)
	h.tick(10)
	deps := h.elsewhere(2)
	deps[0].Version.Origin = 4000
	h.keep(deps, 10)
	h.restart(h.now)
	sent := ofKind(append(h.c.Take(nil), h.tick(10)...), causal.KindPutAfter)
	if len(sent) != 2 || !slices.Equal(sent[0].PutAfter().Deps.Writes(), deps[1:]) {
		t.Errorf("%d put-afters are sent, which name %v", len(sent), sent[0].PutAfter().Deps)
	}
}

// Each predecessor has as many dependencies as a put may name, none of them twice: without a bound, naming the
// predecessors takes seconds.
func TestManyPredecessorsWithManyDependenciesCostLittle(t *testing.T) {
	h := newHarness(t, 1, 0)
	h.tick(10)
	var named []causal.Dep
	const each = 500
	all := h.elsewhere(40 * each)
	for i := range uint64(40) {
		_, after := h.put(causal.Put{ID: i, Session: i, Seq: 1, Key: "k", Deps: all[i*each:][:each]})
		named = append(named, causal.Dep{Version: reply(t, after).Version, Slot: topology.SlotOf("k")})
	}
	h.put(causal.Put{ID: 99, Session: 99, Seq: 1, Key: "k", Deps: named})
	last := h.c.writes[len(h.c.writes)-1]
	if len(last.deps) != len(named) || last.laneDeps != nil {
		t.Errorf("it names %d dependencies by id and %d lanes, want its %d predecessors", len(last.deps),
			len(last.laneDeps), len(named))
	}
	if cap(last.deps) >= each {
		t.Errorf("there was room for %d dependencies: it has collected those of all predecessors", cap(last.deps))
	}
}

// Every checkpoint has all marks. One that does not fit the log would be the last.
func TestACoordinatorThatTellsOfShardsWithoutEndDoesNotFillTheCheckpointsOfItsLeader(t *testing.T) {
	h := newHarness(t, 2, 0)
	h.tick(10)
	other := topology.Node{Part: topology.Coordinator, Index: 1}
	known := causal.ShardMark{DC: 1, Index: 0, Incarnation: 7}
	for round := range uint64(2) {
		told := []causal.ShardMark{{DC: 2, Incarnation: 1}}
		for i := range uint64(4500) {
			told = append(told, causal.ShardMark{DC: topology.DC(i % 2), Index: 1 + round*4500 + i, Incarnation: 1})
		}
		h.step(causal.Term{ID: round, Term: 2, Shards: append(told, known)}.Message(other, h.cfg.Self))
		h.sync()
	}
	shards := h.c.log.durable.Shards
	size := len((&LogRecord{Checkpoint: &Checkpoint{State: h.c.log.durable}}).AppendTo(nil))
	if len(shards) > maxMarks || size > 1<<20 {
		t.Errorf("a checkpoint has %d marks, and %d bytes", len(shards), size)
	}
	if got := h.c.log.durable.mark(topology.Node{DC: 1}); got.Incarnation != 7 {
		t.Errorf("of a shard that there is: %+v", got)
	}
	if slices.ContainsFunc(shards, func(m causal.ShardMark) bool { return m.DC > 1 }) {
		t.Error("a shard of no data center is noted")
	}
}
