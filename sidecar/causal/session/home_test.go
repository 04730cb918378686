package session

import (
	"slices"
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// localReads makes all sessions ask the homes; the origin of the first is the one of ownVersion.
func localReads(c *Config) { snapshotReads(c); c.Level = causal.Local }

// oneHome makes the first coordinator the home of all keys.
func oneHome(c *Config) {
	dcs := slices.Clone(c.Topology.DCs)
	dcs[0].Coordinators = 1
	topo, err := topology.New(1, dcs, c.Topology.Rings, c.Topology.RTT)
	if err != nil {
		panic(err)
	}
	c.Topology = topo
}

// asked returns what was asked of the home and what of others since the last call.
func (r *rig) asked() (home, elsewhere *causal.Message) {
	for _, m := range r.s.Take(nil) {
		switch m.Kind {
		case causal.KindHomeRead:
			home = &m
		case causal.KindGet:
			elsewhere = &m
		}
	}
	return home, elsewhere
}

func (r *rig) replyHome(request *causal.Message, reply causal.HomeReply) {
	read := request.HomeRead()
	reply.ID, reply.Key = read.ID, read.Key
	r.step(reply.Message(request.To, request.From))
}

// newLocalRig returns a rig with one home, at which all is complete up to 1000.
func newLocalRig(t *testing.T) *rig {
	r := newRig(t, localReads, oneHome)
	r.completeUpTo(at(1000))
	r.sent(causal.KindNone)
	return r
}

func (r *rig) readAtHome(key string, reply causal.HomeReply) Result {
	r.t.Helper()
	id := r.startGet(key)
	home, _ := r.asked()
	r.replyHome(home, reply)
	return r.mustResult(id)
}

func homeVersion(ms int64) causal.Version { return causal.Version{HLC: at(ms), Origin: 1} }

func TestAGetIsAnsweredFromTheHomeWithoutWaitingForARing(t *testing.T) {
	r := newLocalRig(t)
	v := homeVersion(1500)
	res := r.readAtHome("x", causal.HomeReply{Record: record(v)})
	if res.Record.Version != v || res.Outcome.Source != SourceHome || res.Outcome.Status != causal.InFlight {
		t.Errorf("the answer is %+v", res)
	}
	if bound, _ := r.bound(); bound {
		t.Error("it binds the session, and the home had all that it depends on")
	}
}

func TestACompleteWriteOfTheHomeIsComparedWithWhatIsElsewhere(t *testing.T) {
	r := newLocalRig(t)
	id := r.startGet("x")
	home, elsewhere := r.asked()
	r.replyHome(home, causal.HomeReply{Record: record(homeVersion(500)), Complete: true})
	r.mustBeUnfinished(id)
	r.replyGet(elsewhere, causal.GetReply{Record: record(homeVersion(400)), Status: causal.Stable, Ring: near})
	if res := r.mustResult(id); res.Record.Version != homeVersion(500) || res.Outcome.Status != causal.Stable {
		t.Errorf("the answer is %+v", res)
	}
}

func TestWhatMayLackWhatTheHomeHasForgottenIsReadAgain(t *testing.T) {
	r := newLocalRig(t)
	id := r.startGet("x")
	home, elsewhere := r.asked()
	r.replyGet(elsewhere, causal.GetReply{Record: record(homeVersion(400)), Status: causal.Stable, Ring: near})
	r.replyHome(home, causal.HomeReply{From: at(1200)})
	r.mustBeUnfinished(id)
	_, again := r.asked()
	if again == nil {
		t.Fatal("nothing is read again")
	}
	g := again.Get()
	if from := g.From(); from < at(1200) {
		t.Errorf("it is read again from %d ms on", from.WallMs())
	}
	r.replyGet(again, causal.GetReply{Record: record(homeVersion(1100)), Status: causal.Stable, Ring: near})
	if res := r.mustResult(id); res.Record.Version != homeVersion(1100) || res.From < at(1200) {
		t.Errorf("the answer is %+v", res)
	}
}

func TestTheHomeHearsOfWhatIsShownFromElsewhereFirst(t *testing.T) {
	r := newLocalRig(t)
	id := r.startGet("x")
	home, elsewhere := r.asked()
	foreign := causal.Version{HLC: at(900), Origin: version(1).Origin}
	r.replyHome(home, causal.HomeReply{})
	r.replyGet(elsewhere, causal.GetReply{Record: record(foreign), Status: causal.Stable, Ring: near})
	r.mustBeUnfinished(id)
	tells, _ := r.asked()
	if tells == nil || tells.HomeRead().Shown != foreign {
		t.Fatalf("the home is told %v", tells)
	}
	r.replyHome(tells, causal.HomeReply{From: foreign.HLC})
	if res := r.mustResult(id); res.Record.Version != foreign || res.From < foreign.HLC {
		t.Errorf("the answer is %+v", res)
	}
}

// PROTOCOL HOS-3, HOS-4: From has the HLC of what was found because of another write, which is older or newer than
// that.
func TestTheHomeHearsOfAWriteOfTheSameHLC(t *testing.T) {
	r := newLocalRig(t)
	found := causal.Version{HLC: at(900), Origin: version(1).Origin}
	for name, tt := range map[string]struct {
		reply causal.HomeReply
		tells bool
	}{
		"an older one was shown": {causal.HomeReply{From: at(900), Settled: at(800), Shown: causal.Version{HLC: at(900),
			Origin: found.Origin - 1}}, true},
		"it was shown": {causal.HomeReply{From: at(900), Settled: at(800), Shown: found}, false},
		"a home of before has forgotten all up to it": {causal.HomeReply{From: at(900)}, false},
		"all up to it is settled":                     {causal.HomeReply{From: at(950), Settled: at(900)}, false},
		"all up to it is included, and not settled":   {causal.HomeReply{From: at(950), Settled: at(800)}, true},
		"a newer one was shown": {causal.HomeReply{From: at(900), Settled: at(800), Shown: causal.Version{HLC: at(900),
			Origin: found.Origin + 1}}, false},
		"what is above it was shown": {causal.HomeReply{From: at(901), Settled: at(800),
			Shown: causal.Version{HLC: at(901), Origin: 1}}, false},
	} {
		if tt.reply.Knows(found) == tt.tells {
			t.Errorf("%s: the home is taken to know it: %v", name, !tt.tells)
		}
	}
	r.startGet("x")
	home, elsewhere := r.asked()
	r.replyHome(home, causal.HomeReply{From: at(900), Settled: at(800),
		Shown: causal.Version{HLC: at(900), Origin: found.Origin - 1}})
	r.replyGet(elsewhere, causal.GetReply{Record: record(found), Status: causal.Stable, Ring: near})
	if tells, _ := r.asked(); tells == nil || tells.HomeRead().Shown != found {
		t.Errorf("the home is told %v", tells)
	}
}

// PROTOCOL HOS-4: the base is above what is complete, since the session has seen more.
func TestAGetIncludesNoMoreThanWasComplete(t *testing.T) {
	r := newLocalRig(t)
	r.readAtHome("y", causal.HomeReply{Record: record(homeVersion(1600)), Past: at(1500)})
	for _, from := range []int64{900, 1200} {
		id := r.startGet("x")
		home, elsewhere := r.asked()
		if elsewhere == nil || elsewhere.Get().Base < at(1500) {
			t.Fatalf("it asks elsewhere with %+v", elsewhere)
		}
		r.replyHome(home, causal.HomeReply{From: at(from), Settled: at(900)})
		r.replyGet(elsewhere, stable(at(800)))
		if res := r.mustResult(id); res.From != max(at(from), at(1000)) {
			t.Errorf("with From %d the answer includes all up to %d", from, res.From.WallMs())
		}
	}
}

func TestWhatAWriteOfTheHomeDependsOnBindsItsReaderAndIsInTheBaseOfItsReads(t *testing.T) {
	r := newLocalRig(t)
	foreign := causal.Version{HLC: at(1300), Origin: version(1).Origin}
	r.receivedUpTo(foreign.HLC, far)
	r.readAtHome("x", causal.HomeReply{Record: record(homeVersion(1500)), Past: foreign.HLC,
		Deps: []causal.Dep{{Version: foreign, Slot: topology.SlotOf("z")}}})
	if _, rings := r.bound(); rings != topology.RingsOf(far) {
		t.Errorf("the session may read from rings %b", rings)
	}
	r.startGet("z")
	if _, elsewhere := r.asked(); elsewhere == nil || elsewhere.To != r.shard(far) {
		t.Errorf("z is read at %v", elsewhere)
	} else if g := elsewhere.Get(); g.From() < foreign.HLC {
		t.Errorf("z is read from %d ms on", g.From().WallMs())
	}
}

func TestAPutSaysWhatItsSessionHasReadAtTheHome(t *testing.T) {
	r := newLocalRig(t)
	r.readAtHome("x", causal.HomeReply{Record: record(homeVersion(1500)), Past: at(900)})
	r.start(Op{Kind: OpPut, Key: "x", Conditional: true, If: homeVersion(1500), From: at(1100)})
	p := r.request(causal.KindPut).Put()
	if p.Local != at(1500) || p.Foreign < at(900) || !p.Conditional || p.If != homeVersion(1500) || p.From != at(1100) {
		t.Errorf("the put is %+v", p)
	}
	r.startGet("y")
	if home, _ := r.asked(); home == nil || home.HomeRead().Seen != at(1500) {
		t.Errorf("the next read says %v", home)
	}
}

// What was read of other writes of the home's log is in a ring only if all up to the last one is.
func TestAnOperationThatDoesNotAskTheHomeNeedsARingWithAllThatWasReadThere(t *testing.T) {
	r := newLocalRig(t)
	r.readAtHome("x", causal.HomeReply{Record: record(homeVersion(1500))})
	r.start(Op{Kind: OpGet, Key: "y", Level: causal.Latest})
	if _, elsewhere := r.asked(); elsewhere != nil {
		t.Errorf("y is read at %v, which may lack x", elsewhere.To)
	}
	r.depStatus(homeVersion(1500), middle, true) // of that write alone
	if _, rings := r.bound(); rings != 0 {
		t.Errorf("after an answer about one write the session may read from rings %b", rings)
	}
	r.receivedUpTo(at(1500), middle)
	if _, rings := r.bound(); rings != topology.RingsOf(middle) {
		t.Errorf("the session may read from rings %b", rings)
	}
}

// A restriction that is there already, of a write that was found in a ring, does not speak for those before it.
func TestAVersionThatWasFoundInARingDoesNotSpeakForAllBeforeIt(t *testing.T) {
	r := newLocalRig(t)
	id := r.start(Op{Kind: OpGet, Key: "x", Level: causal.Newest})
	_, elsewhere := r.asked()
	r.replyGet(elsewhere, causal.GetReply{Record: record(homeVersion(1500)), Status: causal.InFlight, Ring: near})
	r.mustResult(id)
	id = r.startGet("x")
	home, elsewhere := r.asked()
	r.replyHome(home, causal.HomeReply{Record: record(homeVersion(1500))})
	r.replyGet(elsewhere, causal.GetReply{Record: record(homeVersion(1500)), Status: causal.InFlight, Ring: near})
	if res := r.mustResult(id); res.Outcome.Source != SourceHome {
		t.Fatalf("the answer is %+v", res)
	}
	r.start(Op{Kind: OpGet, Key: "y", Level: causal.Newest})
	if _, rings := r.bound(); rings != 0 {
		t.Errorf("the session may read from rings %b", rings)
	}
}

// PROTOCOL SES-18: a token stands for all that was read at the home.
func TestATokenOfASessionThatHasReadAtTheHome(t *testing.T) {
	r := newLocalRig(t)
	r.readAtHome("x", causal.HomeReply{Record: record(homeVersion(1500))})
	token := r.token()
	other := newLocalRig(t)
	if res := other.mustResult(other.start(Op{Kind: OpResume, Token: token})); res.Err != causal.OK {
		t.Fatalf("it is resumed in the data center with %s", res.Err)
	}
	other.startPut("y", "1")
	if p := other.request(causal.KindPut).Put(); p.Local != at(1500) {
		t.Errorf("a put after it says that %d was read at the home", p.Local)
	}

	abroad := newRig(t, localReads, oneHome, func(c *Config) { c.Self.DC = 1 })
	abroad.completeUpTo(at(1000))
	id := abroad.start(Op{Kind: OpResume, Token: token})
	abroad.depStatus(homeVersion(1500), middle, true)
	abroad.receivedUpTo(at(1500), middle)
	abroad.mustBeUnfinished(id)
	abroad.completeUpTo(at(1500))
	if res := abroad.mustResult(id); res.Err != causal.OK {
		t.Errorf("it is resumed in another data center with %s", res.Err)
	}
}

// A put of another level may go to another data center, while the home is away.
func TestAnOwnWriteThatTheHomeDoesNotKnowIsReadAtLevelLocal(t *testing.T) {
	r := newRig(t, snapshotReads, oneHome)
	r.completeUpTo(at(1000))
	own := causal.Version{HLC: at(1500), Origin: version(1).Origin}
	r.write("x", "mine", own)
	id := r.start(Op{Kind: OpGet, Key: "x", Level: causal.Local})
	home, elsewhere := r.asked()
	r.replyHome(home, causal.HomeReply{Record: record(homeVersion(1400)), From: at(950)})
	r.replyGet(elsewhere, causal.GetReply{Record: record(homeVersion(900)), Status: causal.Stable, Ring: near})
	if res := r.mustResult(id); res.Record.Version != own || string(res.Record.Value.Data) != "mine" {
		t.Errorf("the answer is %+v", res)
	}
	id = r.start(Op{Kind: OpGet, Key: "x", Level: causal.Local})
	home, _ = r.asked()
	r.replyHome(home, causal.HomeReply{Record: record(homeVersion(1600))})
	if res := r.mustResult(id); res.Record.Version != homeVersion(1600) {
		t.Errorf("what is newer at the home is answered with %+v", res)
	}
}
