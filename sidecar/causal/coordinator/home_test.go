package coordinator

import (
	"fmt"
	"slices"
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// newHomeHarness returns a harness whose coordinator is the home of the keys of its data center.
func newHomeHarness(t *testing.T, mutations ...causal.Mutation) *harness {
	return newHarnessOfHomes(t, 1, mutations...)
}

// newHarnessOfHomes returns a harness whose coordinator is the first of some homes of its data center.
func newHarnessOfHomes(t *testing.T, homes int, mutations ...causal.Mutation) *harness {
	h := newHarness(t, homes, 0, mutations...)
	h.cfg.Home = true
	h.restart(h.now)
	h.haveHomes(uint64(homes))
	return h
}

// haveHomes makes some coordinators homes.
func (h *harness) haveHomes(n uint64) {
	h.c.log.pending.Homes = Homes{Number: 1, Count: n}
	h.c.writeCheckpoint(h.now)
	h.sync()
	h.c.Take(nil)
}

// ask sends a read to the home and returns its answers.
func (h *harness) ask(r causal.HomeRead) (replies []causal.HomeReply) {
	return homeReplies(h.step(r.Message(app, h.cfg.Self)))
}

func homeReplies(ms []causal.Message) (replies []causal.HomeReply) {
	for _, m := range ofKind(ms, causal.KindHomeReply) {
		replies = append(replies, m.HomeReply())
	}
	return replies
}

// top returns what the home says of a key, and fails if it says nothing at once.
func (h *harness) top(key string) causal.HomeReply {
	h.t.Helper()
	replies := h.ask(causal.HomeRead{ID: 77, Key: key})
	if len(replies) != 1 || replies[0].ID != 77 || replies[0].Key != key || replies[0].Err != causal.OK {
		h.t.Fatalf("the home answers %+v", replies)
	}
	return replies[0]
}

// write writes a key, waits until the log holds it, and returns its version.
func (h *harness) write(p causal.Put) causal.Version {
	h.t.Helper()
	_, after := h.put(p)
	r := reply(h.t, after)
	if r.Err != causal.OK {
		h.t.Fatalf("the put is refused: %s", r.Err)
	}
	return r.Version
}

// refusal returns with what a put is refused.
func (h *harness) refusal(p causal.Put) causal.ErrCode {
	h.t.Helper()
	before, after := h.put(p)
	for _, m := range ofKind(append(before, after...), causal.KindPutReply) {
		if r := m.PutReply(); r.ID == p.ID {
			return r.Err
		}
	}
	h.t.Fatal("the put is not answered")
	return causal.OK
}

// completeAllElsewhere says that the other data center has written nothing up to a time that is not complete.
func (h *harness) completeAllElsewhere(ms int64) {
	h.step(causal.Vectors{Entries: []causal.VectorEntry{{Origin: originB, Last: 2 * topology.MaxCoordinators,
		SV: causal.HLCAt(ms)}}}.Message(h.cfg.Topology.Leader(1), h.cfg.Self))
}

// fromElsewhere returns a version of another data center.
func fromElsewhere(hlc causal.HLC) causal.Version { return causal.Version{HLC: hlc, Origin: originB} }

func valueOf(text string) causal.Value { return causal.Value{Data: []byte(text)} }

// PROTOCOL HOM-2: who sees the acknowledgement finds the write, and nobody finds it before the log holds it.
func TestAWriteIsPublishedInTheStepThatAcknowledgesIt(t *testing.T) {
	for _, broken := range []bool{false, true} {
		h := newHomeHarness(t, mutationIf(broken, causal.HomePublishesEarly)...)
		if ms := h.step(causal.Put{Seq: 1, Key: "x", Value: valueOf("1")}.Message(app, h.cfg.Self)); len(ms) > 0 {
			t.Errorf("before the log holds the write, %v is sent", ms)
		}
		if early := !h.top("x").Record.Version.IsZero(); early != broken {
			t.Errorf("broken %v: it is visible before the log holds it: %v", broken, early)
		}
		h.sync()
		v := reply(t, h.c.Take(nil)).Version
		if r := h.top("x"); r.Record.Version != v || string(r.Record.Value.Data) != "1" || r.Complete {
			t.Errorf("after its acknowledgement the home has %+v", r)
		}
	}
}

func TestTheHomeSaysThatAWriteIsComplete(t *testing.T) {
	h := newHomeHarness(t)
	v := h.write(causal.Put{Seq: 1, Key: "x", Value: valueOf("1")})
	h.ack(shardsA, v)
	h.ack(shardsB, v)
	if r := h.top("x"); !r.Complete || r.Record.Version != v || string(r.Record.Value.Data) != "1" {
		t.Errorf("it says %+v", r)
	}
}

func TestAReadForUpdateWaitsUntilNoWriteOfItsKeyIsUnderWay(t *testing.T) {
	h := newHomeHarness(t)
	h.step(causal.Put{Seq: 1, Key: "x", Value: valueOf("1")}.Message(app, h.cfg.Self))
	update := causal.HomeRead{ID: 5, Key: "x", ForUpdate: true}
	if got := h.ask(update); len(got) > 0 {
		t.Fatalf("it is answered at once: %+v", got)
	}
	if got := h.ask(causal.HomeRead{ID: 6, Key: "y", ForUpdate: true}); len(got) != 1 {
		t.Errorf("a read of another key has the answers %+v", got)
	}
	h.sync()
	if got := homeReplies(h.c.Take(nil)); len(got) != 1 || got[0].ID != 5 || string(got[0].Record.Value.Data) != "1" {
		t.Errorf("when the log holds the write it is answered with %+v", got)
	}
}

func TestReadsForUpdateThatWaitAreBounded(t *testing.T) {
	h := newHomeHarness(t)
	h.step(causal.Put{Seq: 1, Key: "x", Value: valueOf("1")}.Message(app, h.cfg.Self))
	for i := range maxHomeWaits / 4 {
		if got := h.ask(causal.HomeRead{ID: uint64(i), Key: "x", ForUpdate: true}); len(got) > 0 {
			t.Fatalf("read %d has the answers %+v", i, got)
		}
	}
	if got := h.ask(causal.HomeRead{ID: 1, Key: "x", ForUpdate: true}); len(got) != 1 || got[0].Err != causal.ErrBusy {
		t.Errorf("one more has the answers %+v", got)
	}
	h.sync()
	if got := homeReplies(h.c.Take(nil)); len(got) != maxHomeWaits/4 {
		t.Errorf("%d are answered", len(got))
	}
}

// PROTOCOL HOM-6.
func TestAConditionalPutIsAcceptedOnlyIfNothingIsNewer(t *testing.T) {
	foreign := func(h *harness) causal.Version {
		return causal.Version{HLC: causal.HLCAt(h.now.WallMs + 9), Origin: originB}
	}
	for name, tt := range map[string]struct {
		prepare func(h *harness, v causal.Version, p *causal.Put) // v is the newest write of the key
		want    causal.ErrCode
	}{
		"the newest": {func(*harness, causal.Version, *causal.Put) {}, causal.OK},
		"nothing, and it is written": {func(_ *harness, _ causal.Version, p *causal.Put) {
			p.If = causal.Version{}
		}, causal.ErrConflict},
		"an older one": {func(_ *harness, v causal.Version, p *causal.Put) {
			p.If = causal.Version{HLC: v.HLC - 1, Origin: originB}
		}, causal.ErrConflict},
		"one that is overwritten, and the log does not hold that yet": {func(h *harness, _ causal.Version, _ *causal.Put) {
			h.step(causal.Put{ID: 9, Seq: 2, Session: 2, Key: "x"}.Message(app, h.cfg.Self))
		}, causal.ErrConflict},
		"a key that nobody has written": {func(_ *harness, _ causal.Version, p *causal.Put) {
			p.Key, p.If = "other", causal.Version{}
		}, causal.OK},
		"a newer one from elsewhere": {func(h *harness, _ causal.Version, p *causal.Put) {
			p.If = foreign(h)
			h.show(causal.HomeRead{ID: 1, Key: "x", Shown: p.If})
			p.From = p.If.HLC
		}, causal.OK},
		"a client was shown a newer one": {func(h *harness, _ causal.Version, _ *causal.Put) {
			h.show(causal.HomeRead{ID: 1, Key: "x", Shown: foreign(h)})
		}, causal.ErrConflict},
		"one that an earlier life of the coordinator has lost": {func(h *harness, v causal.Version, p *causal.Put) {
			p.If = causal.Version{HLC: v.HLC + 1, Origin: v.Origin}
			p.From = p.If.HLC
		}, causal.ErrConflict},
		"what the home has forgotten since is older": {func(h *harness, v causal.Version, _ *causal.Put) {
			h.c.home.from = v.HLC - 1
		}, causal.OK},
		"what the home has forgotten was not included": {func(h *harness, v causal.Version, p *causal.Put) {
			h.forgetAll(v)
			p.From = h.c.home.from - 1
		}, causal.ErrConflict},
		"what the home has forgotten was included": {func(h *harness, v causal.Version, p *causal.Put) {
			h.forgetAll(v)
			p.From = h.c.home.from
		}, causal.OK},
	} {
		t.Run(name, func(t *testing.T) {
			for _, broken := range []bool{false, true} {
				h := newHomeHarness(t, mutationIf(broken, causal.HomeUnconditional)...)
				v := h.write(causal.Put{Seq: 1, Key: "x", Value: valueOf("1")})
				p := causal.Put{Seq: 3, Key: "x", Value: valueOf("2"), Conditional: true, If: v}
				tt.prepare(h, v, &p)
				want := tt.want
				if broken {
					want = causal.OK
				}
				if got := h.refusal(p); got != want {
					t.Errorf("broken %v: the put is answered with %s; want %s", broken, got, want)
				}
			}
		})
	}
}

// show tells the home what clients are shown, again if the ceiling has to rise first.
func (h *harness) show(r causal.HomeRead) []causal.HomeReply {
	h.t.Helper()
	for range 10 {
		got := h.ask(r)
		if len(got) == 0 || got[0].Err != causal.ErrUnavailable {
			return got
		}
		h.tick(20)
	}
	h.t.Fatal("the home goes on refusing it")
	return nil
}

// forgetAll completes a write, and lets the home forget it.
func (h *harness) forgetAll(v causal.Version) {
	h.t.Helper()
	h.ack(shardsA, v)
	h.ack(shardsB, v)
	for range 20 {
		h.tick(100)
		h.completeAllElsewhere(h.now.WallMs)
	}
	if r := h.top("x"); !r.Record.Version.IsZero() || r.From < v.HLC {
		h.t.Fatalf("the home has %+v", r)
	}
}

// PROTOCOL HOM-4: the version of what is accepted afterwards is greater, whatever the clocks say.
func TestAWriteIsAboveWhatClientsWereShownFromElsewhere(t *testing.T) {
	h := newHomeHarness(t)
	ahead := causal.HLCAt(h.now.WallMs + 9_000)
	h.completeAllElsewhere(h.now.WallMs + 9_000)
	got := h.show(causal.HomeRead{ID: 1, Key: "x", Shown: fromElsewhere(ahead)})
	if len(got) != 1 || got[0].From != ahead {
		t.Fatalf("it is answered with %+v", got)
	}
	if v := h.write(causal.Put{Seq: 1, Key: "x"}); v.HLC <= ahead {
		t.Errorf("the write got %s, and %d was shown", v, ahead)
	}
	if r := h.top("y"); r.From >= ahead {
		t.Error("reads of other keys are to include it")
	}
	further := causal.HomeRead{ID: 1, Key: "u", More: []causal.Moved{{Key: "v"},
		{Key: "w", Record: causal.Record{Version: causal.Version{HLC: ahead + 1, Origin: 2}}}}}
	if got := h.show(further); len(got) != 3 || got[1].From >= ahead || got[2].From != ahead+1 {
		t.Fatalf("of several keys it is answered with %+v", got)
	}
	if v := h.write(causal.Put{Seq: 2, Key: "w"}); v.HLC <= ahead+1 {
		t.Errorf("the write got %s, and %d was shown", v, ahead+1)
	}
	far := causal.HLCAt(h.now.WallMs + 3_600_000)
	got = h.ask(causal.HomeRead{ID: 1, Key: "x", Shown: fromElsewhere(far)})
	if len(got) != 1 || got[0].Err != causal.ErrClock {
		t.Errorf("a version that is an hour ahead is answered with %+v", got)
	}
	further.More[1].Record.Version.HLC = far
	if got := h.show(further); len(got) != 3 || got[2].Err != causal.ErrClock {
		t.Errorf("one of several that is an hour ahead is answered with %+v", got)
	}
}

// PROTOCOL HOM-3: the table stays within its share, of keys that are written once and of one that is always written.
func TestWhileADataCenterIsSilentTheHomeForgetsTheOldest(t *testing.T) {
	for name, key := range map[string]func(i int) string{
		"many keys": func(i int) string { return fmt.Sprint("k", i) },
		"one key":   func(int) string { return "k" },
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, 1, 0)
			h.cfg.Home, h.cfg.MaxBytes = true, 256<<10
			h.restart(h.now)
			h.haveHomes(1)
			limit, stands := h.cfg.MaxBytes/maxHomeShare, h.c.home.from
			var newest causal.Version
			for i := range 3_000 {
				newest = h.write(causal.Put{Seq: uint64(i + 1), Key: key(i), Value: valueOf("some value")})
				h.ack(shardsA, newest)
				h.ack(shardsB, newest)
				if h.c.home.bytes > limit {
					t.Fatalf("after %d writes the home has %d bytes, and the limit is %d", i, h.c.home.bytes, limit)
				}
			}
			if r := h.top(key(2_999)); r.Record.Version != newest {
				t.Errorf("of the newest write it has %+v", r)
			}
			if name == "many keys" {
				if r := h.top(key(0)); !r.Record.Version.IsZero() || r.From <= stands {
					t.Errorf("of the oldest write it has %+v", r)
				}
			} else if h.c.home.from > stands {
				t.Error("what reads elsewhere must include has risen, though the newest write of each key is here")
			}
		})
	}
}

// PROTOCOL HOM-3: a key that nobody reads is forgotten as well.
func TestTheHomeForgetsWhatTheCutHasPassedWithoutBeingAsked(t *testing.T) {
	h := newHomeHarness(t)
	for i := range 50 {
		v := h.write(causal.Put{Seq: uint64(i + 1), Key: fmt.Sprint("k", i)})
		h.ack(shardsA, v)
		h.ack(shardsB, v)
		h.tick(100)
		h.completeAllElsewhere(h.now.WallMs)
	}
	if n := len(h.c.home.keys); n > 30 {
		t.Errorf("it keeps %d keys of the last 5 s", n)
	}
}

// PROTOCOL HOM-5.
func TestAPutThatFollowsAllNamesForeignWritesThatOthersDependOn(t *testing.T) {
	for _, broken := range []bool{false, true} {
		h := newHomeHarness(t, mutationIf(broken, causal.HomeSkipsPast)...)
		foreign := h.elsewhere(1)[0]
		x := h.write(causal.Put{Seq: 1, Session: 1, Key: "x", Deps: []causal.Dep{foreign}, Foreign: foreign.Version.HLC})
		if r := h.top("x"); !slices.Equal(r.Deps, []causal.Dep{foreign}) || r.Past != foreign.Version.HLC {
			t.Errorf("who reads it is told %+v", r)
		}
		_, after := h.put(causal.Put{Seq: 1, Session: 2, Key: "y", Local: x.HLC})
		y := reply(t, after).Version
		for _, m := range ofKind(after, causal.KindPutAfter) {
			p := m.PutAfter()
			follows := slices.Contains(p.Deps.Writes(), foreign)
			if follows == broken {
				t.Errorf("broken %v: the put-after to %v names %+v", broken, m.To, p.Deps)
			}
		}
		if r := h.top("y"); (r.Past == foreign.Version.HLC) == broken {
			t.Errorf("broken %v: who reads the second is told %+v", broken, r)
		}
		h.ack(shardsA, x, y)
		h.ack(shardsB, x, y)
		h.completeAllElsewhere(h.now.WallMs)
		if n := len(h.c.home.carriers); n > 0 {
			t.Errorf("%d writes are kept for what they depend on, and all is complete", n)
		}
	}
}

// PROTOCOL HOM-5.
func TestAPutThatFollowsAllFollowsItAfterARestart(t *testing.T) {
	h := newHarnessOf(t, twoShardsOf(t, 1))
	h.cfg.Home = true
	h.restart(h.now)
	h.haveHomes(1)
	keys := map[uint64]string{} // by the shard of the first ring that owns them
	for i := 0; len(keys) < 2; i++ {
		key := fmt.Sprint("k", i)
		keys[h.cfg.Topology.Owner(0, topology.SlotOf(key)).Index] = key
	}
	first := h.write(causal.Put{Seq: 1, Session: 1, Key: keys[0]})
	second := h.write(causal.Put{Seq: 1, Session: 2, Key: keys[1], Local: first.HLC})
	deps := func() []causal.HLC { return h.c.incomplete[second.HLC].laneDeps }
	before := slices.Clone(deps())
	if !slices.Contains(before, first.HLC) {
		t.Errorf("the second write follows, by lane, %v; want %d", before, first.HLC)
	}
	h.restart(h.now)
	if after := deps(); !slices.Equal(before, after) {
		t.Errorf("after a restart it follows %v; want %v", after, before)
	}
}

// PROTOCOL HOM-7.
func TestTheHomeRefusesAReaderWhoHasSeenMoreOfItThanItHas(t *testing.T) {
	h := newHomeHarness(t)
	v := h.write(causal.Put{Seq: 1, Key: "x"})
	for i, tt := range []struct {
		seen causal.HLC
		want causal.ErrCode
	}{{v.HLC + 1, causal.ErrUnavailable}, {v.HLC, causal.OK}} {
		if got := h.ask(causal.HomeRead{ID: 3, Key: "x", More: []causal.Moved{{Key: "y"}}, Seen: tt.seen}); len(got) != 2 ||
			got[0].Err != tt.want || got[1].Err != tt.want || got[0].ID != 3 || got[1].ID != 4 {
			t.Errorf("a read that has seen %d is answered with %+v", tt.seen, got)
		}
		seq := uint64(2 + i)
		got := h.refusal(causal.Put{Seq: seq, Unanswered: seq, Session: 2, Key: "y", Local: tt.seen})
		if got != tt.want {
			t.Errorf("a put that has seen %d is answered with %s", tt.seen, got)
		}
	}
}

// PROTOCOL HOM-8.
func TestAfterARestartReadsElsewhereMustIncludeAllThatWasComplete(t *testing.T) {
	for _, broken := range []bool{false, true} {
		h := newHomeHarness(t, mutationIf(broken, causal.HomeForgetsMark)...)
		v := h.write(causal.Put{Seq: 1, Key: "x", Value: valueOf("1")})
		w := h.write(causal.Put{Seq: 2, Key: "y", Value: valueOf("1")})
		h.ack(shardsA, v)
		h.ack(shardsB, v)
		h.tick(5_000)
		for range 3 { // it is complete, and checkpoints do not say so, or do
			h.truncate()
			h.restart(h.now)
			if r := h.top("x"); (r.Record.Version.IsZero() && r.From < v.HLC) != broken {
				t.Errorf("broken %v: of what was complete the home says %+v", broken, r)
			}
			if r := h.top("y"); r.Record.Version != w || r.Complete {
				t.Errorf("of what was not the home says %+v", r)
			}
			h.tick(5_000)
		}
	}
}

// PROTOCOL HOM-8.
func TestAfterARestartReadsElsewhereMustIncludeWhatClientsWereShown(t *testing.T) {
	for _, broken := range []bool{false, true} {
		h := newHomeHarness(t, mutationIf(broken, causal.HomeForgetsCeiling)...)
		h.tick(5_000)
		now := h.c.log.durable.Ceiling
		for _, shown := range []causal.HLC{now - causal.HLCAt(1_000), now + causal.HLCAt(300)} {
			h.show(causal.HomeRead{ID: 1, Key: "x", Shown: fromElsewhere(shown)})
			if r := h.top("x"); r.From < shown {
				t.Errorf("broken %v: after it was told the home says %+v", broken, r)
			}
			h.restart(h.now)
			if r := h.top("x"); r.From < shown != broken {
				t.Errorf("broken %v: of what was shown the home says %+v after a restart", broken, r)
			}
		}
	}
}

func TestACoordinatorThatIsNoHomeAnswersNoReads(t *testing.T) {
	h := newHarness(t, 1, 0)
	if got := h.ask(causal.HomeRead{ID: 1, Key: "x"}); len(got) != 1 || got[0].Err != causal.ErrUnavailable {
		t.Errorf("it answers %+v", got)
	}
	if got := h.refusal(causal.Put{Seq: 1, Key: "x", Conditional: true}); got != causal.ErrUnavailable {
		t.Errorf("it answers a conditional put with %s", got)
	}
}

// PROTOCOL HOS-1: the write has the greater version, and its client has not seen what is shown.
func TestWhatIsShownWaitsForAWriteUnderWay(t *testing.T) {
	h := newHomeHarness(t)
	h.tick(5_000) // it has a durable ceiling
	h.write(causal.Put{Seq: 1, Key: "x", Value: valueOf("1")})
	shown := h.c.clock.Peek(h.now) + 1
	h.step(causal.Put{Seq: 2, Key: "x", Value: valueOf("2")}.Message(app, h.cfg.Self))
	if got := h.ask(causal.HomeRead{ID: 5, Key: "x", Shown: fromElsewhere(shown)}); len(got) > 0 {
		t.Fatalf("it is answered at once: %+v", got)
	}
	if got := h.ask(causal.HomeRead{ID: 6, Key: "x"}); len(got) > 0 {
		t.Errorf("another one, which must look for it elsewhere, is answered at once: %+v", got)
	}
	h.sync()
	got := homeReplies(h.c.Take(nil))
	if len(got) != 2 || string(got[0].Record.Value.Data) != "2" || string(got[1].Record.Value.Data) != "2" {
		t.Errorf("they are answered with %+v", got)
	}
}

// PROTOCOL HOS-3: two data centers may write a key with the same HLC, and the one of the greater origin is the newer
// write. A sidecar of a version before does not name the origin.
func TestAConditionOnAWriteDoesNotIncludeOneOfTheSameHLC(t *testing.T) {
	for name, tt := range map[string]struct {
		shown     topology.Origin
		below, at bool // whether a read is the newest that includes what is below the HLC; and what is at it
	}{
		"a greater origin":      {originB, false, false},
		"one that is not named": {0, false, true},
	} {
		for _, broken := range []bool{false, true} {
			h := newHomeHarness(t, mutationIf(broken, causal.HomeComparesTimes)...)
			h.tick(5_000)
			v := h.write(causal.Put{Seq: 1, Key: "x", Value: valueOf("1")})
			h.show(causal.HomeRead{ID: 5, Key: "x", Shown: causal.Version{HLC: v.HLC, Origin: tt.shown}})
			p := causal.Put{Key: "x", Conditional: true, If: v, From: v.HLC - 1}
			if got := h.c.home.isNewest(&p); got != (tt.below || broken) {
				t.Errorf("%s, broken %v: a read that includes what is below it is the newest: %v", name, broken, got)
			}
			p.From = v.HLC
			if got := h.c.home.isNewest(&p); got != (tt.at || broken) {
				t.Errorf("%s, broken %v: a read that includes what is at it is the newest: %v", name, broken, got)
			}
		}
	}
}

// PROTOCOL HOS-3.
func TestWhatIsShownWaitsForAWriteOfTheSameHLC(t *testing.T) {
	for _, broken := range []bool{false, true} {
		h := newHomeHarness(t, mutationIf(broken, causal.HomeComparesTimes)...)
		h.tick(5_000)
		v := h.write(causal.Put{Seq: 1, Key: "x", Value: valueOf("1")})
		put := causal.Put{Seq: 2, Key: "x", Value: valueOf("2"), Conditional: true, If: v}
		h.step(put.Message(app, h.cfg.Self))
		for i, shown := range []causal.Version{fromElsewhere(v.HLC), {HLC: v.HLC}} {
			if waits := len(h.ask(causal.HomeRead{ID: uint64(5 + i), Key: "x", Shown: shown})) == 0; waits == broken {
				t.Errorf("broken %v: what is shown of %v waits: %v", broken, shown, waits)
			}
		}
		if got := h.top("other"); !got.Shown.IsZero() {
			t.Errorf("of another key it says that %v was shown", got.Shown)
		}
		h.sync()
		h.c.Take(nil)
		got := h.top("x")
		if string(got.Record.Value.Data) != "2" || got.From != v.HLC || got.Shown.IsZero() != broken {
			t.Errorf("broken %v: then it says %+v", broken, got)
		}
	}
}
