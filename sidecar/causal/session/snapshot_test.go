package session

import (
	"fmt"
	"testing"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// at returns the first HLC of a millisecond. Cuts of a rig with snapshotReads are at multiples of 500 ms.
func at(ms int64) causal.HLC { return causal.HLCAt(ms) }

func TestCachesHearOfACutBeforeItIsComplete(t *testing.T) {
	r := newRig(t, snapshotReads, func(c *Config) { c.SnapshotLead = 250 * time.Millisecond })
	r.receivedUpTo(at(1234), far)
	notice := r.request(causal.KindCut)
	if notice.To != cacheNode || notice.CutNotice().Cut != at(1000) {
		t.Errorf("%s was told of cut %d ms", notice.To, notice.CutNotice().Cut.WallMs())
	}
	r.receivedUpTo(at(1499), far)
	if again := r.sent(causal.KindCut); len(again) > 0 {
		t.Error("the same cut was announced twice")
	}
	r.tick(time.Second)
	if r.s.Cut() != 0 {
		t.Errorf("cut %d ms is used, and only one ring has everything up to there", r.s.Cut().WallMs())
	}
	r.completeUpTo(at(1234))
	r.tick(249 * time.Millisecond)
	if r.s.Cut() != 0 {
		t.Errorf("cut %d ms is used before the time", r.s.Cut().WallMs())
	}
	r.tick(time.Millisecond)
	if r.s.Cut() != at(1000) {
		t.Errorf("cut %d ms is used, want 1000 ms", r.s.Cut().WallMs())
	}
}

// After a restart of a coordinator timestamps stand still for up to two seconds: they are ahead of the clocks.
func TestTheCutGoesOnWhileTimestampsStandStill(t *testing.T) {
	r := newRig(t, snapshotReads)
	r.completeUpTo(at(1234))
	r.tick(500 * time.Millisecond)
	r.completeUpTo(at(1234) + 1)
	if r.s.Cut() != at(1000) {
		t.Errorf("cut %d ms is used before the step is over, want 1000 ms", r.s.Cut().WallMs())
	}
	r.tick(time.Second)
	if r.s.Cut() != at(1234)+1 {
		t.Errorf("cut %d ms is used, and everything up to 1234 ms is complete", r.s.Cut().WallMs())
	}
}

// silence lets SV of the origins of data center b, which is 500 ms, stand still while that of the others goes on to
// 3000 ms.
func (r *rig) silence() {
	r.completeUpTo(at(500))
	for sv := at(1000); sv <= at(3000); sv += at(500) {
		r.tick(500 * time.Millisecond)
		r.vectors(causal.VectorEntry{Origin: 1, Last: 16, SV: sv}, causal.VectorEntry{Origin: 33, Last: 48, SV: sv})
	}
}

func TestTheCutGoesOnWithoutTheDataCenterThatStandsStill(t *testing.T) {
	r := newRig(t, snapshotReads)
	r.completeUpTo(at(500))
	r.vectors(causal.VectorEntry{Origin: 1, Last: 16, SV: at(1500)},
		causal.VectorEntry{Origin: 33, Last: 48, SV: at(2000)})
	r.tick(999 * time.Millisecond)
	if r.s.Cut() != at(500) {
		t.Errorf("cut %d ms is used before the time", r.s.Cut().WallMs())
	}
	r.tick(time.Millisecond)
	if r.s.Cut() != at(1500) {
		t.Errorf("cut %d ms is used, want 1500 ms", r.s.Cut().WallMs())
	}
	r.completeUpTo(at(1400)) // it is back, and the cut does not go back
	if r.s.Cut() != at(1500) {
		t.Errorf("cut %d ms is used, want 1500 ms still", r.s.Cut().WallMs())
	}
	r.completeUpTo(at(2100))
	if r.s.Cut() != at(2000) || r.s.cuts.current.Complete != at(2000) {
		t.Errorf("cut %+v is used, want 2000 ms", r.s.cuts.current)
	}
}

func TestOneDataCenterThatStandsStillDoesNotMakeUpForAnother(t *testing.T) {
	r := newRig(t, snapshotReads)
	r.completeUpTo(at(500))
	for sv := at(1000); sv <= at(8000); sv += at(500) {
		r.tick(500 * time.Millisecond)
		r.vectors(causal.VectorEntry{Origin: 1, Last: 16, SV: sv})
	}
	r.startGet("x")
	if r.s.Cut() != at(500) || r.request(causal.KindGet).Get().Snapshot {
		t.Errorf("the cut is %d ms, and still read at", r.s.Cut().WallMs())
	}
}

func TestWhatALateDataCenterHasWrittenBindsWhoReadsItAtTheCut(t *testing.T) {
	showsFault(t, causal.LateAsComplete, func(r *rig) string {
		r.silence()
		r.startGet("x")
		m := r.request(causal.KindGet)
		if g := m.Get(); g.From() != at(2000) || g.Cut != at(500) {
			return fmt.Sprintf("read from %d ms, with %d ms complete", g.From().WallMs(), g.Cut.WallMs())
		}
		r.replyGet(m, causal.GetReply{Record: record(version(at(900))), Status: causal.InFlight, Ring: near})
		if bound, rings := r.bound(); !bound || rings != topology.RingsOf(near) {
			return "the session is not bound"
		}
		return ""
	}, snapshotReads)
}

func TestAnMGetWithAVersionOfALateDataCenterIsReadInOneRing(t *testing.T) {
	showsFault(t, causal.LateUnchecked, func(r *rig) string {
		r.silence()
		id := r.startMGet("x", "y")
		gets := r.sent(causal.KindGet)
		r.replyGet(gets[0], causal.GetReply{Record: record(ownVersion(at(2900))), Status: causal.Stable, Ring: near})
		r.replyGet(gets[1], causal.GetReply{Record: record(version(at(900))), Status: causal.InFlight, Ring: far})
		if _, ok := r.result(id); ok {
			return "it is answered"
		}
		for _, m := range r.answerRound(store{"x": ownVersion(at(1900)), "y": version(at(900))}, causal.InFlight) {
			if m.To != cacheNode || m.Get().Cut != at(2000) {
				return fmt.Sprintf("%s was asked at cut %d ms, want the lowest that it may read at, 2000 ms", m.To,
					m.Get().Cut.WallMs())
			}
		}
		for _, m := range r.sent(causal.KindGet) {
			if m.To != r.shard(near) || m.Get().Cut != 0 {
				return fmt.Sprintf("%s was asked at cut %d ms", m.To, m.Get().Cut.WallMs())
			}
		}
		return ""
	}, snapshotReads)
}

func TestAnMGetWithCompleteVersionsOfALateDataCenterIsReadTwiceAtTheCut(t *testing.T) {
	showsFault(t, causal.LateMGetOnce, func(r *rig) string {
		r.silence()
		id := r.startMGet("x", "y")
		s := store{"x": ownVersion(at(2900)), "y": version(at(900))}
		for _, s["x"] = range []causal.Version{ownVersion(at(400)), ownVersion(at(600)), ownVersion(at(600))} {
			if _, ok := r.result(id); ok {
				return "it is answered before two rounds have found the same"
			}
			for _, m := range r.answerRound(s, causal.Stable) {
				if m.To != cacheNode || m.Get().Cut != at(3000) {
					return fmt.Sprintf("%s was asked at cut %d ms", m.To, m.Get().Cut.WallMs())
				}
			}
		}
		if got := versions(r.t, r.mustResult(id)); got[0] != at(600) || got[1] != at(900) {
			return fmt.Sprintf("versions %v", got)
		}
		return ""
	}, snapshotReads)
}

func leftOutOne(c *Config) { c.LeftOut = 1 }

// leaveOut has a cut of 2000 ms, and everything complete up to 1500 ms only: data center b is behind.
func (r *rig) leaveOut() {
	r.completeUpTo(at(1500))
	r.vectors(causal.VectorEntry{Origin: 1, Last: 16, SV: at(2200)},
		causal.VectorEntry{Origin: 33, Last: 48, SV: at(2100)})
}

func TestReadsAtTheCutHaveABase(t *testing.T) {
	showsFault(t, causal.BaseBelowSeen, func(r *rig) string {
		r.leaveOut()
		asked := func() string {
			g := r.request(causal.KindGet).Get()
			return fmt.Sprint(g.From().WallMs(), g.UpTo() == causal.NoLimit, g.Cut.WallMs(), g.Seen)
		}
		r.startGet("x")
		if got := asked(); got != "1500 true 1500 0" {
			return "at first it asks from " + got
		}
		r.read("y", version(at(1900)), causal.Stable, near)
		if bound, _ := r.bound(); bound {
			return "a complete version binds"
		}
		r.startGet("x")
		if got := asked(); got != "1900 true 1500 0" {
			return "after 1900 ms it asks from " + got
		}
		return ""
	}, snapshotReads, leftOutOne)
}

func TestAnOwnWriteIsOverlaidUntilTheBaseHasPassedIt(t *testing.T) {
	showsFault(t, causal.OverlayAtCut, func(r *rig) string {
		r.write("x", "mine", ownVersion(at(1800)))
		r.leaveOut()
		r.complete(ownVersion(at(1800)))
		if res, ok := r.result(r.startGet("x")); !ok || res.Outcome.Source != SourceOwn {
			return "it is not overlaid"
		}
		r.completeUpTo(at(2500))
		if r.startGet("x"); len(r.sent(causal.KindGet)) != 1 {
			return "it is overlaid when every shard returns it"
		}
		return ""
	}, snapshotReads, leftOutOne)
}

func TestPipelinedGetsFindNothingAboveTheBase(t *testing.T) {
	showsFault(t, causal.PipelineAboveBase, func(r *rig) string {
		r.leaveOut()
		r.startGets("x", "y")
		for _, m := range r.sent(causal.KindGet) {
			if g := m.Get(); g.UpTo() != at(1500) {
				return fmt.Sprintf("read up to %d ms", g.UpTo().WallMs())
			}
		}
		return ""
	}, snapshotReads, leftOutOne)
}

func TestAnMGetThatFindsWhatIsInFlightReadsAtTheLowestCut(t *testing.T) {
	r := newRig(t, snapshotReads, leftOutOne)
	r.leaveOut()
	id := r.startMGet("x", "y")
	for i, cut := range []causal.HLC{at(2000), at(1500)} {
		y := []causal.Version{version(at(1700)), version(at(1200))}[i]
		status := []causal.Status{causal.InFlight, causal.Stable}[i]
		for _, m := range r.answerRound(store{"x": ownVersion(at(900)), "y": y}, status) {
			if m.Get().Cut != cut {
				t.Errorf("round %d reads at %d ms, want %d", i, m.Get().Cut.WallMs(), cut.WallMs())
			}
		}
	}
	if got := versions(t, r.mustResult(id)); got[1] != at(1200) {
		t.Errorf("versions %v", got)
	}
	if bound, _ := r.bound(); bound {
		t.Error("the session is bound")
	}
}

func TestNearCopiesAnswerAtACutWithoutALateDataCenter(t *testing.T) {
	r := newRig(t, snapshotReads, nearCopies)
	r.silence()
	r.giveNearCopies([]string{"x", "y"}, at(900)) // not covered by the cut, and complete as all near copies
	if !r.getNear("x") || r.s.cuts.current.At != at(3000) {
		t.Errorf("no near copy answers at cut %+v", r.s.cuts.current)
	}
	if bound, _ := r.bound(); bound {
		t.Error("a near copy, which is complete, binds the session")
	}
	all := r.mustResult(r.startMGet("y", "x"))
	if all.Outcome.Source != SourceNear || all.Outcome.Status != causal.Stable {
		t.Errorf("got %+v", all)
	}
}

// hearNothingComplete passes a time in which some ring gets what the data centers with these first origins write, and
// nothing is complete.
func (r *rig) hearNothingComplete(d time.Duration, origins ...topology.Origin) {
	const step = 250 * time.Millisecond
	for passed := step; passed <= d; passed += step {
		r.tick(step)
		for _, o := range origins {
			r.vectors(causal.VectorEntry{Origin: o, Last: o + 15, SV: at(1000),
				RV: []causal.HLC{at(1000 + passed.Milliseconds()), at(1000)}})
		}
	}
}

func TestASessionReadsAtTheCutWhileItIsUsable(t *testing.T) {
	for _, tt := range []struct {
		name   string
		before func(r *rig)
		op     Op
		cut    causal.HLC // 0: it reads the newest version
		seen   causal.HLC
	}{
		{"reads at the cut", func(*rig) {}, Op{}, at(1000), 0},
		{"but not before a modification", func(*rig) {}, Op{Level: causal.Newest}, 0, 0},
		{"also if it has not moved for a while", func(r *rig) {
			r.tick(r.s.cfg.MaxSilentLag + r.s.cfg.SnapshotInterval)
		}, Op{}, at(1000), 0},
		{"but not for longer, if nothing is heard", func(r *rig) {
			r.tick(r.s.cfg.MaxSilentLag + r.s.cfg.SnapshotInterval + 1)
		}, Op{}, 0, 0},
		{"for longer if all data centers are heard of", func(r *rig) {
			r.hearNothingComplete(r.s.cfg.MaxSnapshotLag, 1, 17, 33)
		}, Op{}, at(1000), 0},
		{"but not if one is not", func(r *rig) { r.hearNothingComplete(r.s.cfg.MaxSnapshotLag, 1, 33) }, Op{}, 0, 0},
		{"nor for longer than that", func(r *rig) {
			r.hearNothingComplete(r.s.cfg.MaxSnapshotLag+time.Second, 1, 17, 33)
		}, Op{}, 0, 0},
		{"but not if the cut is far behind", func(r *rig) {
			r.vectors(causal.VectorEntry{Origin: 1, SV: at(1000 + maxCutAgeMs + 1)})
		}, Op{}, 0, 0},
		{"and waits for nothing", func(r *rig) {
			r.read("y", version(at(1700)), causal.Stable, near)
		}, Op{}, at(1000), 0},
		{"but up to what the session has seen if it is bound", func(r *rig) {
			r.read("y", version(at(1700)), causal.InFlight, near)
		}, Op{}, at(1000), at(1700)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, snapshotReads)
			r.completeUpTo(at(1000))
			tt.before(r)
			r.sent(causal.KindNone)
			tt.op.Kind, tt.op.Key = OpGet, "x"
			r.start(tt.op)
			g := r.request(causal.KindGet).Get()
			if g.Cut != tt.cut || g.Snapshot != (tt.cut != 0) || g.Seen != tt.seen {
				t.Errorf("cut %d ms (snapshot: %t), seen %d ms", g.Cut.WallMs(), g.Snapshot, g.Seen.WallMs())
			}
		})
	}
}

func TestAnOwnWriteAboveTheCutIsReadAfterItIsComplete(t *testing.T) {
	showsFault(t, causal.CutWithoutOwn, func(r *rig) string {
		r.completeUpTo(at(1000))
		r.write("x", "mine", ownVersion(at(1200)))
		r.complete(ownVersion(at(1200)))
		id := r.startGet("x")
		if _, ok := r.result(id); !ok {
			r.replyGet(r.request(causal.KindGet), causal.GetReply{Record: record(version(at(900))),
				Status: causal.Stable, Ring: near})
		}
		if got := r.mustResult(id).Record.Version; got != ownVersion(at(1200)) {
			return fmt.Sprintf("the session has written %s and reads %s", ownVersion(at(1200)), got)
		}
		return ""
	}, snapshotReads)
}

func TestTheCutPassesOwnWrites(t *testing.T) {
	r := newRig(t, snapshotReads)
	r.completeUpTo(at(1000))
	r.write("x", "mine", ownVersion(at(1200)))
	r.complete(ownVersion(at(1200)))
	r.completeUpTo(at(1500))
	if r.startGet("x"); r.request(causal.KindGet).Get().Cut != at(1500) {
		t.Error("x was not read at the new cut")
	}
	if own := &r.s.sessions[1].own; own.bytes != 0 || len(own.newest) > 0 || len(own.overlay) > 0 {
		t.Errorf("the own write is still there: %+v", own)
	}
}

func TestACompleteOwnWriteWhoseValueWasEvictedIsReadFromARing(t *testing.T) {
	r := newRig(t, snapshotReads, func(c *Config) { c.MaxOwnBytes = ownOverhead })
	r.completeUpTo(at(1000))
	r.write("x", "mine", ownVersion(at(1200)))
	r.complete(ownVersion(at(1200)))
	r.startGet("x")
	if g := r.request(causal.KindGet).Get(); g.From() < at(1200) {
		t.Errorf("x was read as of %d ms, but the session wrote it at 1200 ms", g.From().WallMs())
	}
}

func TestAnOwnWriteThatTheLogNoLongerHoldsIsNotReadBelowItself(t *testing.T) {
	r := newRig(t, snapshotReads, func(c *Config) { c.MaxOwnBytes = ownOverhead })
	r.completeUpTo(at(1000))
	r.write("x", "mine", ownVersion(at(1200)))
	r.startGet("x")
	m := r.request(causal.KindLogGet)
	r.step(causal.LogReply{ID: m.LogGet().ID, Err: causal.ErrNotFound}.Message(m.To, m.From))
	if g := r.request(causal.KindGet).Get(); g.Seen != at(1200) {
		t.Errorf("x was read as of %d ms, but the session wrote it at 1200 ms", g.Seen.WallMs())
	}
}

func TestAReadOfTheNewestVersionLooksBeyondACompleteOwnWrite(t *testing.T) {
	r := newRig(t, snapshotReads)
	r.completeUpTo(at(1000))
	r.write("x", "mine", ownVersion(at(1200)))
	r.complete(ownVersion(at(1200)))
	id := r.start(Op{Kind: OpGet, Key: "x", Level: causal.Newest})
	r.replyGet(r.request(causal.KindGet), causal.GetReply{Record: record(version(at(1300))), Status: causal.Stable,
		Ring: near})
	if got := r.mustResult(id).Record.Version; got != version(at(1300)) {
		t.Errorf("read %s", got)
	}
}

func TestAnMGetReadsAtACutAtWhichEverythingIsComplete(t *testing.T) {
	showsFault(t, causal.CutBeyondSV, func(r *rig) string {
		r.completeUpTo(at(1000))
		r.vectors(causal.VectorEntry{Origin: 1, SV: at(3000)})
		r.startMGet("x", "y")
		for _, m := range r.sent(causal.KindGet) {
			if cut := m.Get().Cut; cut != at(1000) {
				return fmt.Sprintf("cut %d ms, but some origins have SV 1000 ms", cut.WallMs())
			}
			if m.To != cacheNode {
				return fmt.Sprintf("%s was asked", m.To)
			}
		}
		return ""
	}, snapshotReads)
}

func TestAnMGetDoesNotReadAtACutBelowWhatTheSessionHasSeen(t *testing.T) {
	showsFault(t, causal.CutBelowSeen, func(r *rig) string {
		r.completeUpTo(at(1000))
		r.read("z", version(at(1700)), causal.Stable, near)
		r.startMGet("x", "y")
		for _, m := range r.sent(causal.KindGet) {
			if cut := m.Get().Cut; cut != 0 && cut < at(1700) {
				return fmt.Sprintf("cut %d ms, but the session has seen 1700 ms", cut.WallMs())
			}
		}
		return ""
	}, snapshotReads)
}

func TestAnMGetOfABoundSessionReadsInAnAllowedRing(t *testing.T) {
	showsFault(t, causal.SnapshotBound, func(r *rig) string {
		r.completeUpTo(at(1000))
		r.read("z", version(at(1700)), causal.InFlight, far)
		r.startMGet("x", "y")
		for _, m := range r.sent(causal.KindGet) {
			if m.To != r.shard(far) || m.Get().Cut != 0 {
				return fmt.Sprintf("%s was asked at cut %d ms, but the session is bound to ring far", m.To,
					m.Get().Cut.WallMs())
			}
		}
		return ""
	}, snapshotReads)
}

func TestAnMGetAtACutTakesOneRoundAndBindsNothing(t *testing.T) {
	r := newRig(t, snapshotReads)
	r.completeUpTo(at(1000))
	id := r.startMGet("x", "y")
	gets := r.sent(causal.KindGet)
	// The cache has no version of x for the cut, so a ring is asked. Its middleman does not know that the version is
	// stable.
	r.replyGet(gets[0], causal.GetReply{Err: causal.ErrNotFound})
	m := r.request(causal.KindGet)
	if m.To != r.shard(near) || m.Get().Cut != at(1000) {
		t.Fatalf("%s was asked at cut %d", m.To, m.Get().Cut)
	}
	r.replyGet(m, causal.GetReply{Record: record(version(at(900))), Status: causal.InFlight, Ring: near})
	r.replyGet(gets[1], causal.GetReply{Record: record(version(at(800))), Status: causal.Stable, Ring: topology.NoRing,
		Hit: true})
	res := r.mustResult(id)
	if got := fmt.Sprint(versions(t, res)); got != fmt.Sprint([]causal.HLC{at(900), at(800)}) {
		t.Errorf("versions %s", got)
	}
	if res.Outcome.Status != causal.Stable || res.Outcome.Source != SourceLocal {
		t.Errorf("outcome %+v", res.Outcome)
	}
	if bound, _ := r.bound(); bound {
		t.Error("the session is bound")
	}
}

func TestAnMGetNeverReadsAtAnEarlierCutThanTheOneBefore(t *testing.T) {
	r := newRig(t, snapshotReads)
	r.completeUpTo(at(1400)) // the cut of gets is 1000 ms
	r.read("z", version(at(1300)), causal.Stable, near)
	id := r.startMGet("x", "y")
	for _, m := range r.answerRound(store{"x": version(at(900)), "y": version(at(800))}, causal.Stable) {
		if cut := m.Get().Cut; cut != at(1400) {
			t.Errorf("cut %d ms, want the least SV, 1400 ms", cut.WallMs())
		}
	}
	r.mustResult(id)
	r.s.sessions[1].seen = 0
	r.startMGet("x", "y")
	if cut := r.sent(causal.KindGet)[0].Get().Cut; cut != at(1400) {
		t.Errorf("the next MGET reads at cut %d ms, below 1400 ms", cut.WallMs())
	}
}
