package session

import (
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/operation"
	"github.com/causalstore/causalstore/topology"
)

// PROTOCOL HOO-5: a get for an operation asks no home, and includes what was complete when it was asked.
func TestWhatIsFoundForAnOperationIncludesWhatWasComplete(t *testing.T) {
	r := newShippingRig(t)
	id := r.start(Op{Kind: OpGet, Key: "x", Elsewhere: true})
	if n := len(r.sent(causal.KindHomeRead)); n > 0 {
		t.Fatalf("%d requests are sent to the home", n)
	}
	id2 := r.start(Op{Kind: OpGet, Key: "y", Elsewhere: true})
	asked := r.request(causal.KindGet)
	v := causal.Version{HLC: at(900), Origin: 2}
	r.replyGet(asked, causal.GetReply{Record: record(v), Status: causal.Stable})
	if got := r.mustResult(id2); got.Record.Version != v || got.From != at(1000) {
		t.Errorf("it ends with %+v", got)
	}
	r.mustBeUnfinished(id)
	r.startPut("z", "1")
	if p := r.request(causal.KindPut).Put(); p.Foreign != 0 || p.Floor >= v.HLC {
		t.Errorf("the next put follows %d, and %d of other data centers", p.Floor, p.Foreign)
	}
}

// But the home knows what it has accepted: the operation is sent without.
func TestWhatIsInFlightIsNotFoundForAnOperation(t *testing.T) {
	for _, origin := range []topology.Origin{1, 2} {
		r := newShippingRig(t)
		id := r.start(Op{Kind: OpGet, Key: "x", Elsewhere: true})
		r.replyGet(r.request(causal.KindGet), causal.GetReply{
			Record: record(causal.Version{HLC: at(1500), Origin: origin}), Status: causal.InFlight})
		if got := r.mustResult(id); got.Err != causal.ErrConflict {
			t.Errorf("it ends with %+v", got)
		}
		if bound, _ := r.bound(); bound {
			t.Error("it binds the session")
		}
		if isOfHome := origin == 1; r.isShipped("x") != isOfHome {
			t.Errorf("in flight from %d: an operation of the key is sent: %v", origin, !isOfHome)
		}
	}
}

func TestAnOperationNeedsWhatIsFoundIfItsKeyWasNotWrittenAMomentAgo(t *testing.T) {
	r := newShippingRig(t)
	needs := func() bool { return r.s.NeedsFound(r.now, 1, "x") }
	if !needs() {
		t.Error("of a key that was not written")
	}
	r.write("x", "1", causal.Version{HLC: at(1100), Origin: 1})
	if needs() {
		t.Error("of a key that was written a moment ago")
	}
	r.tick(knownFor)
	if !needs() {
		t.Error("of a key that was written a while ago")
	}
	r.write("x", "2", causal.Version{HLC: at(1600), Origin: 1})
	for passed := int64(0); passed < int64(comparedFor); passed += int64(knownFor) / 2 {
		if needs() {
			t.Error("of a key that is counted up all the time")
		}
		if !r.isShipped("x") {
			t.Fatal("it is not sent")
		}
		r.tick(knownFor / 2)
	}
	if !needs() {
		t.Error("of a key that was only counted up for long")
	}
}

// One that the home has refused is sent again with what is found, and only then not for a moment.
func TestAnOperationThatIsRefusedIsSentWithWhatIsFound(t *testing.T) {
	r := newShippingRig(t)
	r.write("x", "1", causal.Version{HLC: at(1100), Origin: 1})
	o := operation.Operation{Kind: operation.Add, Number: 1}
	for _, found := range []*operation.Found{nil, {Version: causal.Version{HLC: at(900), Origin: 2}}} {
		o.Found = found
		id := r.start(Op{Kind: OpPut, Key: "x", Value: o.Value(false)})
		r.replyPut(r.request(causal.KindPut), causal.Version{}, causal.ErrConflict)
		r.mustResult(id)
		if needs := r.s.NeedsFound(r.now, 1, "x"); needs != (found == nil) {
			t.Errorf("refused with %+v: it needs what is found: %v", found, needs)
		}
	}
}

// An operation that has written nothing is answered by what was found, also if that is that there is no value.
func TestAnOperationIsAnsweredByAMissingValueThatWasFound(t *testing.T) {
	r := newShippingRig(t)
	o := operation.Operation{Kind: operation.Persist, Found: &operation.Found{Value: causal.Value{Tombstone: true}}}
	id := r.start(Op{Kind: OpPut, Key: "x", Value: o.Value(false)})
	m := r.request(causal.KindPut)
	r.step(causal.HomeReply{ID: m.Put().ID, Key: "x", Executes: true, Complete: true,
		Record: causal.Record{Value: causal.Value{Tombstone: true}}}.Message(m.To, m.From))
	if got := r.mustResult(id); got.Err != causal.OK || !got.Unwritten || !got.Record.Value.Tombstone {
		t.Errorf("it ends with %+v", got)
	}
}

// The home has everything of a value that merges up to where what was found goes. A session that has seen more since
// has to look again.
func TestAnOperationNeedsWhatIsFoundIfItsSessionHasSeenMoreThanTheHomeHas(t *testing.T) {
	r := newShippingRig(t)
	needs := func() bool { return r.s.NeedsFound(r.now, 1, "x") }
	o := operation.Operation{Kind: operation.Add, Number: 1, Found: &operation.Found{From: at(900)}}
	id := r.start(Op{Kind: OpPut, Key: "x", Value: o.Value(false), From: at(900)})
	m := r.request(causal.KindPut)
	r.step(causal.PutReply{ID: m.Put().ID, Version: causal.Version{HLC: at(1100), Origin: 1}, Past: at(900),
		Value: causal.Value{Type: causal.Collection}}.Message(m.To, m.From))
	r.mustResult(id)
	if needs() {
		t.Error("of a key that the home has whole")
	}
	r.s.sessions[1].past.raise(at(901))
	if !needs() {
		t.Error("of a key of which the session may have seen more")
	}
	r.write("x", "1", causal.Version{HLC: at(1200), Origin: 1})
	if needs() {
		t.Error("of a key that was overwritten")
	}
}
