package session

import (
	"fmt"
	"testing"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// replyHomeOfAll answers a request to the home for several keys, each with what it has of it; from is the least of all.
func (r *rig) replyHomeOfAll(request *causal.Message, from causal.HLC, tops map[string]causal.HomeReply) {
	read := request.HomeRead()
	keys := []causal.Moved{{Key: read.Key, Record: causal.Record{Version: read.Shown}}}
	for i, k := range append(keys, read.More...) {
		reply := tops[k.Key]
		reply.ID, reply.Key, reply.From = read.ID+uint64(i), k.Key, max(reply.From, from, k.Record.Version.HLC)
		r.step(reply.Message(request.To, request.From))
	}
}

// askedForAll returns the requests that were sent to the home, and to others, since the last call.
func (r *rig) askedForAll() (home, elsewhere []*causal.Message) {
	for _, m := range r.s.Take(nil) {
		switch m.Kind {
		case causal.KindHomeRead:
			home = append(home, &m)
		case causal.KindGet:
			elsewhere = append(elsewhere, &m)
		}
	}
	return home, elsewhere
}

// Two reads of a key for one MGET may find different versions, in any order.
func TestAKeyThatPipelinedGetsNameTwiceIsReadOnce(t *testing.T) {
	r := newLocalRig(t)
	ids := r.startGets("x", "y", "x")
	home, _ := r.askedForAll()
	if len(home) != 1 || len(home[0].HomeRead().More) != 1 {
		t.Fatalf("the home is asked %v", home)
	}
	r.replyHomeOfAll(home[0], at(900), nil)
	home, elsewhere := r.askedForAll()
	if keysOf(elsewhere) != "[x y]" || len(home) != 0 {
		t.Fatalf("asked elsewhere for %s", keysOf(elsewhere))
	}
	for i, m := range elsewhere {
		r.replyGet(m, stable(at(850+int64(i))))
	}
	for i, want := range []int64{850, 851, 850} {
		if res := r.mustResult(ids[i]); res.Record.Version.HLC != at(want) {
			t.Errorf("get %d: %+v", i, res)
		}
	}
}

func TestPipelinedGetsAskTheHomeInOneRequest(t *testing.T) {
	r := newLocalRig(t)
	ids := r.startGets("x", "y", "z")
	home, _ := r.askedForAll()
	if len(home) != 1 || len(home[0].HomeRead().More) != 2 {
		t.Fatalf("the home is asked %v", home)
	}
	r.replyHomeOfAll(home[0], at(900), map[string]causal.HomeReply{"y": {Record: record(homeVersion(1500))}})
	home, elsewhere := r.askedForAll()
	if keysOf(elsewhere) != "[x y z]" || len(home) != 0 {
		t.Fatalf("asked elsewhere for %s", keysOf(elsewhere))
	}
	for i, m := range elsewhere { // complete ones of another data center
		r.replyGet(m, stable(at(950+int64(i))))
	}
	for _, id := range ids {
		r.mustBeUnfinished(id)
	}
	home, _ = r.askedForAll()
	if len(home) != 1 {
		t.Fatalf("the home is told in %d messages", len(home))
	}
	tell := home[0].HomeRead()
	if tell.Key != "x" || tell.Shown.HLC != at(950) || len(tell.More) != 2 || tell.More[0].Record.Version.HLC != 0 ||
		tell.More[1].Key != "z" || tell.More[1].Record.Version.HLC != at(952) { // it is asked for y again
		t.Errorf("the home is told %+v", tell)
	}
	r.replyHomeOfAll(home[0], at(900), map[string]causal.HomeReply{"y": {Record: record(homeVersion(1500))}})
	for i, want := range []causal.Version{version(at(950)), homeVersion(1500), version(at(952))} {
		if res := r.mustResult(ids[i]); res.Record.Version != want || res.Outcome.Version != want ||
			(res.Outcome.Source == SourceHome) != (want.Origin == 1) {
			t.Errorf("get %d returns %+v", i, res)
		}
	}
}

// One of before reads the versions of none but the first key.
func TestAHomeThatDoesNotReadWhatIsShownOfFurtherKeysIsToldOfEach(t *testing.T) {
	r := newLocalRig(t)
	ids := r.startGets("x", "y")
	home, _ := r.askedForAll()
	r.replyHomeOfAll(home[0], at(900), nil)
	_, elsewhere := r.askedForAll()
	for _, m := range elsewhere {
		r.replyGet(m, stable(at(950)))
	}
	home, _ = r.askedForAll()
	tell := home[0].HomeRead()
	r.step(causal.HomeReply{ID: tell.ID, Key: "x", From: at(950)}.Message(home[0].To, home[0].From))
	r.step(causal.HomeReply{ID: tell.ID + 1, Key: "y", From: at(900)}.Message(home[0].To, home[0].From))
	home, _ = r.askedForAll()
	if len(home) != 1 || home[0].HomeRead().Key != "y" || home[0].HomeRead().Shown.HLC != at(950) {
		t.Fatalf("the home is told %v", home)
	}
	r.mustBeUnfinished(ids[1])
	r.replyHome(home[0], causal.HomeReply{From: at(950)})
	r.mustResult(ids[0])
	r.mustResult(ids[1])
}

func TestOfPipelinedGetsAtTheHomeOnlyTheOneThatCannotBeReadFails(t *testing.T) {
	r := newLocalRig(t)
	keys := make([]string, 20)
	for i := range keys {
		keys[i] = fmt.Sprint("k", i)
	}
	ids := r.startGets(keys...)
	unknown := causal.HomeReply{Record: record(homeVersion(1500))}
	unknown.Record.Value.Type = 200
	for range 100 {
		home, elsewhere := r.askedForAll()
		for _, m := range home {
			r.replyHomeOfAll(m, at(990), map[string]causal.HomeReply{"k7": unknown})
		}
		for _, m := range elsewhere {
			r.replyGet(m, stable(at(500)))
		}
	}
	for i, id := range ids {
		if res := r.mustResult(id); (res.Err == causal.ErrType) != (i == 7) || i != 7 && res.Err != causal.OK {
			t.Errorf("get %d ends with %s", i, res.Err)
		}
	}
}

func TestPipelinedGetsFailTogetherWhileTheHomeIsAway(t *testing.T) {
	r := newLocalRig(t)
	ids := r.startGets("x", "y", "z")
	for range int(r.s.cfg.ReadTimeout/(100*time.Millisecond)) + 2 {
		r.tick(100 * time.Millisecond)
	}
	for _, id := range ids {
		if res := r.mustResult(id); res.Err != causal.ErrUnavailable {
			t.Errorf("a get ends with %s", res.Err)
		}
	}
	ids = r.startGets("x", "y")
	r.s.Close(1)
	r.tick(time.Millisecond)
	for _, id := range ids {
		if res := r.mustResult(id); res.Err != causal.ErrUnavailable {
			t.Errorf("of a closed session a get ends with %s", res.Err)
		}
	}
}

func TestTheValuesOfPipelinedGetsAtTheHomeAreBounded(t *testing.T) {
	r := newRig(t, localReads, func(c *Config) { c.MaxAheadBytes = 2 << 10 })
	r.completeUpTo(at(1000))
	r.sent(causal.KindNone)
	ids := r.startGets("a", "b", "c", "d")
	large := record(homeVersion(500))
	large.Value.Data = make([]byte, 900)
	for range 20 {
		home, elsewhere := r.askedForAll()
		for _, m := range home {
			r.replyHomeOfAll(m, at(990), nil)
		}
		for _, m := range elsewhere {
			r.replyGet(m, causal.GetReply{Record: large, Status: causal.Stable, Ring: near})
		}
	}
	for i, id := range ids {
		if res := r.mustResult(id); (res.Err == causal.OK) != (i < 2) || i >= 2 && res.Err != causal.ErrBusy {
			t.Errorf("get %d ends with %s", i, res.Err)
		}
	}
	for _, id := range ids {
		r.release(id)
	}
	if r.s.aheadBytes != 0 {
		t.Errorf("%d bytes are left", r.s.aheadBytes)
	}
}

// A put of another level may go to another data center, while the home is away.
func TestAnMGetAtLevelLocalReturnsAnOwnWriteThatTheHomeDoesNotKnow(t *testing.T) {
	r := newRig(t, snapshotReads)
	r.completeUpTo(at(1000))
	own := causal.Version{HLC: at(1500), Origin: version(1).Origin}
	r.write("x", "mine", own)
	r.sent(causal.KindNone)
	id := r.start(Op{Kind: OpMGet, Keys: []string{"x", "y"}, Level: causal.Local})
	home, _ := r.askedForAll()
	r.replyHomeOfAll(home[0], at(950), map[string]causal.HomeReply{"x": {Record: record(homeVersion(1400))}})
	_, elsewhere := r.askedForAll()
	for _, m := range elsewhere {
		r.replyGet(m, causal.GetReply{Record: record(homeVersion(900)), Status: causal.Stable, Ring: topology.NoRing})
	}
	res := r.mustResult(id)
	if res.Err != causal.OK || res.Records[0].Version != own || string(res.Records[0].Value.Data) != "mine" {
		t.Errorf("the answer is %+v", res)
	}
}
