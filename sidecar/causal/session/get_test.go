package session

import (
	"fmt"
	"testing"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

var cacheNode = topology.Node{Part: topology.Cache}

func TestAGetGoesToTheCacheOrToTheNearestAllowedRing(t *testing.T) {
	for _, tt := range []struct {
		name      string
		configure func(*Config)
		before    func(r *rig)
		to        topology.Node
		source    Source
	}{
		{"unbound", func(*Config) {}, func(*rig) {}, cacheNode, SourceLocal},
		{"without a cache", noCache, func(*rig) {}, topology.Node{DC: 0, Part: topology.Middleman}, SourceLocal},
		{"bound", func(*Config) {}, func(r *rig) {
			r.receivedUpTo(10, middle)
			r.read("y", version(10), causal.InFlight, far)
		}, topology.Node{DC: 1, Part: topology.Middleman}, SourceRemote},
		{"bound to the own ring by configuration", func(c *Config) {
			c.Binding, c.UseCache = causal.Static, false
		}, func(r *rig) {
			r.step(latencies(500, 1, 1).Message(r.topo.Leader(0), r.s.cfg.Self))
		}, topology.Node{DC: 0, Part: topology.Middleman}, SourceLocal},
		{"with another ring nearer", noCache, func(r *rig) {
			r.step(latencies(500, 1, 400).Message(r.topo.Leader(0), r.s.cfg.Self))
		}, topology.Node{DC: 1, Part: topology.Middleman}, SourceRemote},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, tt.configure)
			tt.before(r)
			id := r.startGet("x")
			m := r.request(causal.KindGet)
			if m.To != tt.to {
				t.Fatalf("%s was asked, want %s", m.To, tt.to)
			}
			r.replyGet(m, causal.GetReply{Record: record(version(5)), Status: causal.Stable,
				Ring: topology.RingID(tt.to.DC)})
			if res := r.mustResult(id); res.Outcome.Source != tt.source || res.Record.Version != version(5) {
				t.Errorf("source %s, version %s; want %s, %s", res.Outcome.Source, res.Record.Version, tt.source,
					version(5))
			}
		})
	}
}

func TestAnOwnIncompleteWriteIsReadFromTheSession(t *testing.T) {
	r := newRig(t)
	r.write("x", "mine", ownVersion(10))
	id := r.startGet("x")
	if res := r.mustResult(id); string(res.Record.Value.Data) != "mine" || res.Outcome.Source != SourceOwn {
		t.Errorf("read %+v", res)
	}
	r.complete(ownVersion(10))
	if r.startGet("x"); r.request(causal.KindGet).To != cacheNode {
		t.Error("a complete write was not read through the cache")
	}
}

func TestAnOwnWriteIsCheckedAgainstNewerOnesThatTheSessionMayHaveSeen(t *testing.T) {
	showsFault(t, causal.OwnUnchecked, func(r *rig) string {
		r.write("x", "mine", ownVersion(10))
		r.read("y", version(20), causal.Stable, near) // may depend on a newer write of x
		id := r.startGet("x")
		if _, ok := r.result(id); !ok {
			r.replyGet(r.request(causal.KindGet), causal.GetReply{Record: record(version(15)), Status: causal.Stable,
				Ring: near})
		}
		if got := r.mustResult(id).Record.Version; got != version(15) {
			return fmt.Sprintf("%s was returned, though %s is newer and the session may have seen what follows it", got,
				version(15))
		}
		return ""
	})
}

func TestTheOwnWriteIsReturnedIfItIsTheGreater(t *testing.T) {
	r := newRig(t)
	r.write("x", "mine", ownVersion(10))
	r.read("y", version(20), causal.Stable, near)
	id := r.startGet("x")
	r.replyGet(r.request(causal.KindGet), causal.GetReply{Record: record(version(5)), Status: causal.Stable,
		Ring: near})
	if res := r.mustResult(id); res.Record.Version != ownVersion(10) || res.Outcome.Source != SourceOwn {
		t.Errorf("read %s from %s", res.Record.Version, res.Outcome.Source)
	}
}

func TestAnOwnWriteThatADroppedTombstoneOvertookIsNotServed(t *testing.T) {
	r := newRig(t)
	r.write("x", "mine", ownVersion(10))
	r.read("y", causal.Missing(20).Version, causal.Stable, near)
	id := r.startGet("x")
	r.replyGet(r.request(causal.KindGet), causal.GetReply{Record: causal.Missing(20), Status: causal.Stable,
		Ring: near})
	if res := r.mustResult(id); !res.Record.Value.Tombstone {
		t.Errorf("read %+v, which was deleted", res.Record)
	}
}

func TestALateReplyIsNotTakenForALaterReadOfTheKey(t *testing.T) {
	showsFault(t, causal.LateReply, func(r *rig) string {
		r.startGet("x")
		first := r.request(causal.KindGet)
		r.tick(time.Second)
		r.replyGet(r.request(causal.KindGet), causal.GetReply{Record: record(version(20)), Status: causal.Stable,
			Ring: near})
		r.replyGet(first, causal.GetReply{Record: record(version(10)), Status: causal.Stable, Ring: near})
		if res, ok := r.result(r.startGet("x")); ok {
			return fmt.Sprintf("a get was answered with %s, which an earlier get had asked for", res.Record.Version)
		}
		return ""
	})
}

func TestADuplicateReplyChangesNothing(t *testing.T) {
	r := newRig(t)
	id := r.startGet("x")
	m := r.request(causal.KindGet)
	r.replyGet(m, causal.GetReply{Record: record(version(10)), Status: causal.Stable, Ring: near})
	r.replyGet(m, causal.GetReply{Record: record(version(20)), Ring: far})
	if res := r.mustResult(id); res.Record.Version != version(10) {
		t.Errorf("read %s", res.Record.Version)
	}
	if bound, _ := r.bound(); bound {
		t.Error("the duplicate has bound the session")
	}
}

func TestAGetThatIsNotAnsweredIsSentAnotherWay(t *testing.T) {
	r := newRig(t)
	id := r.startGet("x")
	var asked []topology.Node
	for range 4 {
		m := r.request(causal.KindGet)
		asked = append(asked, m.To)
		r.tick(time.Second)
	}
	want := []topology.Node{cacheNode, r.shard(near), r.shard(middle), r.shard(far)}
	if fmt.Sprint(asked) != fmt.Sprint(want) {
		t.Errorf("asked %v, want %v", asked, want)
	}
	r.tick(time.Second)
	if res := r.mustResult(id); res.Err != causal.ErrUnavailable {
		t.Errorf("after the read timeout: %s", res.Err)
	}
}

func TestAReplyToAnOperationThatTimedOutDoesNotAnswerTheNextOne(t *testing.T) {
	r := newRig(t)
	r.start(Op{Kind: OpGet, Key: "x", Timeout: time.Millisecond})
	late := r.request(causal.KindGet)
	r.tick(time.Second)
	next := r.startGet("y")
	r.replyGet(late, causal.GetReply{Record: record(version(10)), Status: causal.Stable, Ring: near})
	r.mustBeUnfinished(next)
}

func TestAGetThatFailsIsSentAnotherWayAfterAMoment(t *testing.T) {
	r := newRig(t, noCache)
	id := r.startGet("x")
	r.replyGet(r.request(causal.KindGet), causal.GetReply{Err: causal.ErrStorage})
	r.tick(unusableDelay)
	m := r.request(causal.KindGet)
	if m.To != r.shard(middle) {
		t.Errorf("%s was asked next", m.To)
	}
	r.replyGet(m, causal.GetReply{Record: record(version(1)), Status: causal.Stable, Ring: middle})
	r.mustResult(id)
	if r.startGet("x"); r.request(causal.KindGet).To != r.shard(near) {
		t.Error("the ring that replied with an error counts as one that did not reply")
	}
}

func TestAnEvictedOwnWriteIsReadFromTheLog(t *testing.T) {
	for _, tt := range []struct {
		name string
		err  causal.ErrCode
	}{{"that holds it", causal.OK}, {"or from a ring, if the log no longer holds it", causal.ErrNotFound}} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, func(c *Config) { c.MaxOwnBytes = 2 * (ownOverhead + 100) })
			r.write("x", "first", ownVersion(10))
			r.write("y", string(make([]byte, 200)), ownVersion(11))
			id := r.startGet("x")
			r.request(causal.KindLogGet) // is lost
			r.tick(time.Second)
			m := r.request(causal.KindLogGet)
			if m.To != (topology.Node{Part: topology.Coordinator, Index: m.To.Index}) ||
				m.LogGet().Version != ownVersion(10) {
				t.Fatalf("%s was asked for %s", m.To, m.LogGet().Version)
			}
			reply := causal.LogReply{ID: m.LogGet().ID,
				Record: causal.Record{Version: ownVersion(10), Value: causal.Value{Data: []byte("first")}}}
			if tt.err != causal.OK {
				reply = causal.LogReply{ID: m.LogGet().ID, Err: tt.err}
			}
			r.step(reply.Message(m.To, m.From))
			if tt.err != causal.OK {
				rec := causal.Record{Version: ownVersion(10), Value: causal.Value{Data: []byte("first")}}
				r.replyGet(r.request(causal.KindGet), causal.GetReply{Record: rec, Status: causal.Stable, Ring: near})
			}
			if res := r.mustResult(id); string(res.Record.Value.Data) != "first" {
				t.Errorf("read %+v", res)
			}
		})
	}
}

func TestAGetIsRetriedAtOnceWhenTheLinkGoesDown(t *testing.T) {
	r := newRig(t)
	r.startGet("x")
	r.s.LinkDown(r.now, r.request(causal.KindGet).To)
	r.tick(0)
	if m := r.request(causal.KindGet); m.To != r.shard(near) {
		t.Errorf("%s was asked next", m.To)
	}
}

func TestABoundGetAsksTheSameRingAgainIfThereIsNoOther(t *testing.T) {
	r := newRig(t)
	r.read("x", version(10), causal.InFlight, middle)
	r.startGet("y")
	for range 3 {
		if m := r.request(causal.KindGet); m.To != r.shard(middle) {
			t.Errorf("%s was asked, but the session is bound to ring middle", m.To)
		}
		r.tick(time.Second)
	}
}

// A cache that is dead costs one time-out, however long it is dead.
func TestAfterOneTimeOutReadsGoRoundACacheUntilItAnswersAPing(t *testing.T) {
	r := newRig(t)
	first, second := r.startGet("x"), r.startGet("y")
	if asked := r.sent(causal.KindGet); len(asked) != 2 || asked[0].To != cacheNode || asked[1].To != cacheNode {
		t.Fatalf("asked %+v", asked)
	}
	var ping *causal.Message
	r.now.Mono += int64(600 * time.Millisecond) // the time-out of both is over; then one by one
	r.s.Tick(r.now)
	for _, m := range r.s.Take(nil) {
		switch m.Kind {
		case causal.KindGet:
			r.replyGet(&m, causal.GetReply{Record: record(version(1)), Status: causal.Stable, Ring: near})
		case causal.KindPing:
			ping = &m
		}
	}
	r.mustResult(first)
	r.mustResult(second)
	for range 100 {
		id := r.startGet("x")
		for _, m := range r.s.Take(nil) {
			switch m.Kind {
			case causal.KindGet:
				if m.To != r.shard(near) {
					t.Fatalf("%s was asked, though the cache does not answer", m.To)
				}
				r.replyGet(&m, causal.GetReply{Record: record(version(1)), Status: causal.Stable, Ring: near})
			case causal.KindPing:
				ping = &m
			}
		}
		r.mustResult(id)
		r.tick(100 * time.Millisecond)
	}
	if ping == nil || ping.To != cacheNode {
		t.Fatal("the cache got no ping")
	}
	r.step(causal.Pong{ID: ping.Ping().ID}.Message(cacheNode, ping.From))
	if r.startGet("x"); r.request(causal.KindGet).To != cacheNode {
		t.Error("the cache answers again, and is not asked")
	}
}

func TestGetsThatAreWithADeadCacheDoNotEachWaitForTheirTimeOut(t *testing.T) {
	r := newRig(t)
	r.startGet("x")
	r.tick(400 * time.Millisecond)
	r.startGet("y")
	r.sent(causal.KindGet)
	r.tick(100 * time.Millisecond) // x has waited for 500 ms, y for 100
	r.tick(5 * time.Millisecond)
	if asked := r.sent(causal.KindGet); len(asked) != 2 || asked[0].To != r.shard(near) ||
		asked[1].To != r.shard(near) {
		t.Errorf("asked %+v, want the shard for both", asked)
	}
}

func TestAnMGetGoesRoundADeadCacheToo(t *testing.T) {
	r := newRig(t, snapshotReads)
	r.completeUpTo(causal.HLCAt(5000))
	r.tick(time.Millisecond)
	r.s.Take(nil)
	r.start(Op{Kind: OpMGet, Keys: []string{"x", "y"}})
	if m := r.request2(t); m[0].To != cacheNode || m[1].To != cacheNode {
		t.Fatalf("asked %+v", m)
	}
	r.tick(time.Second)
	if m := r.request2(t); m[0].To != r.shard(near) || m[1].To != r.shard(near) {
		t.Errorf("asked %+v", m)
	}
	r.start(Op{Kind: OpMGet, Keys: []string{"x", "y"}})
	if m := r.request2(t); m[0].To != r.shard(near) || m[1].To != r.shard(near) {
		t.Errorf("the next one asks %+v, though the cache does not answer", m)
	}
}

// request2 returns the two Gets that were sent since the last call.
func (r *rig) request2(t *testing.T) []*causal.Message {
	t.Helper()
	ms := r.sent(causal.KindGet)
	if len(ms) != 2 {
		t.Fatalf("%d requests were sent, want 2", len(ms))
	}
	return ms
}

func TestWithTheLinkToTheCacheDownReadsGoRoundItAtOnce(t *testing.T) {
	r := newRig(t)
	r.s.LinkDown(r.now, cacheNode)
	if r.startGet("x"); r.request(causal.KindGet).To != r.shard(near) {
		t.Error("the cache is asked")
	}
	r.tick(time.Minute)
	r.sent(causal.KindPing)
	r.s.LinkUp(r.now, cacheNode, causal.Leadership{})
	r.tick(0)
	if m := r.request(causal.KindPing); m.To != cacheNode {
		t.Errorf("when the link is up, %s got a ping", m.To)
	}
}
