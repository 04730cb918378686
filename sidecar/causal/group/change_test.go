package group

import (
	"slices"
	"testing"
	"time"
)

// P proposes Q as the primary, restarts, and is the primary still. The swap applies while P, which is about to propose
// the same again, waits for a record.
func TestAHandOverOfAnEarlierLifeLeavesRecordsUndecided(t *testing.T) {
	b := pq(t)
	life := b.members["p"].g.state.Life
	p, q := b.restart("p", Options{}), b.members["q"]
	b.pass(2*time.Second, "p", "q")
	b.append("p", "x")
	p.g.SetDesired(b.now, Desired{Names: []string{"q", "p"}})
	p.g.Tick(b.now)
	if !p.g.lead.paused || p.g.commit == p.g.log.last() {
		t.Fatalf("P is paused: %v, and has committed %d of %d", p.g.lead.paused, p.g.commit, p.g.log.last())
	}
	b.teach(Config{Epoch: 2, Members: []ID{p.id, q.id}, Primary: q.id, Nonce: Nonce{p.id.Volume, life, 7}}, "p")
	i := slices.IndexFunc(p.events, func(e Event) bool { return e.Kind == Stop })
	if i < 0 || p.events[i].HandedOver {
		t.Errorf("P has stopped: %v, and everything that it has appended is committed: %v", i >= 0,
			i >= 0 && p.events[i].HandedOver)
	}
}

// The damaged volume of P knows an early configuration, of P only. The register was replaced, which freezes P, and
// somebody has decided at Q, of which P has never heard, and which waits for P. P asks whom the register names, though
// it does not believe it.
func TestADamagedMemberOfAFrozenGroupFindsTheOneThatServes(t *testing.T) {
	b := newBench(t, "p", "q")
	p, q := b.members["p"].id, b.members["q"].id
	b.teach(Config{Group: 7, Epoch: 2, Members: []ID{p}, Primary: p, Nonce: Nonce{p.Volume, 1, 1}}, "p")
	present := Config{Group: 7, Epoch: 5, Members: []ID{q}, Primary: q, Nonce: Nonce{q.Volume, 1, 1}}
	for i, name := range []string{"p", "q"} {
		if name == "p" {
			b.restart(name, Options{Damaged: true})
		} else {
			b.members[name].g.learn(b.now, "other", &present)
			b.sync(name)
		}
		b.members[name].g.SetDesired(b.now, Desired{Names: []string{"p", "q"}[:1+i]})
	}
	for range 40 {
		b.pass(100*time.Millisecond, "p", "q")
		for name, m := range b.members {
			if len(m.ops) > 0 {
				b.answer(name, RegisterResult{Outcome: Done, Cluster: "other", Found: true, Config: present})
			}
		}
	}
	if b.role("q") != Serving {
		t.Fatalf("Q is %s", b.role("q"))
	}
	if s := b.members["p"].g.Status(); s.Config.Epoch != present.Epoch ||
		!slices.ContainsFunc(b.members["p"].events, func(e Event) bool { return e.Kind == Reset }) {
		t.Errorf("P knows %s, is frozen: %q, and is not told to begin with an empty volume",
			s.Config.String(), s.Frozen)
	}
}

// Q would like to join, and knows committed records that differ from P's: its volume is of a part of the group that
// somebody has divided. What it has is not replaced.
func TestAVolumeWithOtherCommittedRecordsDoesNotJoin(t *testing.T) {
	b := newBench(t, "p", "q")
	p, q := b.members["p"], b.members["q"]
	b.teach(Config{Group: 7, Epoch: 1, Members: []ID{p.id}, Primary: p.id, Nonce: Nonce{1, 1, 1}}, "p")
	for _, m := range b.members {
		m.g.SetDesired(b.now, Desired{Names: []string{"p", "q"}})
	}
	b.pass(2*time.Second, "p")
	p.g.peerOf(b.now, q.id)
	p.g.Step(b.now, &Message{From: q.id, To: p.id,
		Body: &Report{Session: p.g.lead.session, Number: 1, Base: 1, Last: 5, Commit: 5,
			Runs: []Run{{Stamp: Stamp{9, 9}, First: 1}}}})
	for _, h := range p.g.Health(b.now).Peers {
		if h.Name == "q" && h.State != PeerDamaged {
			t.Errorf("Q is in the state %d", h.State)
		}
	}
	if peer := p.g.findPeer(q.id); peer != nil && !peer.gone {
		t.Error("P goes on to send Q its records")
	}
}

// One record behind is behind: it would be lost if the new configuration had it from that member.
func TestAChangeWaitsForTheLastCommittedRecord(t *testing.T) {
	b := pq(t)
	p, q := b.members["p"].g, b.members["q"].id
	b.append("p", "x")
	b.deliver("p", "q")
	config := p.state.Config
	peer := p.findPeer(q)
	for _, behind := range []uint64{1, 0} {
		peer.match = p.commit - behind
		p.lead.change = &change{config: config}
		if got := p.isPrepared(b.now); got != (behind == 0) {
			t.Errorf("with a member that is %d records behind, the change may be submitted: %v", behind, got)
		}
		if _, got := p.successor(b.now, &config, []string{"q"}, false); got != (behind == 0) {
			t.Errorf("a member that is %d records behind can take over: %v", behind, got)
		}
	}
	p.lead.change = nil
}

// The register may hold a later one than this member knows: a swap below it would be taken for an older one.
func TestTheEpochOfASwapIsAboveThatOfTheRegister(t *testing.T) {
	b := pq(t)
	p := b.members["p"].g
	p.lead.change = &change{config: p.state.Config}
	p.register.fresh, p.register.busy, p.register.waitTill, p.register.epoch = true, false, 0, 9
	p.submit(b.now)
	ops := p.RegisterOps(nil)
	if n := len(ops); n == 0 || !ops[n-1].Swap || ops[n-1].Config.Epoch != 10 {
		t.Errorf("asked of the register: %+v, want a swap with epoch 10", ops)
	}
}
