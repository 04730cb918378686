package session

import (
	"fmt"
	"testing"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

func (r *rig) startMGet(keys ...string) uint64 { return r.start(Op{Kind: OpMGet, Keys: keys}) }

// store is what the shards hold, for rounds of MGETs: a version by key.
type store map[string]causal.Version

// answerRound answers the requests of a round from a store, and returns them.
func (r *rig) answerRound(s store, status causal.Status) []*causal.Message {
	gets := r.sent(causal.KindGet)
	for _, m := range gets {
		g := m.Get()
		reply := causal.GetReply{Record: record(s[g.Key]), Status: status, Ring: topology.RingID(m.To.DC)}
		if g.VersionOnly && g.Known == s[g.Key] {
			reply.Record.Value, reply.VersionOnly = causal.Value{}, true
		}
		r.replyGet(m, reply)
	}
	return gets
}

// versions returns the HLCs of what an MGET returned, after checking that each value belongs to its version.
func versions(t testing.TB, res Result) (hlcs []causal.HLC) {
	t.Helper()
	for _, rec := range res.Records {
		if want := record(rec.Version); string(rec.Value.Data) != string(want.Value.Data) {
			t.Errorf("version %s has value %q", rec.Version, rec.Value.Data)
		}
		hlcs = append(hlcs, rec.Version.HLC)
	}
	return hlcs
}

func TestAnMGetReturnsVersionsThatWereTheNewestAtOneInstant(t *testing.T) {
	showsFault(t, causal.MGetOneRound, func(r *rig) string {
		id := r.startMGet("x", "y")
		r.answerRound(store{"x": version(10), "y": version(11)}, causal.Stable)
		for _, s := range []store{
			{"x": version(10), "y": version(30)}, // a write between the rounds
			{"x": version(20), "y": version(30)}, // and another
			{"x": version(20), "y": version(30)}, // none: this is one state
		} {
			if _, ok := r.result(id); !ok {
				r.answerRound(s, causal.Stable)
			}
		}
		if got := fmt.Sprint(versions(r.t, r.mustResult(id))); got != "[20 30]" {
			return fmt.Sprintf("versions %s, which may never have been the newest at one instant", got)
		}
		return ""
	})
}

func TestAnMGetOfTheNewestValuesReadsInOneRingPastTheCache(t *testing.T) {
	r := newRig(t)
	r.receivedUpTo(10, middle)
	r.read("z", version(10), causal.InFlight, far)
	r.startMGet("x", "y")
	for _, m := range r.answerRound(store{"x": version(1), "y": version(2)}, causal.Stable) {
		if m.To != r.shard(middle) || m.Get().Cut != 0 || m.Get().Seen != 10 {
			t.Errorf("%s was asked with cut %d and seen %d", m.To, m.Get().Cut, m.Get().Seen)
		}
	}
}

func TestOneRoundIsEnoughIfEverythingFoundWasCompleteWhenTheMGetStarted(t *testing.T) {
	r := newRig(t)
	r.completeUpTo(10)
	id := r.startMGet("x", "y")
	r.answerRound(store{"x": version(10), "y": version(9)}, causal.Stable)
	if got := fmt.Sprint(versions(t, r.mustResult(id))); got != "[10 9]" {
		t.Errorf("versions %s", got)
	}
}

func TestARoundCountsWhatTheRoundBeforeFoundAsSeen(t *testing.T) {
	r := newRig(t)
	r.startMGet("x", "y")
	r.answerRound(store{"x": version(10), "y": version(30)}, causal.InFlight)
	for _, m := range r.sent(causal.KindGet) {
		if g := m.Get(); g.Seen != 30 || !g.VersionOnly || g.Key == "x" && g.Known != version(10) {
			t.Errorf("second round: %+v", g)
		}
	}
}

func TestAnMGetThatFindsNoQuietInstantReadsAtACutThatTheRingHasReached(t *testing.T) {
	r := newRig(t)
	id := r.startMGet("x", "y")
	for i := range maxRounds {
		r.answerRound(store{"x": version(causal.HLC(10 + i)), "y": version(5)}, causal.Stable)
	}
	if early := r.sent(causal.KindGet); len(early) > 0 {
		t.Fatalf("a round at cut %d was started, though the ring may lack writes below it", early[0].Get().Cut)
	}
	r.receivedUpTo(12, near)
	r.mustBeUnfinished(id)
	r.receivedUpTo(13, near)
	for _, m := range r.answerRound(store{"x": version(13), "y": version(5)}, causal.Stable) {
		if m.To != r.shard(near) || m.Get().Cut != 13 {
			t.Errorf("%s was asked at cut %d", m.To, m.Get().Cut)
		}
	}
	if got := fmt.Sprint(versions(t, r.mustResult(id))); got != "[13 5]" {
		t.Errorf("versions %s", got)
	}
}

func TestAnMGetStartsAgainInAnotherRing(t *testing.T) {
	for _, tt := range []struct {
		name string
		fail func(r *rig)
	}{
		{"if a shard does not answer", func(r *rig) { r.request(causal.KindGet); r.tick(time.Second) }},
		{"if a shard fails", func(r *rig) {
			r.replyGet(r.request(causal.KindGet), causal.GetReply{Err: causal.ErrStorage})
			r.tick(time.Second)
		}},
		{"if the cut is too old", func(r *rig) {
			r.replyGet(r.request(causal.KindGet), causal.GetReply{Err: causal.ErrCutTooOld})
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t)
			id := r.startMGet("x")
			tt.fail(r)
			gets := r.answerRound(store{"x": version(5)}, causal.Stable)
			if len(gets) != 1 || gets[0].To != r.shard(middle) {
				t.Fatalf("the second attempt asked %v", gets)
			}
			if got := fmt.Sprint(versions(t, r.mustResult(id))); got != "[5]" {
				t.Errorf("versions %s", got)
			}
		})
	}
}

func TestAnMGetThatBindsToAnotherRingThanItsOwnIsReadAgain(t *testing.T) {
	r := newRig(t)
	id := r.startMGet("x")
	gets := r.sent(causal.KindGet)
	r.read("y", version(10), causal.InFlight, far) // while the MGET is in flight to ring near
	r.replyGet(gets[0], causal.GetReply{Record: record(version(20)), Ring: near})
	r.mustBeUnfinished(id)
	if m := r.request(causal.KindGet); m.To != r.shard(far) {
		t.Errorf("it was read again at %s", m.To)
	}
}

func TestAnMGetBindsTheSessionByWhatItReadInFlight(t *testing.T) {
	r := newRig(t)
	id := r.startMGet("x", "y")
	s := store{"x": version(10), "y": version(11)}
	r.answerRound(s, causal.InFlight)
	r.answerRound(s, causal.InFlight)
	if res := r.mustResult(id); res.Outcome.Status != causal.InFlight || res.Outcome.Source != SourceLocal {
		t.Errorf("outcome %+v", res.Outcome)
	}
	if st := r.s.Status(1); st.Restrictions != 2 || st.Rings != topology.RingsOf(near) {
		t.Errorf("status %+v", st)
	}
}

func TestOwnIncompleteWritesOverlayAnMGet(t *testing.T) {
	r := newRig(t)
	r.write("x", "10", ownVersion(10))
	r.write("y", "11", ownVersion(11))
	id := r.startMGet("x", "y", "z")
	s := store{"x": version(5), "y": version(20), "z": version(1)}
	r.answerRound(s, causal.Stable)
	r.answerRound(s, causal.Stable)
	if got := fmt.Sprint(versions(t, r.mustResult(id))); got != "[10 20 1]" {
		t.Errorf("versions %s: want the own write of x, and the newer foreign one of y", got)
	}
}

func TestAnMGetWithoutKeysReturnsNothing(t *testing.T) {
	r := newRig(t)
	if res := r.mustResult(r.startMGet()); res.Err != causal.OK || len(res.Records) > 0 {
		t.Errorf("%+v", res)
	}
}

func TestAnMGetWaitsUntilItsRestrictionsHaveRoom(t *testing.T) {
	r := newRig(t, func(c *Config) { c.MaxRestrictions = 2 })
	r.read("z", version(5), causal.InFlight, near)
	s := store{"x": version(10), "y": version(11)}
	id := r.startMGet("x", "y")
	r.answerRound(s, causal.InFlight)
	r.answerRound(s, causal.InFlight)
	r.mustBeUnfinished(id)
	r.vectors(causal.VectorEntry{Origin: version(0).Origin, SV: 5})
	r.tick(unusableDelay)
	r.answerRound(s, causal.InFlight)
	r.answerRound(s, causal.InFlight)
	if got := fmt.Sprint(versions(t, r.mustResult(id))); got != "[10 11]" {
		t.Errorf("versions %s", got)
	}
}

func TestAnMGetOfAnEvictedOwnWriteWaitsUntilRingsHaveIt(t *testing.T) {
	r := newRig(t, func(c *Config) { c.MaxOwnBytes = ownOverhead })
	r.write("x", "10", ownVersion(10))
	id := r.startMGet("x")
	r.answerRound(store{"x": version(5)}, causal.Stable)
	r.mustBeUnfinished(id)
	r.complete(ownVersion(10))
	r.tick(evictedDelay)
	r.answerRound(store{"x": ownVersion(10)}, causal.Stable)
	if got := fmt.Sprint(versions(t, r.mustResult(id))); got != "[10]" {
		t.Errorf("versions %s", got)
	}
}

// findNoQuietInstant answers the rounds of an MGET of x and other keys so that each finds a newer x, the last one x=13.
func (r *rig) findNoQuietInstant(others store) {
	for i := range maxRounds {
		s := store{"x": version(causal.HLC(10 + i))}
		for k, v := range others {
			s[k] = v
		}
		r.answerRound(s, causal.InFlight)
	}
}

func TestAnMGetSettlesIfTheRingDoesNotReachItsForcedCut(t *testing.T) {
	showsFault(t, causal.MGetUnsettled, func(r *rig) string {
		id := r.startMGet("x", "y")
		r.findNoQuietInstant(store{"y": version(5)})
		r.tick(forcedCutPatience)
		for _, m := range r.answerRound(store{"y": version(7)}, causal.InFlight) {
			if g := m.Get(); m.To != r.shard(near) || g.Key != "y" || g.Cut != 12 || g.Seen != 12 ||
				g.Known != version(5) {
				r.t.Errorf("%s was asked for %+v", m.To, g)
			}
		}
		r.receivedUpTo(100, near) // too late for the cut
		if got := fmt.Sprint(versions(r.t, r.mustResult(id))); got != "[13 7]" {
			return fmt.Sprintf("versions %s, though x=13 may depend on y=7", got)
		}
		return ""
	})
}

func TestAnMGetSettlesUntilNothingIsFoundThatMayDependOnMore(t *testing.T) {
	showsFault(t, causal.MGetSettlesOnce, func(r *rig) string {
		id := r.startMGet("x", "y", "z")
		r.findNoQuietInstant(store{"y": version(5), "z": version(3)})
		r.tick(forcedCutPatience)
		r.answerRound(store{"y": version(9), "z": version(3)}, causal.InFlight)
		if _, ok := r.result(id); !ok {
			if asked := r.answerRound(store{"z": version(8)}, causal.InFlight); len(asked) != 1 ||
				asked[0].Get().Cut != 8 {
				r.t.Errorf("the last round asked for %v", asked)
			}
		}
		if got := fmt.Sprint(versions(r.t, r.mustResult(id))); got != "[13 9 8]" {
			return fmt.Sprintf("versions %s, though y=9 may depend on z=8", got)
		}
		return ""
	})
}

func TestAnMGetThatHadToStartAgainSettlesSoon(t *testing.T) {
	r := newRig(t)
	id := r.startMGet("x", "y")
	r.tick(time.Second) // no answer
	for i := range maxRoundsAgain {
		r.answerRound(store{"x": version(causal.HLC(10 + i)), "y": version(5)}, causal.InFlight)
	}
	if asked := r.answerRound(store{"y": version(7)}, causal.InFlight); len(asked) != 1 || asked[0].Get().Cut != 10 {
		t.Fatalf("it asked for %v", asked)
	}
	if got := fmt.Sprint(versions(t, r.mustResult(id))); got != "[11 7]" {
		t.Errorf("versions %s", got)
	}
}

func TestAnMGetDoesNotWaitForARingThatLags(t *testing.T) {
	r := newRig(t)
	id := r.startMGet("x", "y")
	long := causal.HLCAt(2 * forcedCutPatience.Milliseconds())
	for i := range maxRounds {
		r.answerRound(store{"x": version(long + causal.HLC(i)), "y": version(5)}, causal.Stable)
	}
	if asked := r.answerRound(store{"y": version(5)}, causal.Stable); len(asked) != 1 || asked[0].Get().Seen != 0 {
		t.Fatalf("it asked for %v", asked)
	}
	r.mustResult(id)
}

func TestAnMGetOfManyKeysHasABoundedNumberOfRequestsInFlight(t *testing.T) {
	r := newRig(t)
	var keys []string
	s := store{}
	for i := range 3*maxKeysInFlight + 7 {
		k := fmt.Sprint("key", i)
		keys, s[k] = append(keys, k), version(1)
	}
	r.completeUpTo(1)
	id := r.startMGet(keys...)
	asked := 0
	for {
		before := len(r.s.requests.byID)
		if before > maxKeysInFlight {
			t.Fatalf("%d requests are in flight", before)
		}
		n := len(r.answerRound(s, causal.Stable))
		if asked += n; n == 0 {
			break
		}
	}
	if res := r.mustResult(id); asked != len(keys) || len(res.Records) != len(keys) {
		t.Errorf("%d keys were asked for, and %d returned", asked, len(res.Records))
	}
}

func TestTheValuesOfMGetsInProgressAreBounded(t *testing.T) {
	r := newRig(t, func(c *Config) { c.MaxMGetBytes = 4*mgetKeyBytes + 4 })
	r.completeUpTo(100)
	first, second := r.startMGet("x", "y"), r.startMGet("x", "y")
	gets := r.sent(causal.KindGet)
	for _, i := range []int{0, 2, 1} { // values of two bytes
		r.replyGet(gets[i], causal.GetReply{Record: record(version(10)), Status: causal.Stable, Ring: near})
	}
	if res := r.mustResult(first); res.Err != causal.ErrBusy {
		t.Errorf("the one that would exceed the bound: %v", res.Err)
	}
	r.replyGet(gets[3], causal.GetReply{Record: record(version(10)), Status: causal.Stable, Ring: near})
	if res := r.mustResult(second); res.Err != causal.OK || r.s.mgetBytes != 0 {
		t.Errorf("the other one: %v; %d bytes are still held", res.Err, r.s.mgetBytes)
	}
}

// Keys that nobody has answered yet take memory, too. One MGET alone is never refused for them.
func TestTheKeysOfMGetsInProgressAreBounded(t *testing.T) {
	r := newRig(t, func(c *Config) { c.MaxMGetBytes = mgetKeyBytes })
	r.completeUpTo(100)
	first, second := r.startMGet("x", "y"), r.startMGet("x")
	if res := r.mustResult(second); res.Err != causal.ErrBusy {
		t.Errorf("the second one: %v", res.Err)
	}
	if gets := r.sent(causal.KindGet); len(gets) != 2 {
		t.Errorf("%d keys were asked for; the first one has two", len(gets))
	}
	if r.s.mgetBytes != 2*mgetKeyBytes {
		t.Errorf("%d bytes are held for call %d", r.s.mgetBytes, first)
	}
}

// The next round is at the greatest: at a lower one, a value that it depends on could be missed.
func TestARoundKeepsTheGreatestVersionThatItHasFound(t *testing.T) {
	r := newRig(t)
	m := &mget{replies: make([]keyReply, 2)}
	for i, hlc := range []causal.HLC{20, 10} {
		r.s.keepReply(m, i, &causal.GetReply{Record: record(version(hlc))})
	}
	if m.round.newest != 20 {
		t.Errorf("the greatest is %d, want 20", m.round.newest)
	}
	r.s.forgetReplies(m)
}
