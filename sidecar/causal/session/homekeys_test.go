package session

import (
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
)

// startMGetAtHome starts an MGET of x and y, of which the home has x0 and nothing of y. It returns the reads elsewhere.
func (r *rig) startMGetAtHome() (id uint64, elsewhere []*causal.Message) {
	r.t.Helper()
	id = r.start(Op{Kind: OpMGet, Keys: []string{"x", "y"}})
	home, _ := r.askedForAll()
	r.replyHomeOfAll(home[0], at(900), map[string]causal.HomeReply{"x": {Record: record(homeVersion(960))}})
	_, elsewhere = r.askedForAll()
	if keysOf(elsewhere) != "[x y]" {
		r.t.Fatalf("asked elsewhere for %s", keysOf(elsewhere))
	}
	return id, elsewhere
}

// PROTOCOL HOK-2: x has been overwritten together with y, or after it, since the home was asked.
func TestAnMGetThatFindsWhatTheHomeHadNotPublishedStartsAgain(t *testing.T) {
	r := newLocalRig(t)
	id, elsewhere := r.startMGetAtHome()
	r.replyGet(elsewhere[0], causal.GetReply{Record: record(homeVersion(990)), Status: causal.Stable})
	r.replyGet(elsewhere[1], stable(at(950)))
	r.mustBeUnfinished(id)
	r.tick(homeBusy)
	if home, _ := r.askedForAll(); len(home) != 1 || home[0].HomeRead().Shown.HLC != 0 {
		t.Errorf("it asks %v", home)
	}
}

// PROTOCOL HOK-2: what is shown of y was not so at one time with what the home had of x.
func TestAnMGetThatTellsTheHomeStartsAgainIfAnyKeyHasChanged(t *testing.T) {
	for what, reply := range map[string]causal.HomeReply{
		"a newer write":                      {Record: record(homeVersion(1300))},
		"one that the home has forgotten":    {From: at(1300)},
		"one of the same HLC that was shown": {From: at(950), Shown: causal.Version{HLC: at(950), Origin: 1 << 20}},
	} {
		r := newLocalRig(t)
		id, elsewhere := r.startMGetAtHome()
		r.replyGet(elsewhere[0], stable(at(800)))
		r.replyGet(elsewhere[1], stable(at(950)))
		home, _ := r.askedForAll()
		if len(home) != 1 || len(home[0].HomeRead().More) != 1 {
			t.Fatalf("the home is told %v", home)
		}
		r.replyHomeOfAll(home[0], at(900), map[string]causal.HomeReply{"x": reply})
		r.mustBeUnfinished(id)
		r.tick(homeBusy)
		if home, _ := r.askedForAll(); len(home) != 1 || home[0].HomeRead().Shown.HLC != 0 {
			t.Errorf("%s: it asks %v", what, home)
		}
	}
}

// PROTOCOL HOM-3: a sidecar that has heard of no cut reads anything, and that includes nothing.
func TestAGetWithoutABaseReadsAgainWhatTheHomeHasForgotten(t *testing.T) {
	c := causal.Get{Snapshot: true, Cut: at(10), At: causal.NoLimit}
	if from := includedBy(&c); from != at(10) {
		t.Errorf("an answer to it includes everything up to %d", from)
	}
	c.Base = at(20)
	if from := includedBy(&c); from != at(20) {
		t.Errorf("with a base it includes everything up to %d", from)
	}
}
