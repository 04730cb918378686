package session

import (
	"fmt"
	"testing"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// startGets starts pipelined gets, and returns their ids.
func (r *rig) startGets(keys ...string) (ids []uint64) {
	ops := make([]Op, len(keys))
	for i, k := range keys {
		r.lastOp++
		ops[i] = Op{Kind: OpGet, ID: r.lastOp, Session: 1, Key: k}
		ids = append(ids, r.lastOp)
	}
	r.s.DoGets(r.now, ops)
	return ids
}

// keysOf returns the keys that messages ask for.
func keysOf(gets []*causal.Message) string {
	var keys []string
	for _, m := range gets {
		keys = append(keys, m.Get().Key)
	}
	return fmt.Sprint(keys)
}

func stable(h causal.HLC) causal.GetReply {
	return causal.GetReply{Record: record(version(h)), Status: causal.Stable, Ring: near}
}

func TestPipelinedGetsAreSentAtOnceAndAnsweredInOrder(t *testing.T) {
	r := newRig(t)
	r.completeUpTo(100)
	ids := r.startGets("x", "y", "z")
	gets := r.sent(causal.KindGet)
	if keysOf(gets) != "[x y z]" {
		t.Fatalf("asked for %s", keysOf(gets))
	}
	r.replyGet(gets[2], stable(30))
	r.replyGet(gets[1], stable(20))
	r.mustBeUnfinished(ids[1])
	r.mustBeUnfinished(ids[2])
	r.replyGet(gets[0], stable(10))
	for i, id := range ids {
		if v := r.mustResult(id).Record.Version.HLC; v != causal.HLC(10*(i+1)) {
			t.Errorf("get %d returns version %d", i, v)
		}
	}
	if again := r.sent(causal.KindGet); len(again) > 0 {
		t.Errorf("asked again for %s", keysOf(again))
	}
}

func TestAPipelinedGetIsReadAgainIfAnEarlierAnswerIsNewerThanItsRequest(t *testing.T) {
	for _, status := range []causal.Status{causal.Stable, causal.InFlight} {
		showsFault(t, causal.PipelineUnchecked, func(r *rig) string {
			r.completeUpTo(100)
			ids := r.startGets("x", "y")
			gets := r.sent(causal.KindGet)
			r.replyGet(gets[1], stable(50)) // before 200 was written
			r.replyGet(gets[0], causal.GetReply{Record: record(version(201)), Status: status, Ring: near})
			for _, m := range r.sent(causal.KindGet) {
				r.replyGet(m, causal.GetReply{Record: record(version(200)), Status: status, Ring: near})
			}
			if got := r.mustResult(ids[1]).Record.Version.HLC; got != 200 {
				return fmt.Sprintf("the second get returns version %d, which the first has overtaken", got)
			}
			return ""
		})
	}
}

// While each answer overtakes what is in flight, few requests are in vain.
func TestAPipelineWhoseAnswersAreNewSendsFewRequestsInVain(t *testing.T) {
	r := newRig(t)
	keys := make([]string, 64)
	for i := range keys {
		keys[i] = fmt.Sprint("k", i)
	}
	ids := r.startGets(keys...)
	requests := 0
	for now := causal.HLC(1000); ; {
		gets := r.sent(causal.KindGet)
		if len(gets) == 0 {
			break
		}
		requests += len(gets)
		for _, m := range gets {
			now++
			r.replyGet(m, stable(now))
		}
	}
	for _, id := range ids {
		r.mustResult(id)
	}
	if requests > 3*len(keys) {
		t.Errorf("%d requests for %d gets", requests, len(keys))
	}
}

func TestAPipelinedGetOfAnOwnWriteIsDecidedWhenItsTurnComes(t *testing.T) {
	r := newRig(t)
	r.write("mine", "1", ownVersion(50))
	ids := r.startGets("x", "mine")
	x := r.request(causal.KindGet)
	r.mustBeUnfinished(ids[1])
	r.replyGet(x, stable(90)) // it may depend on a later write of the key
	r.replyGet(r.request(causal.KindGet), stable(80))
	if got := r.mustResult(ids[1]).Record.Version; got != version(80) {
		t.Errorf("version %s, though the session has seen 90", got)
	}
	ids = r.startGets("mine", "y")
	r.sent(causal.KindGet)
	r.mustBeUnfinished(ids[0])
}

// A get that waits for its turn is not sent elsewhere, and does not run out of time.
func TestAPipelinedGetThatHasItsReplyWaitsForThoseBefore(t *testing.T) {
	r := newRig(t, func(c *Config) { c.ReadTimeout = time.Second })
	r.completeUpTo(100)
	ids := r.startGets("x", "y")
	gets := r.sent(causal.KindGet)
	r.replyGet(gets[1], stable(20))
	r.s.LinkDown(r.now, gets[1].To)
	for range 20 {
		r.tick(100 * time.Millisecond)
		if asked := keysOf(r.sent(causal.KindGet)); asked != "[]" && asked != "[x]" {
			t.Fatalf("asked for %s", asked)
		}
	}
	if res := r.mustResult(ids[0]); res.Err != causal.ErrUnavailable {
		t.Errorf("the first get ends with %s", res.Err)
	}
	if res := r.mustResult(ids[1]); res.Err != causal.OK || res.Record.Version.HLC != 20 {
		t.Errorf("the second get ends with %+v", res)
	}
}

func TestClosingASessionFailsItsPipelinedGets(t *testing.T) {
	r := newRig(t)
	r.write("mine", "1", ownVersion(50))
	ids := r.startGets("x", "mine", "y")
	r.s.Close(1)
	for _, id := range ids {
		if res := r.mustResult(id); res.Err != causal.ErrUnavailable {
			t.Errorf("a get ends with %s", res.Err)
		}
	}
	r.tick(time.Second)
}

// At a cut, a version that is complete and above the cut is not in what the reads behind it find.
func TestPipelinedGetsAtACutAreReadAgainForWhatIsAboveIt(t *testing.T) {
	r := newRig(t, snapshotReads)
	r.completeUpTo(causal.HLCAt(10_000))
	r.tick(time.Millisecond)
	ids := r.startGets("x", "y")
	gets := r.sent(causal.KindGet)
	if len(gets) != 2 || !gets[0].Get().Snapshot {
		t.Fatalf("sent %+v", gets)
	}
	above := gets[0].Get().Cut + 1
	r.replyGet(gets[1], causal.GetReply{Record: record(version(5)), Status: causal.Stable, Ring: topology.NoRing,
		Hit: true})
	r.replyGet(gets[0], stable(above))
	if asked := keysOf(r.sent(causal.KindGet)); asked != "[y]" {
		t.Errorf("asked again for %s, want y", asked)
	}
	r.mustBeUnfinished(ids[1])
}

// A get that does not fit takes those behind it along: read again later, it would come after them.
func TestTheValuesOfPipelinedGetsAreBounded(t *testing.T) {
	r := newRig(t, func(c *Config) { c.MaxAheadBytes = 3 * record(version(10)).Value.Size() })
	r.completeUpTo(100)
	ids := r.startGets("x", "y", "z", "w")
	gets := r.sent(causal.KindGet)
	for _, i := range []int{3, 0, 1, 2} {
		r.replyGet(gets[i], stable(10))
	}
	held := 0
	for i, id := range ids {
		res := r.mustResult(id)
		if want := map[bool]causal.ErrCode{true: causal.OK, false: causal.ErrBusy}[i < 2]; res.Err != want {
			t.Errorf("get %d: %v, want %v", i, res.Err, want)
		}
		held += res.Ahead
	}
	if held != r.s.aheadBytes || held == 0 {
		t.Errorf("the results have %d bytes, and %d count", held, r.s.aheadBytes)
	}
	for _, id := range ids {
		r.release(id)
	}
	ids = r.startGets("x", "y")
	gets = r.sent(causal.KindGet)
	for i, id := range ids {
		r.replyGet(gets[i], stable(10))
		if res := r.mustResult(id); res.Err != causal.OK {
			t.Errorf("after the others were taken over: %v", res.Err)
		}
	}
}

func TestAPipelinedGetThatIsReadAgainCountsOnce(t *testing.T) {
	r := newRig(t, func(c *Config) { c.MaxAheadBytes = 1 << 20 })
	r.completeUpTo(100)
	ids := r.startGets("x", "y")
	gets := r.sent(causal.KindGet)
	r.replyGet(gets[1], stable(20))
	r.replyGet(gets[0], stable(200)) // newer than what was complete when y was asked for
	again := r.request(causal.KindGet)
	r.replyGet(again, stable(20))
	if held := r.mustResult(ids[0]).Ahead + r.mustResult(ids[1]).Ahead; held != r.s.aheadBytes {
		t.Errorf("the results have %d bytes, and %d count", held, r.s.aheadBytes)
	}
}

func TestPipelinedGetsThatAreInFlightAreBounded(t *testing.T) {
	r := newRig(t, func(c *Config) { c.MaxInFlight = 3 })
	r.completeUpTo(100)
	keys := []string{"a", "b", "c", "d", "e"}
	ids := append(r.startGets(keys...), r.startGets(keys...)...)
	inFlight := r.sent(causal.KindGet)
	if keysOf(inFlight) != "[a b c a]" {
		t.Fatalf("asked for %s, want three and the first one of the second pipeline", keysOf(inFlight))
	}
	for len(inFlight) > 0 {
		r.replyGet(inFlight[0], stable(10))
		if inFlight = append(inFlight[1:], r.sent(causal.KindGet)...); len(inFlight) > 4 {
			t.Fatalf("%d are in flight", len(inFlight))
		}
	}
	for _, id := range ids {
		r.mustResult(id)
	}
}
