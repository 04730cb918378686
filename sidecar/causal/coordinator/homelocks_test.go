package coordinator

import (
	"testing"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// lockRig is a homeLocks with a host that refuses nothing.
type lockRig struct {
	*homeLocks
	now causal.Now
	put []causal.Dep // what decided parts were to be put behind
}

func (r *lockRig) refusesLock(causal.Now, topology.Node, *causal.HomeCommit) causal.ErrCode {
	return causal.OK
}

func (r *lockRig) putDecided(_ causal.Now, _ *homeLock, behind causal.Dep) {
	r.put = append(r.put, behind)
}

func (r *lockRig) refusePut(to topology.Node, id uint64, err causal.ErrCode) {
	r.Send(causal.PutReply{ID: id, Err: err}.Message(r.cfg.Self, to))
}

func newLockRig(t *testing.T) *lockRig {
	t.Helper()
	h := newHomeHarness(t)
	r := &lockRig{now: h.now}
	locks := newHomeLocks(&h.c.shared, r, &h.c.log, &h.c.home)
	r.homeLocks = &locks
	h.c.Take(nil)
	return r
}

var lockingSidecar = topology.Node{Part: topology.Sidecar}

// part returns the part of a commit that puts x, of which another home is the decider.
func part(number uint64, step causal.CommitStep) causal.HomeCommit {
	return causal.HomeCommit{ID: number, Session: 1, Step: step, Unanswered: 1,
		Lock: causal.LockToken{Number: number, Decider: 1},
		Keys: []causal.CommitKey{{Key: "x", Record: causal.Record{Value: causal.Value{Data: []byte("1")}}}}}
}

func (r *lockRig) sent(kind causal.Kind) (ms []causal.Message) { return ofKind(r.Take(nil), kind) }

func TestARequestOfACommitThatHasEndedKeepsNothing(t *testing.T) {
	r := newLockRig(t)
	r.step(r.now, lockingSidecar, part(1, causal.StepUnlock))
	r.step(r.now, lockingSidecar, part(1, causal.StepLock))
	replies := r.sent(causal.KindPutReply)
	if len(replies) != 1 || replies[0].PutReply().Err != causal.ErrUnavailable || len(r.order) != 0 {
		t.Errorf("%v, %d locks", replies, len(r.order))
	}
}

func TestACommitThatHasTakenLongHasEndedThoughThereIsNoRoomToNoteFurtherSessions(t *testing.T) {
	r := newLockRig(t)
	r.step(r.now, lockingSidecar, part(1, causal.StepLock))
	l := r.order[0]
	r.now.Mono += int64(fenceKept + time.Second)
	r.tick(r.now)
	for i := uint64(2); len(r.fences) < maxFences; i++ {
		r.fenceOf(r.now, causal.LockName{Sidecar: lockingSidecar, Session: i})
	}
	r.published(r.now, l, &write{rec: causal.Record{Version: causal.Version{HLC: 5, Origin: 1}}})
	r.now.Mono += int64(time.Second)
	r.tick(r.now)
	delete(r.fences, sessionKey{lockingSidecar, 2}) // there is room again
	r.sent(causal.KindPutReply)
	r.step(r.now, lockingSidecar, part(1, causal.StepLock))
	if got := r.sent(causal.KindPutReply); len(got) != 1 || got[0].PutReply().Err != causal.ErrUnavailable ||
		len(r.order) != 0 {
		t.Errorf("a late copy of a request: %v, %d locks", got, len(r.order))
	}
}

func TestAHomeAsksTheDeciderAboutKeysThatItHasKeptForLong(t *testing.T) {
	r := newLockRig(t)
	r.step(r.now, lockingSidecar, part(1, causal.StepLock))
	r.log.durableIndex = r.order[0].index
	r.tick(r.now)
	if got := r.sent(causal.KindPutReply); len(got) != 1 || got[0].PutReply().Err != causal.OK {
		t.Fatalf("not granted: %v", got)
	}
	r.now.Mono += int64(lockPatience + time.Millisecond)
	r.tick(r.now)
	asked := r.sent(causal.KindHomeVerdict)
	if len(asked) != 1 || asked[0].To.Index != 1 {
		t.Fatalf("asked %v", asked)
	}
	v := asked[0].HomeVerdict()
	name := v.Name(r.cfg.Self.DC)
	r.takeVerdict(r.now, asked[0].To, causal.VerdictOn(name, causal.VerdictAborted, causal.Dep{}))
	if len(r.order) != 0 || r.home.keys["x"].isKept() {
		t.Error("x is still kept")
	}
}

func TestADecisionIsKnownUntilItIsConfirmed(t *testing.T) {
	r := newLockRig(t)
	name := causal.LockName{Sidecar: lockingSidecar, Session: 1, LockToken: causal.LockToken{Number: 1}}
	other := topology.Node{Part: topology.Coordinator, Index: 1}
	last := causal.Dep{Version: causal.Version{HLC: 5, Origin: 1}}
	r.decide(r.now, LoggedDecision{Name: name, Last: last, Others: []causal.CommitHome{{Index: 1}}}, 0)
	r.restoreDecisions(r.now, r.loggedDecisions())
	r.takeVerdict(r.now, other, causal.VerdictOn(name, causal.VerdictAsked, causal.Dep{}))
	if got := r.sent(causal.KindHomeVerdict); len(got) != 1 ||
		got[0].HomeVerdict().Verdict != causal.VerdictCommitted || got[0].HomeVerdict().Last != last {
		t.Fatalf("answered %v", got)
	}
	r.takeVerdict(r.now, other, causal.VerdictOn(name, causal.VerdictDone, causal.Dep{}))
	if len(r.loggedDecisions()) != 0 {
		t.Error("a confirmed decision is kept")
	}
}

func TestRecordsOfLocksAndDecisionsSurviveTheLog(t *testing.T) {
	p := part(3, causal.StepLock)
	name := p.NameOf(lockingSidecar)
	for _, r := range []LogRecord{
		{Lock: &LoggedLock{Name: name, Part: &p}},
		{Lock: &LoggedLock{Name: name, Others: []causal.CommitHome{{Index: 2}}},
			Commit: []LoggedWrite{{Key: "x", Record: causal.Record{Version: causal.Version{HLC: 7, Origin: 1}}}}},
		{Checkpoint: &Checkpoint{State: State{Decisions: []LoggedDecision{{Name: name,
			Last: causal.Dep{Version: causal.Version{HLC: 7, Origin: 1}}, Others: []causal.CommitHome{{Index: 2}}}}}}},
	} {
		b := r.AppendTo(nil)
		again, err := ParseLogRecord(b)
		if err != nil || string(again.AppendTo(nil)) != string(b) {
			t.Errorf("%v: %x, then %x", err, b, again.AppendTo(nil))
		}
	}
}

func TestNothingIsLeftOfAKeyThatWasOnlyKeptBeforeARestart(t *testing.T) {
	h := newHomeHarness(t)
	p := part(3, causal.StepLock)
	p.Keys = append(p.Keys, causal.CommitKey{Key: "y", Conditional: true, ReadOnly: true})
	lock := LoggedLock{Name: p.NameOf(lockingSidecar), Part: &p}
	h.c.locks.restore(h.now, &lock, 1)
	if h.c.home.keys["y"] == nil {
		t.Fatal("y is not kept")
	}
	h.c.restorePart(h.now, &LoggedLock{Name: lock.Name}, []LoggedWrite{{Key: "x"}}, 2)
	if h.c.home.keys["y"] != nil {
		t.Error("the home still has y, of which it knows nothing")
	}
}
