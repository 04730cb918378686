package session

import (
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/operation"
)

// startAdd asks for a key to be counted up.
func (r *rig) startAdd(key string, follows bool) uint64 {
	o := operation.Operation{Kind: operation.Add, Number: 1}
	return r.start(Op{Kind: OpPut, Key: key, Value: o.Value(follows)})
}

// newShippingRig returns a rig whose home knows operations.
func newShippingRig(t *testing.T) *rig {
	r := newLocalRig(t)
	r.s.noteHome(r.s.homeOf(0), causal.HomeReply{Executes: true})
	return r
}

func (r *rig) isShipped(key string) bool {
	r.t.Helper()
	id := r.startAdd(key, false)
	if puts := r.sent(causal.KindPut); len(puts) == 1 {
		r.replyPut(puts[0], causal.Version{HLC: at(100), Origin: 1}, causal.OK)
		r.mustResult(id)
		return true
	}
	if got := r.mustResult(id); got.Err != causal.ErrConflict {
		r.t.Errorf("an operation that is not sent fails with %s", got.Err)
	}
	return false
}

func TestAnOperationIsNotSentToAHomeThatIsNotKnownToExecuteIt(t *testing.T) {
	r := newLocalRig(t)
	home := r.s.homeOf(0)
	if r.isShipped("x") {
		t.Error("it is sent before the home was heard")
	}
	r.s.noteHome(home, causal.HomeReply{})
	if r.isShipped("x") {
		t.Error("it is sent to a home of an older version")
	}
	r.s.noteHome(home, causal.HomeReply{Executes: true})
	if !r.isShipped("x") {
		t.Error("it is not sent to a home that executes it")
	}
	r.s.LinkUp(r.now, home, r.s.coordinators.serving[home])
	if r.isShipped("x") {
		t.Error("it is sent to a home that may be of another version since")
	}
}

func TestAfterARefusalNoOperationOfTheKeyIsSentForAMoment(t *testing.T) {
	r := newShippingRig(t)
	o := operation.Operation{Kind: operation.Add, Number: 1, Found: &operation.Found{}}
	id := r.start(Op{Kind: OpPut, Key: "x", Value: o.Value(false)})
	r.replyPut(r.request(causal.KindPut), causal.Version{}, causal.ErrConflict)
	if got := r.mustResult(id); got.Err != causal.ErrConflict {
		t.Fatalf("refused it ends with %s", got.Err)
	}
	if r.isShipped("x") {
		t.Error("it is sent at once after a refusal")
	}
	if !r.isShipped("y") {
		t.Error("an operation of another key is not sent")
	}
	r.tick(unshippedFor)
	if !r.isShipped("x") {
		t.Error("it is not sent later")
	}
}

// PROTOCOL HOO-3: what follows an operation that was refused is not executed, also when it has waited for its turn.
func TestAnOperationThatFollowsARefusedOneIsNotSent(t *testing.T) {
	r := newShippingRig(t)
	first := r.startAdd("x", false)
	r.replyPut(r.request(causal.KindPut), causal.Version{}, causal.ErrConflict)
	r.mustResult(first)
	second := r.startAdd("y", true)
	if got := r.mustResult(second); got.Err != causal.ErrConflict || len(r.sent(causal.KindPut)) > 0 {
		t.Errorf("after one that was refused it ends with %s", got.Err)
	}
	r.startAdd("y", false)
	r.replyPut(r.request(causal.KindPut), causal.Version{HLC: at(100), Origin: 1}, causal.OK)
	r.startAdd("z", true)
	if p := r.request(causal.KindPut).Put(); operation.Follows(p.Value) {
		t.Error("the home is to check what the sidecar knows")
	}
}

// What an operation was executed on is read: what that depends on counts as seen.
func TestTheAnswerToAnOperationIsAReadOfWhatItWasExecutedOn(t *testing.T) {
	r := newShippingRig(t)
	id := r.startAdd("x", false)
	m := r.request(causal.KindPut)
	v := causal.Version{HLC: at(1200), Origin: 1}
	r.step(causal.PutReply{ID: m.Put().ID, Session: 1, Version: v, Value: causal.Value{Data: []byte("6")},
		Past: at(1100)}.Message(m.To, m.From))
	if got := r.mustResult(id); string(got.Record.Value.Data) != "6" || got.Record.Version != v {
		t.Errorf("it ends with %+v", got)
	}
	r.startPut("y", "1")
	if p := r.request(causal.KindPut).Put(); p.Foreign != at(1100) || len(p.Deps) != 1 || p.Deps[0].Version != v {
		t.Errorf("the next put follows %d of other data centers, and %v", p.Foreign, p.Deps)
	}
}

func TestAnOperationThatHasWrittenNothingIsAnsweredByTheHome(t *testing.T) {
	r := newShippingRig(t)
	id := r.startAdd("x", false)
	m := r.request(causal.KindPut)
	v := causal.Version{HLC: at(500), Origin: 1}
	r.step(causal.HomeReply{ID: m.Put().ID, Key: "x", Record: record(v), Executes: true}.Message(m.To, m.From))
	if got := r.mustResult(id); got.Err != causal.OK || !got.Unwritten || got.Record.Version != v {
		t.Errorf("it ends with %+v", got)
	}
	id = r.startAdd("x", false)
	m = r.request(causal.KindPut)
	r.step(causal.HomeReply{ID: m.Put().ID, Key: "x", Executes: true}.Message(m.To, m.From))
	if got := r.mustResult(id); got.Err != causal.ErrConflict {
		t.Errorf("of a home that has nothing it ends with %+v", got)
	}
}
