package session

import (
	"fmt"
	"testing"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

func TestAnInFlightReadBindsTheSessionToTheRingsThatHaveIt(t *testing.T) {
	showsFault(t, causal.ForgetBind, func(r *rig) string {
		r.read("x", version(10), causal.InFlight, middle)
		r.startGet("y")
		if m := r.request(causal.KindGet); m.To != r.shard(middle) || m.Get().Seen != 10 {
			return fmt.Sprintf("after a read from ring middle, %s was asked for what is not older than %d", m.To,
				m.Get().Seen)
		}
		return ""
	})
}

func TestAReplyThatWouldLeaveNoRingIsReadAgain(t *testing.T) {
	showsFault(t, causal.TwoRings, func(r *rig) string {
		first, second := r.startGet("x"), r.startGet("y")
		gets := r.sent(causal.KindGet)
		r.replyGet(gets[0], causal.GetReply{Record: record(version(10)), Ring: near})
		r.mustResult(first)
		r.replyGet(gets[1], causal.GetReply{Record: record(version(20)), Ring: far})
		if res, ok := r.result(second); ok {
			return fmt.Sprintf("a session that is bound to ring near has read %s, which is in ring far only",
				res.Record.Version)
		}
		if m := r.request(causal.KindGet); m.To != r.shard(near) {
			return fmt.Sprintf("it was read again at %s", m.To)
		}
		return ""
	})
}

func TestARestrictionIsLifted(t *testing.T) {
	v := version(10)
	for _, tt := range []struct {
		name  string
		lift  func(r *rig)
		rings topology.RingSet // that may be read afterwards; 0: the session is unbound
	}{
		{"by nothing", func(*rig) {}, topology.RingsOf(near)},
		{"by SV of the origin", func(r *rig) { r.vectors(causal.VectorEntry{Origin: v.Origin, SV: 10}) }, 0},
		{"but not by SV of another origin", func(r *rig) {
			r.vectors(causal.VectorEntry{Origin: 1, SV: 10})
		}, topology.RingsOf(near)},
		{"but not by SV below it", func(r *rig) {
			r.vectors(causal.VectorEntry{Origin: v.Origin, SV: 9})
		}, topology.RingsOf(near)},
		{"for a ring by its RV", func(r *rig) {
			r.vectors(causal.VectorEntry{Origin: v.Origin, RV: []causal.HLC{0, 0, 10}})
		}, topology.RingsOf(near, far)},
		{"for a ring by its answer to notify-after", func(r *rig) {
			r.depStatus(v, middle, false)
		}, topology.RingsOf(near, middle)},
		{"by notify-after of all rings", func(r *rig) {
			r.depStatus(v, near, true)
			r.depStatus(v, middle, true)
			r.depStatus(v, far, true)
		}, 0},
		{"by the word of the own ring that it is complete", func(r *rig) {
			r.step(causal.DepStatus{Version: v, Ring: near, Clean: true, Complete: true}.Message(r.shard(near),
				r.s.cfg.Self))
		}, 0},
		{"but not by that of another ring", func(r *rig) {
			r.step(causal.DepStatus{Version: v, Ring: far, Clean: true, Complete: true}.Message(r.shard(far),
				r.s.cfg.Self))
		}, topology.RingsOf(near, far)},
		{"but not by the word of a shard that does not own the slot", func(r *rig) {
			liar := r.shard(middle)
			liar.Index++
			r.step(causal.DepStatus{Version: v, Ring: middle}.Message(liar, r.s.cfg.Self))
		}, topology.RingsOf(near)},
		{"but not while a ring is not clean", func(r *rig) {
			r.depStatus(v, near, true)
			r.depStatus(v, middle, true)
			r.depStatus(v, far, false)
		}, topology.RingsOf(near, middle, far)},
		{"by completion of an own put that was sent later", func(r *rig) {
			r.write("y", "1", ownVersion(20))
			r.complete(ownVersion(20))
		}, 0},
		{"but not by its acknowledgement", func(r *rig) { r.write("y", "1", ownVersion(20)) }, topology.RingsOf(near)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t)
			r.read("x", v, causal.InFlight, near)
			if _, rings := r.bound(); rings != topology.RingsOf(near) { // what is computed here is kept
				t.Fatalf("a session that has read from ring near may read rings %b", rings)
			}
			tt.lift(r)
			want := tt.rings
			if want == 0 {
				want = r.topo.AllRings()
			}
			if bound, rings := r.bound(); bound != (tt.rings != 0) || rings != want {
				t.Errorf("bound: %t, to rings %b; want rings %b", bound, rings, want)
			}
		})
	}
}

func TestAPutThatWasSentBeforeTheReadDoesNotLiftItsRestriction(t *testing.T) {
	showsFault(t, causal.LiftByEarlierPut, func(r *rig) string {
		r.startPut("y", "1")
		put := r.request(causal.KindPut)
		r.read("x", version(10), causal.InFlight, near)
		r.replyPut(put, ownVersion(20), causal.OK)
		r.complete(ownVersion(20))
		if bound, _ := r.bound(); !bound {
			return "a put that does not depend on the read has lifted its restriction"
		}
		return ""
	})
}

// The put was sent while the read was in flight: it does not name what the read returned.
func TestAPutThatWasSentBeforeTheReplyOfAReadDoesNotCoverIt(t *testing.T) {
	r := newRig(t)
	r.startGet("x")
	get := r.request(causal.KindGet)
	r.startPut("y", "1")
	put := r.request(causal.KindPut)
	r.replyGet(get, causal.GetReply{Record: record(version(10)), Ring: near})
	r.replyPut(put, ownVersion(20), causal.OK)
	r.complete(ownVersion(20))
	if bound, _ := r.bound(); !bound {
		t.Error("the put has lifted the restriction")
	}
	r.startPut("y", "2")
	if deps := r.request(causal.KindPut).Put().Deps; len(deps) != 1 || deps[0].Version != version(10) {
		t.Errorf("the next put depends on %v, want the read", deps)
	}
}

func TestReadingAStableOrAnOwnVersionDoesNotBind(t *testing.T) {
	for _, tt := range []struct {
		name string
		read func(r *rig)
	}{
		{"stable", func(r *rig) { r.read("x", version(10), causal.Stable, near) }},
		{"in-flight, but complete as the sidecar knows", func(r *rig) {
			r.completeUpTo(10)
			r.read("x", version(10), causal.InFlight, near)
		}},
		{"missing", func(r *rig) { r.read("x", causal.Missing(10).Version, causal.InFlight, near) }},
		{"own write that has just completed", func(r *rig) {
			r.write("x", "1", ownVersion(10))
			r.complete(ownVersion(10))
			r.read("x", ownVersion(10), causal.InFlight, near)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t)
			tt.read(r)
			if bound, _ := r.bound(); bound {
				t.Error("the session is bound")
			}
		})
	}
}

func TestEveryRingIsAskedForARestrictionThatSVDoesNotLift(t *testing.T) {
	r := newRig(t)
	r.read("x", version(10), causal.InFlight, near)
	r.tick(time.Second)
	if asked := r.sent(causal.KindDepCheck); len(asked) > 0 {
		t.Fatalf("%s was asked before the time", asked[0].To)
	}
	r.tick(time.Second)
	for ring, m := range r.sent(causal.KindDepCheck) {
		if c := m.DepCheck(); m.To != r.shard(topology.RingID(ring)) || c.Version != version(10) ||
			c.Slot != topology.SlotOf("x") {
			t.Errorf("%s was asked for %+v", m.To, c)
		}
	}
	r.depStatus(version(10), near, true)
	r.tick(2 * time.Second)
	if again := r.sent(causal.KindDepCheck); len(again) != 2 || again[0].To != r.shard(middle) ||
		again[1].To != r.shard(far) {
		t.Errorf("after ring near had answered, %d rings were asked again, want middle and far", len(again))
	}
}

func TestReadsOfFurtherInFlightVersionsWaitAtTheBoundOfRestrictions(t *testing.T) {
	r := newRig(t, noCache, func(c *Config) { c.MaxRestrictions = 1 })
	r.read("x", version(10), causal.InFlight, near)
	id := r.startGet("y")
	r.replyGet(r.request(causal.KindGet), causal.GetReply{Record: record(version(20)), Ring: near})
	r.mustBeUnfinished(id)
	r.read("x", version(10), causal.InFlight, near) // adds no restriction
	r.vectors(causal.VectorEntry{Origin: version(0).Origin, SV: 10})
	r.tick(unusableDelay)
	r.replyGet(r.request(causal.KindGet), causal.GetReply{Record: record(version(20)), Ring: near})
	if res := r.mustResult(id); res.Record.Version != version(20) {
		t.Errorf("read %s", res.Record.Version)
	}
}

func TestComparisonsSwitchOffWhatGoesBeyondKarma(t *testing.T) {
	t.Run("without ring sets", func(t *testing.T) {
		r := newRig(t, func(c *Config) { c.Comparison.WithoutRingSets = true })
		r.receivedUpTo(10, far)
		r.read("x", version(10), causal.InFlight, near)
		r.depStatus(version(10), middle, false)
		if _, rings := r.bound(); rings != topology.RingsOf(near) {
			t.Errorf("bound to rings %b, want near alone", rings)
		}
	})
	t.Run("without lifting by SV", func(t *testing.T) {
		r := newRig(t, func(c *Config) { c.Comparison.WithoutSVLifting = true })
		r.read("x", version(10), causal.InFlight, near)
		r.completeUpTo(10)
		if bound, _ := r.bound(); !bound {
			t.Error("SV has lifted the restriction")
		}
		r.tick(0)
		if asked := r.sent(causal.KindDepCheck); len(asked) != 3 {
			t.Errorf("%d rings were asked at once, want 3", len(asked))
		}
	})
}

// A read of it binds again: what was lifted for one version of many must not be found.
func TestARestrictionThatIsLiftedIsNotFound(t *testing.T) {
	for _, n := range []int{3, 2 * indexedFrom} {
		var rs restrictions
		for i := range n {
			rs.add(&restriction{version: version(causal.HLC(i + 1))})
		}
		rs.lift(func(r *restriction) bool { return r.version.HLC == 2 })
		if rs.find(version(2)) != nil || rs.find(version(1)) == nil {
			t.Errorf("of %d, the one that is lifted is found: %v; another one: %v", n, rs.find(version(2)) != nil,
				rs.find(version(1)) != nil)
		}
	}
}
