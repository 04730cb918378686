package session

import (
	"fmt"
	"testing"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// answerLikeACache answers a Get as a cache that has the value.
func (r *rig) answerLikeACache(request *causal.Message) {
	r.replyGet(request, causal.GetReply{Record: record(version(1)), Status: causal.Stable, Hit: true,
		Ring: topology.NoRing})
}

// askFor starts n gets of different keys, and returns their requests.
func (r *rig) askFor(n int) []*causal.Message {
	r.t.Helper()
	r.s.Take(nil)
	for i := range n {
		r.startGet(fmt.Sprint("k", i))
	}
	asked := r.sent(causal.KindGet)
	if len(asked) != n {
		r.t.Fatalf("%d requests for %d gets", len(asked), n)
	}
	return asked
}

// tickThrough lets d go by, with a tick every 5 ms, and returns the gets that were sent.
func (r *rig) tickThrough(d time.Duration) (asked []*causal.Message) {
	for range d / (5 * time.Millisecond) {
		r.tick(5 * time.Millisecond)
		asked = append(asked, r.sent(causal.KindGet)...)
	}
	return asked
}

// mustAsk fails the test unless n requests went to a node.
func (r *rig) mustAsk(asked []*causal.Message, n int, node topology.Node, when string) {
	r.t.Helper()
	for _, m := range asked {
		if m.To != node {
			r.t.Fatalf("%s: %s was asked, want %s only", when, m.To, node)
		}
	}
	if len(asked) != n {
		r.t.Fatalf("%s: %d gets were sent to %s, want %d", when, len(asked), node, n)
	}
}

func TestFewGetsLeaveACacheThatIsSlow(t *testing.T) {
	r := newRig(t)
	first := r.askFor(1)
	late := r.askFor(100)
	r.tickThrough(400 * time.Millisecond)
	r.answerLikeACache(first[0]) // 400 ms late
	r.mustAsk(r.tickThrough(200*time.Millisecond), movesPerWait, r.shard(near), "the cache is slow")
	r.mustAsk(r.askFor(1), 1, cacheNode, "a later get")
	for _, m := range late[50:] {
		r.answerLikeACache(m)
	}
	finished := r.s.TakeResults(nil)
	if len(finished) != 51 {
		t.Errorf("%d gets are answered, want the first one and the 50 that the cache has answered late", len(finished))
	}
	// 51 answers have allowed three more.
	r.mustAsk(r.tickThrough(100*time.Millisecond), 51/answersPerMove, r.shard(near), "the cache has answered")
}

func TestAllGetsLeaveASlowCacheWhenItFallsSilent(t *testing.T) {
	r := newRig(t)
	first := r.askFor(1)
	r.askFor(100)
	r.tickThrough(400 * time.Millisecond)
	r.answerLikeACache(first[0])
	r.mustAsk(r.tickThrough(200*time.Millisecond), movesPerWait, r.shard(near),
		"the cache was heard within its time-out")
	if asked := r.tickThrough(295 * time.Millisecond); len(asked) > movesPerWait { // the shard has not answered either
		t.Errorf("%d gets were sent while the cache was slow", len(asked))
	}
	if asked := r.tickThrough(10 * time.Millisecond); len(asked) < 100-movesPerWait {
		t.Errorf("when nothing had come from the cache for its time-out, %d gets were sent to shards, want all %d",
			len(asked), 100-movesPerWait)
	}
	if later := r.askFor(1); later[0].To == cacheNode {
		t.Error("a later get was sent to the silent cache")
	}
}

func TestGetsLeaveACacheAtOnceWhenItsLinkEndsAlsoIfItWasJustHeard(t *testing.T) {
	r := newRig(t)
	first := r.askFor(1)
	r.askFor(100)
	r.answerLikeACache(first[0])
	r.s.LinkDown(r.now, cacheNode)
	r.tick(0)
	r.mustAsk(r.sent(causal.KindGet), 100, r.shard(near), "the link is down")
}

// One request, or its answer, was lost, and the cache answers all others.
func TestAGetWhoseRequestWasLostIsSentElsewhereAfterTheTimeOut(t *testing.T) {
	r := newRig(t)
	id := r.startGet("x")
	r.sent(causal.KindGet)
	var moved []*causal.Message
	for range 105 {
		r.answerLikeACache(r.askFor(1)[0])
		moved = append(moved, r.tickThrough(5*time.Millisecond)...)
	}
	r.mustAsk(moved, 1, r.shard(near), "the others are answered")
	r.answerLikeACache(moved[0])
	r.mustResult(id)
	r.mustAsk(r.askFor(1), 1, cacheNode, "a later get")
}

func TestLateAnswersOfAShardAreNotAskedForAgain(t *testing.T) {
	r := newRig(t)
	r.bindTo(middle)
	first := r.askFor(1)
	late := r.askFor(100)
	r.tickThrough(250 * time.Millisecond)
	r.replyGet(first[0], causal.GetReply{Record: record(version(1)), Status: causal.Stable, Ring: middle})
	r.mustAsk(r.tickThrough(200*time.Millisecond), movesPerWait, r.shard(middle),
		"the only shard that may answer is slow")
	r.s.TakeResults(nil)
	for _, m := range late {
		r.replyGet(m, causal.GetReply{Record: record(version(1)), Status: causal.Stable, Ring: middle})
	}
	if n := len(r.s.TakeResults(nil)); n != 100-movesPerWait {
		t.Errorf("the answers to the first requests ended %d gets, want %d", n, 100-movesPerWait)
	}
}

func TestNewGetsGoRoundAShardThatIsSlowButNotRoundItsNeighbors(t *testing.T) {
	r := newRig(t, noCache)
	first := r.askFor(1)
	r.askFor(100)
	r.tickThrough(200 * time.Millisecond)
	r.replyGet(first[0], causal.GetReply{Record: record(version(1)), Status: causal.Stable, Ring: near})
	r.mustAsk(r.tickThrough(100*time.Millisecond), movesPerWait, r.shard(middle), "the nearest shard is slow")
	r.mustAsk(r.askFor(1), 1, r.shard(middle), "a later get")
	r.now.Mono += int64(3 * time.Second)
	r.mustAsk(r.askFor(1), 1, r.shard(near), "a get after the suspicion")
}

func TestAnMGetWaitsForACacheThatIsSlow(t *testing.T) {
	r := newRig(t, snapshotReads)
	r.completeUpTo(causal.HLCAt(5000))
	r.tick(time.Millisecond)
	first := r.askFor(1)
	r.askFor(2 * movesPerWait) // they use up what may leave the cache
	r.tickThrough(100 * time.Millisecond)
	id := r.start(Op{Kind: OpMGet, Keys: []string{"x", "y"}})
	asked := r.request2(t)
	r.tickThrough(300 * time.Millisecond)
	r.answerLikeACache(first[0])
	r.mustAsk(r.tickThrough(300*time.Millisecond), movesPerWait, r.shard(near), "an MGET is late at a slow cache")
	r.answerLikeACache(asked[0])
	r.answerLikeACache(asked[1])
	r.mustResult(id)
}
