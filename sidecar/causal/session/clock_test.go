package session

import (
	"testing"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
)

// farFuture is a version that is dated years ahead of the clock of a rig.
var farFuture = causal.Version{HLC: causal.HLCAt(40 * 365 * 24 * 3600 * 1000), Origin: 1}

func TestASessionAdoptsNoTimestampFromTheFutureAndReadsElsewhere(t *testing.T) {
	showsFault(t, causal.AnyClock, func(r *rig) string {
		id := r.startGet("x")
		r.replyGet(r.request(causal.KindGet), causal.GetReply{Record: record(farFuture), Status: causal.InFlight,
			Ring: near})
		r.tick(time.Second)
		if again := r.sent(causal.KindGet); len(again) > 0 {
			if again[0].To == r.shard(near) {
				return "the same ring was asked again"
			}
			r.replyGet(again[0], causal.GetReply{Record: record(version(5)), Status: causal.Stable, Ring: middle})
		}
		if got := r.mustResult(id).Record.Version; got != version(5) {
			return got.String() + " was returned"
		}
		r.startPut("k", "v")
		if f := r.request(causal.KindPut).Put().Floor; f > version(5).HLC {
			return "the floor of the next put is in the future"
		}
		return ""
	}, noCache)
}

func TestAReadThatFindsNothingButTimestampsFromTheFutureFailsWithTheReason(t *testing.T) {
	r := newRig(t, noCache)
	id := r.startGet("x")
	for range 200 {
		for _, m := range r.sent(causal.KindGet) {
			r.replyGet(m, causal.GetReply{Record: record(farFuture), Status: causal.InFlight, Ring: near})
		}
		r.tick(50 * time.Millisecond)
	}
	if res, ok := r.result(id); !ok || res.Err != causal.ErrClock {
		t.Errorf("result %+v, %v", res, ok)
	}
	if n := r.s.Stats().ClockRefused; n < 3 {
		t.Errorf("%d refusals were counted", n)
	}
}

func TestAPutWithATimestampFromTheFutureHasAnUnknownOutcomeAndAnotherCoordinatorIsUsed(t *testing.T) {
	p := newPipeline(t, 2, 1)
	p.replyPut(p.first[0], farFuture, causal.OK)
	p.expect(map[uint64]causal.ErrCode{1: causal.ErrUnknown})
	p.startPut("k", "v")
	next := p.request(causal.KindPut)
	if next.To == p.first[0].To {
		t.Errorf("the next put went to %s again", next.To)
	}
	if f := next.Put().Floor; f >= farFuture.HLC {
		t.Error("the floor of the next put is in the future")
	}
}

func TestATokenWithATimestampFromTheFutureIsRefused(t *testing.T) {
	poisoned := newRig(t, noCache, func(c *Config) { c.Broken = causal.MutationsOf(causal.AnyClock) })
	poisoned.read("x", farFuture, causal.Stable, near)
	token := poisoned.mustResult(poisoned.start(Op{Kind: OpToken})).Token
	r := newRig(t, noCache)
	if res := r.mustResult(r.start(Op{Kind: OpResume, Token: token})); res.Err != causal.ErrClock {
		t.Errorf("result %+v", res)
	}
	r.startPut("k", "v")
	if f := r.request(causal.KindPut).Put().Floor; f != 0 {
		t.Errorf("the floor of the next put is %d", f)
	}
}

// What a token names becomes the floor of the session's puts, and coordinators accept no floor that is further ahead.
func TestATokenIsResumedOnlyWhenCoordinatorsAcceptPutsAfterIt(t *testing.T) {
	ahead := causal.HLCAt(causal.MaxSessionAheadMs + 1000)
	token := func() string { return rawToken(uint64(ahead), 0) }
	t.Run("it waits", func(t *testing.T) {
		showsFault(t, causal.AnyClock, func(r *rig) string {
			if _, done := r.result(r.start(Op{Kind: OpResume, Token: token()})); done {
				return "it was resumed at once"
			}
			return ""
		})
	})
	for _, tt := range []struct {
		name  string
		learn func(r *rig)
		want  causal.ErrCode
	}{
		{"until the clock is there", func(r *rig) { r.tick(time.Second) }, causal.OK},
		{"until coordinators have published so far", func(r *rig) { r.receivedUpTo(ahead, far) }, causal.OK},
		{"not longer than its timeout", func(r *rig) {
			r.now.Mono += int64(time.Hour)
			r.s.Tick(r.now)
		}, causal.ErrClock},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t)
			if tt.want == causal.ErrClock {
				token = func() string { return rawToken(uint64(causal.HLCAt(causal.MaxAheadMs)), 0) }
			}
			id := r.start(Op{Kind: OpResume, Token: token(), Timeout: 10 * time.Second})
			r.mustBeUnfinished(id)
			tt.learn(r)
			if res := r.mustResult(id); res.Err != tt.want {
				t.Errorf("result %s, want %s", res.Err, tt.want)
			}
			if n := r.s.Stats().ClockRefused; (n == 1) != (tt.want == causal.ErrClock) {
				t.Errorf("%d refusals were counted", n)
			}
		})
	}
}
