package coordinator

import (
	"errors"
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// relayRig is the leader of data center a; b and c have one too. Statements are signed with the number of the data
// center.
type relayRig struct {
	*harness
	signed, verified int
}

const (
	dcA = topology.DC(iota)
	dcB
	dcC
)

func leaderOf(dc topology.DC) topology.Node {
	return topology.Node{DC: dc, Part: topology.Coordinator}
}

// Sign implements Signer.
func (r *relayRig) Sign([]byte) ([]byte, error) {
	r.signed++
	return sealOf(dcA), nil
}

// Verify implements Signer.
func (r *relayRig) Verify(of topology.DC, _, seal []byte, _ topology.Node) error {
	r.verified++
	if string(seal) != string(sealOf(of)) {
		return errors.New("somebody else has signed it")
	}
	return nil
}

func sealOf(dc topology.DC) []byte { return []byte{'s', byte(dc)} }

func newRelayRig(t *testing.T, mutations ...causal.Mutation) *relayRig {
	t.Helper()
	topo, err := topology.New(1, []topology.DataCenter{{Name: "a", Coordinators: 1, Shards: 1},
		{Name: "b", Ring: 1, Coordinators: 1, Shards: 1}, {Name: "c", Ring: 2, Coordinators: 1, Shards: 1}},
		[]topology.Ring{{Name: "r", DCs: []topology.DC{dcA}}, {Name: "s", DCs: []topology.DC{dcB}},
			{Name: "t", DCs: []topology.DC{dcC}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	r := &relayRig{}
	cfg := DefaultConfig(topo, leaderOf(dcA))
	cfg.Incarnation, cfg.Broken, cfg.Signer = 1, causal.MutationsOf(mutations...), r
	r.harness = &harness{t: t, cfg: cfg, now: causal.Now{Mono: 1, WallMs: 100_000}}
	r.log, r.index = []LogRecord{{Checkpoint: &Checkpoint{State: State{Term: 1}}}}, 1
	r.c = New(cfg, r.now, logged(r.log), 2)
	return r
}

// of returns vectors of all origins of a data center.
func (r *relayRig) of(dc topology.DC, sv causal.HLC) []causal.VectorEntry {
	first := r.cfg.Topology.OriginOf(leaderOf(dc))
	return []causal.VectorEntry{{Origin: first, Last: first + topology.MaxCoordinators - 1, SV: sv}}
}

func (r *relayRig) hear(from topology.DC, asks uint64) {
	r.step(causal.Vectors{Entries: r.of(from, 1), Asks: asks}.Message(leaderOf(from), leaderOf(dcA)))
}

func (r *relayRig) pass(from, of topology.DC, sv causal.HLC, by topology.DC) {
	r.step(causal.SignedVectors{DC: of, Entries: r.of(of, sv), Seal: sealOf(by)}.Message(leaderOf(from), leaderOf(dcA)))
}

func (r *relayRig) sv(dc topology.DC) causal.HLC {
	return r.c.Known().SV(r.cfg.Topology.OriginOf(leaderOf(dc)))
}

// run advances the time, while some leaders are heard, and returns what is sent to one of them.
func (r *relayRig) run(ms int64, to topology.DC, heard map[topology.DC]uint64) (vectors []causal.Vectors,
	signed []causal.SignedVectors) {
	for range ms / 100 {
		for dc, asks := range heard {
			r.hear(dc, asks)
		}
		for _, m := range r.tick(100) {
			switch {
			case m.To != leaderOf(to):
			case m.Kind == causal.KindVectors:
				vectors = append(vectors, m.Vectors())
			case m.Kind == causal.KindSignedVectors:
				signed = append(signed, m.SignedVectors())
			}
		}
	}
	return vectors, signed
}

func TestALeaderBelievesOthersAboutTheirOwnDataCenterOnly(t *testing.T) {
	for _, mutation := range [][]causal.Mutation{nil, {causal.VectorsOfOthers}, {causal.UnverifiedVectors}} {
		broken := causal.MutationsOf(mutation...)
		r := newRelayRig(t, mutation...)
		send := func(entries []causal.VectorEntry) {
			r.step(causal.Vectors{Entries: entries}.Message(leaderOf(dcB), leaderOf(dcA)))
		}
		send(r.of(dcB, 5))
		if r.sv(dcB) != 5 {
			t.Error("a leader is not believed about its own data center")
		}
		send(r.of(dcC, 5))
		send(append(r.of(dcB, 6), r.of(dcC, 6)...))
		if believed := r.sv(dcC) != 0; believed != broken.Has(causal.VectorsOfOthers) {
			t.Errorf("%v: it is believed about another one: %v", mutation, believed)
		}
		r.pass(dcB, dcC, 7, dcB)
		if believed := r.sv(dcC) == 7; believed != broken.Has(causal.UnverifiedVectors) {
			t.Errorf("%v: what it has signed for another one is believed: %v", mutation, believed)
		}
		r.tick(1000)
		r.pass(dcB, dcC, 8, dcC)
		if r.sv(dcC) != 8 {
			t.Errorf("%v: what another one has signed is not believed", mutation)
		}
		if n := r.c.Relayed(dcC); mutation == nil && n != 1 {
			t.Errorf("%d are counted", n)
		}
	}
}

func TestWhatIsNoNewsOrComesTooOftenIsNotVerified(t *testing.T) {
	r := newRelayRig(t)
	for range 10 {
		r.pass(dcC, dcC, 5, dcC)
		r.pass(dcB, dcC, 5, dcC)
		r.pass(dcB, dcC, 4, dcC)
		r.tick(1000)
	}
	if r.verified != 1 {
		t.Errorf("the same was verified %d times", r.verified)
	}
	r.verified = 0
	for i := range causal.HLC(100) { // in a second
		r.pass(dcB, dcC, 10+i, dcB)
		r.tick(10)
	}
	if r.verified > 5 || r.verified == 0 {
		t.Errorf("%d of 100 forgeries were verified in a second", r.verified)
	}
	r.pass(dcC, dcC, 200, dcC)
	if r.sv(dcC) != 200 {
		t.Error("a leader that forges keeps another one from being heard")
	}
}

func TestSignedVectorsArePassedOnToThoseWhoAskForThem(t *testing.T) {
	r := newRelayRig(t)
	both := map[topology.DC]uint64{dcB: 0, dcC: 0}
	_, signed := r.run(20_000, dcB, both)
	if len(signed) < 3 || len(signed) > 5 || r.signed > 5 {
		t.Errorf("in 20 s, %d were signed, and %d sent to one that does not ask", r.signed, len(signed))
	}
	for _, v := range signed {
		if v.DC != dcA {
			t.Errorf("those of data center %d are passed on to one that does not ask", v.DC)
		}
	}

	// b does not hear c: what c has signed goes to b, once, and c is asked for more.
	asking := map[topology.DC]uint64{dcB: 1 << dcC, dcC: 0}
	r.pass(dcC, dcC, 50, dcC)
	_, signed = r.run(3000, dcB, asking)
	count := map[topology.DC]int{}
	for _, v := range signed {
		count[v.DC]++
		if v.DC == dcC && (string(v.Seal) != string(sealOf(dcC)) || v.Entries[0].SV != 50) {
			t.Errorf("passed on is %+v", v)
		}
	}
	if count[dcC] != 1 {
		t.Errorf("in 3 s the same was passed on %d times", count[dcC])
	}
	vectors, _ := r.run(1000, dcC, asking)
	for _, v := range vectors {
		if v.Asks != 1<<dcC {
			t.Errorf("c is asked for %b", v.Asks)
		}
	}
	vectors, _ = r.run(1000, dcB, asking)
	for _, v := range vectors {
		if v.Asks != 0 {
			t.Errorf("b is asked for %b, and everybody is heard", v.Asks)
		}
	}

	// b asks for those of a, so it does not hear this leader either: they are new twice a second.
	before := r.signed
	r.run(5000, dcB, map[topology.DC]uint64{dcB: 0, dcC: 1 << dcA})
	if n := r.signed - before; n < 8 || n > 10 {
		t.Errorf("%d were signed in 5 s while somebody asks", n)
	}

	// c is not heard any more: everybody is asked for what it has signed.
	onlyB := map[topology.DC]uint64{dcB: 0}
	r.run(2000, dcB, onlyB)
	vectors, _ = r.run(1000, dcB, onlyB)
	if len(vectors) == 0 {
		t.Fatal("nothing is sent")
	}
	for _, v := range vectors {
		if v.Asks != 1<<dcC {
			t.Errorf("b is asked for %b", v.Asks)
		}
	}
}

func TestALeaderThatRestartsAsksForWhatItHasSigned(t *testing.T) {
	r := newRelayRig(t)
	vectors, _ := r.run(1000, dcB, map[topology.DC]uint64{dcB: 0, dcC: 0})
	for _, v := range vectors {
		if v.Asks != 1<<dcA {
			t.Errorf("b is asked for %b", v.Asks)
		}
	}
	gone := r.cfg.Topology.OriginOf(topology.Node{Part: topology.Coordinator, Index: 3})
	own := causal.SignedVectors{DC: dcA, Entries: []causal.VectorEntry{{Origin: gone, SV: causal.HLCAt(150_000)}}}
	own.Seal = sealOf(dcB)
	r.step(own.Message(leaderOf(dcB), leaderOf(dcA)))
	if r.c.Known().SV(gone) == own.Entries[0].SV {
		t.Error("what another leader says of this data center is believed")
	}
	r.tick(1000)
	own.Seal = sealOf(dcA)
	r.step(own.Message(leaderOf(dcB), leaderOf(dcA)))
	if r.c.Known().SV(gone) != own.Entries[0].SV {
		t.Error("what an earlier life has signed is not believed")
	}
}

// A leader whose clock was wrong may have signed anything. What it signs later is news all the same.
func TestSignedVectorsOfTheFutureHideNoLaterOnes(t *testing.T) {
	r := newRelayRig(t)
	r.pass(dcB, dcC, causal.HLCAt(r.now.WallMs+3_600_000), dcC)
	if r.sv(dcC) >= causal.HLCAt(r.now.WallMs+3_600_000) {
		t.Fatal("it believes in the future")
	}
	believed := r.sv(dcC)
	r.tick(20_000)
	want := believed + causal.HLCAt(10_000)
	if r.pass(dcB, dcC, want, dcC); r.sv(dcC) != want {
		t.Errorf("it knows of %d, want %d", r.sv(dcC), want)
	}
}
