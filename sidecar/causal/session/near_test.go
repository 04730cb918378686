package session

import (
	"testing"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
)

func nearCopies(c *Config) { c.MaxNearBytes, c.NearHotReads = 1<<20, 1 }

// newNearRig returns a sidecar with leased near copies of keys, whose versions are 10, 11, and so on.
func newNearRig(t testing.TB, keys []string, configure ...func(*Config)) *rig {
	r := newRig(t, append(configure, nearCopies)...)
	r.giveNearCopies(keys, 10)
	return r
}

// giveNearCopies gives leased near copies of keys, whose versions are first, first+1, and so on.
func (r *rig) giveNearCopies(keys []string, first causal.HLC) {
	r.t.Helper()
	r.sent(causal.KindLease)
	pos := causal.StreamPosition{Epoch: 7}
	onStream := func(m causal.Message) {
		pos.Seq++
		m.SetStreamPosition(pos)
		r.step(m)
	}
	for i, key := range keys {
		onStream(causal.GetReply{ID: 1, Key: key, Record: record(version(first + causal.HLC(i))),
			Status: causal.Stable}.Message(cacheNode, r.s.cfg.Self))
	}
	renewal := r.request(causal.KindLease).LeaseRenewal()
	onStream(causal.LeaseGrant{ID: renewal.ID, Duration: time.Second}.Message(cacheNode, r.s.cfg.Self))
}

func (r *rig) getNear(key string) bool {
	_, ok := r.s.GetNear(r.now, 1, []byte(key), causal.DefaultLevel)
	return ok
}

func TestANearCopyAnswersAtOnceUnlessTheSessionMayNotReadIt(t *testing.T) {
	for _, c := range []struct {
		what    string
		prepare func(r *rig)
		want    bool
	}{
		{"unbound", func(*rig) {}, true},
		{"bound", func(r *rig) { r.read("z", version(50), causal.InFlight, near) }, false},
		{"with an own write of the key", func(r *rig) { r.write("x", "1", ownVersion(5)) }, false},
		{"with an own write of another key", func(r *rig) { r.write("z", "1", ownVersion(5)) }, true},
		{"while the cache does not answer", func(r *rig) { r.s.avoidCache(r.now, cacheNode) }, false},
		{"after the session was closed", func(r *rig) { r.s.Close(1) }, false},
	} {
		r := newNearRig(t, []string{"x"})
		c.prepare(r)
		before := r.s.Stats().NearHits
		if got := r.getNear("x"); got != c.want {
			t.Errorf("%s: a near copy answers: %t", c.what, got)
		}
		if c.want != (r.s.Stats().NearHits == before+1) {
			t.Errorf("%s: %d hits are counted", c.what, r.s.Stats().NearHits-before)
		}
		if len(r.sent(causal.KindGet)) > 0 {
			t.Errorf("%s: a request was sent", c.what)
		}
	}
}

func TestWhatANearCopySaysIsInTheSessionsPast(t *testing.T) {
	r := newNearRig(t, []string{"x"})
	if !r.getNear("x") {
		t.Fatal("no near copy answers")
	}
	r.startPut("y", "1")
	if floor := r.request(causal.KindPut).Put().Floor; floor < 10 {
		t.Errorf("the next put is above %d only", floor)
	}
}

func TestAGetFromANearCopyDoesNotAllocate(t *testing.T) {
	r, key := newNearRig(t, []string{"x"}), []byte("x")
	if n := testing.AllocsPerRun(100, func() { r.s.GetNear(r.now, 1, key, causal.DefaultLevel) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestAnMGetOfTheNewestVersionsNeedsNearCopiesOfAllKeys(t *testing.T) {
	r := newNearRig(t, []string{"x", "y"})
	got := r.mustResult(r.start(Op{Kind: OpMGet, Keys: []string{"x", "y"}}))
	if got.Outcome.Source != SourceNear || got.Outcome.Status != causal.Stable ||
		string(got.Records[0].Value.Data) != "10" || string(got.Records[1].Value.Data) != "11" {
		t.Errorf("got %+v", got)
	}
	for what, op := range map[string]Op{
		"one key without a near copy": {Kind: OpMGet, Keys: []string{"x", "z"}},
		"a read-modify-write":         {Kind: OpMGet, Keys: []string{"x", "y"}, Level: causal.Newest},
	} {
		r.mustBeUnfinished(r.start(op))
		if asked := r.sent(causal.KindGet); keysOf(asked) != "["+op.Keys[0]+" "+op.Keys[1]+"]" ||
			asked[0].To != r.shard(near) {
			t.Errorf("%s: the ring is asked for %s", what, keysOf(asked))
		}
	}
	r.read("z", version(50), causal.InFlight, near)
	r.mustBeUnfinished(r.start(Op{Kind: OpMGet, Keys: []string{"x", "y"}}))
}

func TestAtACutAnMGetTakesEachKeyFromItsNearCopy(t *testing.T) {
	r := newNearRig(t, []string{"x", "y"}, snapshotReads)
	r.completeUpTo(causal.HLCAt(10_000))
	r.tick(time.Millisecond)
	r.sent(causal.KindGet)
	id := r.start(Op{Kind: OpMGet, Keys: []string{"x", "z", "y"}})
	asked := r.sent(causal.KindGet)
	if keysOf(asked) != "[z]" || asked[0].To != cacheNode {
		t.Fatalf("asked for %s", keysOf(asked))
	}
	r.replyGet(asked[0], causal.GetReply{Record: record(version(12)), Status: causal.Stable, Hit: true})
	if got := r.mustResult(id); string(got.Records[2].Value.Data) != "11" || got.Outcome.Source != SourceCache {
		t.Errorf("got %+v", got)
	}
	all := r.mustResult(r.start(Op{Kind: OpMGet, Keys: []string{"y", "x"}}))
	if all.Outcome.Source != SourceNear || string(all.Records[0].Value.Data) != "11" {
		t.Errorf("got %+v", all)
	}
}
