package session

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// newHomesRig returns a rig whose data center has two homes, at which all is complete up to 1000, and a key of each.
func newHomesRig(t *testing.T, configure ...func(*Config)) (r *rig, keys [2]string) {
	r = newRig(t, append(configure, localReads)...)
	r.completeUpTo(at(1000))
	r.sent(causal.KindNone)
	for i := 0; keys[0] == "" || keys[1] == ""; i++ {
		key := fmt.Sprint("k", i)
		keys[r.topo.HomeOf(0, topology.SlotOf(key), 2).Index] = key
	}
	return r, keys
}

func broken(f causal.Mutation) func(*Config) {
	return func(c *Config) { c.Broken = causal.MutationsOf(f) }
}

func ofHome(home int, ms int64) causal.Version {
	return causal.Version{HLC: at(ms), Origin: topology.Origin(home + 1)}
}

func depOf(key string, v causal.Version) causal.Dep {
	return causal.Dep{Version: v, Slot: topology.SlotOf(key)}
}

// PROTOCOL HOM-10.
func TestPutsGoToTheHomesOfTheirKeysInOrder(t *testing.T) {
	r, keys := newHomesRig(t)
	var ids []uint64
	for i, key := range []string{keys[0], keys[0], keys[1], keys[1], keys[0]} {
		ids = append(ids, r.startPut(key, fmt.Sprint(i)))
	}
	first := r.sent(causal.KindPut)
	if len(first) != 2 || first[0].To.Index != 0 || first[1].To.Index != 0 {
		t.Fatalf("before any answer, %d puts were sent", len(first))
	}
	r.replyPut(first[0], ofHome(0, 1501), causal.OK)
	if early := r.sent(causal.KindPut); len(early) != 0 {
		t.Fatal("a put to another home did not wait for the last one before it")
	}
	r.replyPut(first[1], ofHome(0, 1502), causal.OK)
	second := r.sent(causal.KindPut)
	if len(second) != 2 || second[0].To.Index != 1 || second[1].To.Index != 1 {
		t.Fatalf("then %d puts were sent", len(second))
	}
	for _, m := range second {
		if deps := m.Put().Deps; !slices.Equal(deps, []causal.Dep{depOf(keys[0], ofHome(0, 1502))}) {
			t.Errorf("a put at the other home names %+v", deps)
		}
	}
	r.replyPut(second[0], ofHome(1, 1503), causal.OK)
	r.replyPut(second[1], ofHome(1, 1504), causal.OK)
	third := r.request(causal.KindPut)
	r.replyPut(third, ofHome(0, 1505), causal.OK)
	if p := third.Put(); string(p.Value.Data) != "4" || third.To.Index != 0 {
		t.Errorf("the last put is %+v, to %v", p, third.To)
	}
	for _, id := range ids {
		if res := r.mustResult(id); res.Err != causal.OK {
			t.Errorf("put %d: %s", id, res.Err)
		}
	}
}

// PROTOCOL HOM-10.
func TestAPutNamesWhatWasReadAtAnotherHome(t *testing.T) {
	for _, dropped := range []bool{false, true} {
		var configure []func(*Config)
		if dropped {
			configure = append(configure, broken(causal.LocalPastDropped))
		}
		r, keys := newHomesRig(t, configure...)
		r.readAtHome(keys[0], causal.HomeReply{Record: record(ofHome(0, 1500))})
		r.startPut(keys[1], "1")
		put := r.request(causal.KindPut)
		named := slices.Contains(put.Put().Deps, depOf(keys[0], ofHome(0, 1500)))
		if named == dropped || put.Put().Local != 0 {
			t.Errorf("broken %v: the put at the other home is %+v", dropped, put.Put())
		}
		for i, want := range []causal.HLC{at(1500), 0} {
			r.startGet(keys[i])
			if home, _ := r.asked(); home.HomeRead().Seen != want || home.To.Index != uint64(i) {
				t.Errorf("home %v is told that %d was seen of it", home.To, home.HomeRead().Seen)
			}
		}
		r.replyPut(put, ofHome(1, 1600), causal.OK)
		r.startPut(keys[1], "2")
		if deps := r.request(causal.KindPut).Put().Deps; !slices.Equal(deps,
			[]causal.Dep{depOf(keys[1], ofHome(1, 1600))}) {
			t.Errorf("the put after that names %+v", deps)
		}
	}
}

// PROTOCOL HOM-10: the readers at the second home do not hear what the put at the first one has named.
func TestAPutAtAnotherHomeNamesAllOfOtherDataCenters(t *testing.T) {
	for _, forgets := range []bool{false, true} {
		var configure []func(*Config)
		if forgets {
			configure = append(configure, broken(causal.LocalCoveredElsewhere))
		}
		r, keys := newHomesRig(t, configure...)
		foreign := depOf("z", version(at(1300)))
		r.receivedUpTo(foreign.Version.HLC, far)
		r.readAtHome(keys[0], causal.HomeReply{Record: record(ofHome(0, 1500)), Past: foreign.Version.HLC,
			Deps: []causal.Dep{foreign}})
		r.write(keys[0], "1", ofHome(0, 1600))
		r.startPut(keys[1], "2")
		deps := r.request(causal.KindPut).Put().Deps
		if slices.Contains(deps, foreign) == forgets || !slices.Contains(deps, depOf(keys[0], ofHome(0, 1600))) {
			t.Errorf("broken %v: the put names %+v", forgets, deps)
		}
	}
}

// What a value of a home depends on at another one is asked of that one, and of no ring.
func TestAValueThatFollowsAnotherHomeDoesNotBindItsReader(t *testing.T) {
	r, keys := newHomesRig(t)
	r.readAtHome(keys[1], causal.HomeReply{Record: record(ofHome(1, 1500)),
		Deps: []causal.Dep{depOf(keys[0], ofHome(0, 1400))}})
	if bound, _ := r.bound(); bound {
		t.Error("the session is bound")
	}
	r.startGet(keys[0])
	if home, _ := r.asked(); home.HomeRead().Seen != at(1400) {
		t.Errorf("the other home is told that %d was seen of it", home.HomeRead().Seen)
	}
	r.start(Op{Kind: OpGet, Key: "y", Level: causal.Newest})
	if _, rings := r.bound(); rings != 0 {
		t.Errorf("an operation past the homes may read from rings %b, which lack what was read there", rings)
	}
}

// PROTOCOL HOK-2.
func TestAnMGetAtSeveralHomesTakesTwoEqualRounds(t *testing.T) {
	for _, once := range []bool{false, true} {
		var configure []func(*Config)
		if once {
			configure = append(configure, broken(causal.LocalOneRound))
		}
		r, keys := newHomesRig(t, configure...)
		r.start(Op{Kind: OpMGet, Keys: []string{keys[0], keys[1]}})
		sent := func() (homes []causal.Message, elsewhere bool) {
			for _, m := range r.s.Take(nil) {
				if m.Kind == causal.KindHomeRead {
					homes = append(homes, m)
				}
				elsewhere = elsewhere || m.Kind == causal.KindGet
			}
			return homes, elsewhere
		}
		for round, second := range []int64{1501, 1502, 1502} {
			homes, _ := sent()
			if len(homes) != 2 {
				t.Fatalf("broken %v: round %d asks %d homes", once, round, len(homes))
			}
			for _, m := range homes {
				v := ofHome(int(m.To.Index), []int64{1500, second}[m.To.Index])
				r.replyHome(&m, causal.HomeReply{Record: record(v), Complete: true})
			}
			if once || round == 2 {
				break
			}
		}
		if homes, elsewhere := sent(); !elsewhere || len(homes) != 0 {
			t.Errorf("broken %v: at the end %d homes are asked, and elsewhere: %v", once, len(homes), elsewhere)
		}
	}
}

// PROTOCOL HOC-4: another home cannot follow what it has accepted.
func TestAPutAtAnotherHomeWaitsForWhatWasReadAtTheOnlyOne(t *testing.T) {
	for _, unnamed := range []bool{true, false} {
		r, keys := newHomesRig(t)
		first := topology.Node{Part: topology.Coordinator}
		for _, ss := range r.s.sessions { // as if it had been read while there was one home
			ss.local.add(ofHome(0, 1500))
			if unnamed {
				ss.local.noteUnnamed(ofHome(0, 1500))
			}
			r.s.activate(ss)
		}
		r.startPut(keys[1], "1")
		if sent := len(r.sent(causal.KindPut)) > 0; sent == unnamed {
			t.Errorf("unnamed %v: the put at the other home is sent %v", unnamed, sent)
		}
		if !unnamed {
			continue
		}
		r.startPut(keys[0], "2") // it comes after the other one
		r.completeUpTo(at(1600))
		r.tick(100 * time.Millisecond)
		if put := r.request(causal.KindPut); put.To == first || put.Put().Key != keys[1] {
			t.Errorf("when it is complete, %+v is sent", put)
		}
	}
}

// PROTOCOL HOM-4, HOC-1: the homes of now are told what is shown, and not those that were asked.
func TestAnMGetStartsAgainWhenTheNumberOfHomesChanges(t *testing.T) {
	r, keys := newHomesRig(t)
	first := topology.Node{Part: topology.Coordinator}
	r.step(causal.Homes{Number: 1, Count: 1}.Message(first, r.s.cfg.Self))
	id := r.start(Op{Kind: OpMGet, Keys: []string{keys[0], keys[1]}})
	home, _ := r.askedForAll()
	r.replyHomeOfAll(home[0], at(900), nil)
	_, elsewhere := r.askedForAll()
	r.step(causal.Homes{Number: 2, Count: 2}.Message(first, r.s.cfg.Self))
	for _, m := range elsewhere {
		r.replyGet(m, stable(at(950)))
	}
	r.mustBeUnfinished(id)
	homes, _ := r.askedForAll()
	if len(homes) != 2 || homes[0].HomeRead().Shown.HLC != 0 || homes[1].HomeRead().Shown.HLC != 0 {
		t.Errorf("it asks %v", homes)
	}
}
