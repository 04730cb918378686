package coordinator

import (
	"maps"
	"slices"
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/operation"
	"github.com/causalstore/causalstore/sidecar/value"
)

// newRowsHarness returns a harness whose coordinator is a home that knows collections.
func newRowsHarness(t *testing.T, mutations ...causal.Mutation) *harness {
	h := newHomeHarness(t, mutations...)
	h.cfg.Types = value.Shipped()
	h.restart(h.now)
	h.c.log.pending.Format = value.NewestFormat
	h.haveHomes(1)
	return h
}

// fieldValue returns what a put of a field brings.
func fieldValue(field string) causal.Value {
	change := value.ChangeOf(causal.Record{})
	change.Add(value.Hash, field, "1")
	return change.Value()
}

func fieldsOf(r causal.Record) []string {
	hash := value.CollectionOf(r.Value)
	return slices.Collect(maps.Keys(maps.Collect(hash.All())))
}

// PROTOCOL HOV-1.
func TestTheHomeJoinsWhatItPublishesOfAValueThatMerges(t *testing.T) {
	for _, broken := range []bool{false, true} {
		h := newRowsHarness(t, mutationIf(broken, causal.HomeKeepsLastPart)...)
		h.write(causal.Put{Seq: 1, Key: "x", Value: fieldValue("a")})
		h.write(causal.Put{Seq: 2, Key: "x", Value: fieldValue("b")})
		if got := fieldsOf(h.top("x").Record); (len(got) == 2) == broken {
			t.Errorf("broken %v: the home has %v", broken, got)
		}
	}
}

// PROTOCOL HOV-4: what is shown is older than what was read, so the version that was read does not tell.
func TestAConditionIncludesOlderWritesThatWereShown(t *testing.T) {
	for _, broken := range []bool{false, true} {
		h := newRowsHarness(t, mutationIf(broken, causal.HomePartsUnmarked)...)
		h.write(causal.Put{Seq: 1, Key: "x", Value: fieldValue("a")})
		read := h.top("x")
		older := causal.Record{Version: causal.Version{HLC: read.Record.Version.HLC - 1, Origin: originB},
			Value: fieldValue("b")}
		put := causal.Put{Seq: 3, Key: "x", Value: fieldValue("c"), Conditional: true, If: read.Record.Version,
			From: read.From}
		if !h.c.home.isNewest(&put) {
			t.Fatal("it is refused before anything was shown")
		}
		h.show(causal.HomeRead{ID: 5, Key: "x", More: []causal.Moved{{Key: "x", Record: older}}})
		if got := h.c.home.isNewest(&put); got != broken {
			t.Errorf("broken %v: after an older write was shown the put is accepted: %v", broken, got)
		}
		again := h.top("x")
		if got := fieldsOf(again.Record); len(got) != 2 {
			t.Errorf("the home has %v", got)
		}
		put.If, put.From = again.Record.Version, again.From
		if !h.c.home.isNewest(&put) {
			t.Error("a put of a session that has read it is refused")
		}
	}
}

// PROTOCOL HOV-5.
func TestWhatIsShownOfAValueThatMergesWaitsForAWriteUnderWay(t *testing.T) {
	for _, broken := range []bool{false, true} {
		h := newRowsHarness(t, mutationIf(broken, causal.HomePartsUnderWay)...)
		v := h.write(causal.Put{Seq: 1, Key: "x", Value: fieldValue("a")})
		older := causal.Record{Version: causal.Version{HLC: v.HLC - 1, Origin: originB}, Value: fieldValue("b")}
		h.step(causal.Put{ID: 9, Seq: 2, Key: "x", Value: fieldValue("c")}.Message(app, h.cfg.Self))
		got := h.ask(causal.HomeRead{ID: 5, Key: "x", More: []causal.Moved{{Key: "x", Record: older}}})
		if (len(got) > 0) != broken {
			t.Errorf("broken %v: while a write is under way it is answered %+v", broken, got)
		}
		if broken {
			continue
		}
		h.sync()
		if got = homeReplies(h.c.Take(nil)); len(got) != 2 || len(fieldsOf(got[1].Record)) != 3 {
			t.Errorf("when the log holds the write it is answered %+v", got)
		}
	}
}

// PROTOCOL HOV-6.
func TestAPutOfAValueThatMergesFollowsTheOneBefore(t *testing.T) {
	h := newRowsHarness(t)
	foreign := causal.Dep{Version: fromElsewhere(causal.HLCAt(h.now.WallMs))}
	h.write(causal.Put{Seq: 1, Session: 1, Key: "x", Value: fieldValue("a"), Deps: []causal.Dep{foreign}})
	h.write(causal.Put{Seq: 1, Session: 2, Key: "x", Value: fieldValue("b")})
	if got := h.top("x").Deps; !slices.Contains(got, foreign) {
		t.Errorf("the value depends on %v", got)
	}
}

func TestWhatCannotBeJoinedIsNotTakenForShown(t *testing.T) {
	h := newRowsHarness(t)
	v := h.write(causal.Put{Seq: 1, Key: "x", Value: fieldValue("a")})
	damaged := fieldValue("b")
	damaged.Data = damaged.Data[:len(damaged.Data)-1]
	for _, shown := range []causal.Value{damaged, {Type: 9}} {
		part := causal.Record{Version: causal.Version{HLC: v.HLC - 1, Origin: originB}, Value: shown}
		got := h.ask(causal.HomeRead{ID: 5, Key: "x", More: []causal.Moved{{Key: "x", Record: part}}})
		if len(got) != 2 || got[0].Err != causal.ErrType {
			t.Errorf("of type %d: answered %+v", shown.Type, got)
		}
	}
	if got := fieldsOf(h.top("x").Record); len(got) != 1 {
		t.Errorf("the home has %v", got)
	}
}

// addOne is an operation that adds one, of a sidecar that reads strings to which numbers were added.
func addOne(id uint64, found *operation.Found) causal.Put {
	o := operation.Operation{Kind: operation.Add, Number: 1, Sums: true, Found: found}
	return causal.Put{ID: id, Session: id, Seq: 1, Unanswered: 1, Key: "n", Value: o.Value(false)}
}

// PROTOCOL HOV-9: a put of a value that was made elsewhere is part of what operations are executed on at once. If they
// were refused until it is published, their sessions would put the next one.
func TestAnOperationIsExecutedOnAPutThatIsUnderWay(t *testing.T) {
	h := newRowsHarness(t)
	before := h.executed(addOne(1, &operation.Found{Value: causal.Value{Tombstone: true}, From: h.c.home.from}))
	made := h.cfg.Types.Execute(&operation.Operation{Kind: operation.Add, Number: 1, Sums: true},
		h.top("n").Record, h.now.WallMs, 1)
	h.step(causal.Put{ID: 2, Session: 2, Seq: 1, Key: "n", Value: made.Next, Conditional: true, If: before.Version,
		From: h.top("n").From}.Message(app, h.cfg.Self))
	got := h.executed(addOne(3, nil))
	if got.Err != causal.OK || string(value.WrittenText(got.Value).Data) != "3" {
		t.Errorf("after 1 and a put of 2 it is answered %q, %s", value.WrittenText(got.Value).Data, got.Err)
	}
}

// PROTOCOL HOV-9: what was found of the own data center was accepted here, so what it depends on is known. Else each
// operation with what was found would bind its session to more than it has seen.
func TestWhatIsFoundOfTheOwnWritesBringsNoPast(t *testing.T) {
	h := newRowsHarness(t)
	first := h.executed(addOne(1, &operation.Found{Value: causal.Value{Tombstone: true}, From: h.c.home.from}))
	own := h.top("n").Record
	if got := h.executed(addOne(2, &operation.Found{Version: own.Version, Value: own.Value,
		From: own.Version.HLC})); got.Err != causal.OK || got.Past >= first.Version.HLC {
		t.Errorf("with what the home has accepted it depends on %d; %s", got.Past, got.Err)
	}
	foreign := causal.Version{HLC: first.Version.HLC + 1, Origin: originB}
	h.show(causal.HomeRead{ID: 9, Key: "other", Shown: foreign})
	other := h.cfg.Types.Execute(&operation.Operation{Kind: operation.Add, Number: 5, Sums: true},
		causal.Record{Value: causal.Value{Tombstone: true}}, h.now.WallMs, 2)
	both := h.cfg.Types.Join(own, causal.Record{Version: foreign, Value: other.Next})
	got := h.executed(addOne(3, &operation.Found{Version: both.Version, Value: both.Value, From: foreign.HLC}))
	if got.Err != causal.OK || got.Past != foreign.HLC || string(value.WrittenText(got.Value).Data) != "8" {
		t.Errorf("with what another data center has written it answers %q, and depends on %d; %s",
			value.WrittenText(got.Value).Data, got.Past, got.Err)
	}
}
