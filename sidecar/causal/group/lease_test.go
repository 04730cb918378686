package group

import (
	"testing"
	"time"
)

// pauses returns members P, which is about to hand over to Q and has given its lease back, and Q. The register has
// answered nothing since.
func pauses(t *testing.T) *bench {
	b := pq(t)
	for _, m := range b.members {
		m.g.SetDesired(b.now, Desired{Names: []string{"q", "p"}})
	}
	b.pass(100*time.Millisecond, "p", "q")
	if p, q := b.members["p"].g, b.members["q"].g; !p.lead.paused || p.HoldsLease(b.now) || q.grantUntil > b.now.Mono {
		t.Fatalf("P is paused: %v, holds a lease: %v; the grant of Q ends in %d ns", p.lead.paused, p.HoldsLease(b.now),
			q.grantUntil-b.now.Mono)
	}
	return b
}

// holdsNoneBeforeItIsGranted checks that P, which goes on, holds no lease until Q grants one again.
func (b *bench) holdsNoneBeforeItIsGranted() {
	b.t.Helper()
	p, q := b.members["p"].g, b.members["q"].g
	if p.lead.paused {
		b.t.Fatal("P is paused still")
	}
	if p.HoldsLease(b.now) && q.grantUntil <= b.now.Mono {
		b.t.Error("P holds a lease that Q has been given back")
	}
	b.deliver("p", "q")
	if !p.HoldsLease(b.now) || q.grantUntil <= b.now.Mono {
		b.t.Errorf("P holds a lease: %v; the grant of Q ends in %d ns", p.HoldsLease(b.now), q.grantUntil-b.now.Mono)
	}
}

// P gives its lease back and is to hand over to Q. Then it is preferred again. Q may take over by itself without
// waiting, since it has got its grant back.
func TestALeaseThatWasGivenBackDoesNotCountAgainWhenTheHandOverIsGivenUp(t *testing.T) {
	b := pauses(t)
	for _, m := range b.members {
		m.g.SetDesired(b.now, Desired{Names: []string{"p", "q"}})
	}
	b.members["p"].g.Tick(b.now)
	b.holdsNoneBeforeItIsGranted()
}

// The outcome of the swap to Q is unknown, and the one that settles it leaves P the primary.
func TestALeaseThatWasGivenBackDoesNotCountAgainInTheNextConfiguration(t *testing.T) {
	b := pauses(t)
	p := b.members["p"]
	register := RegisterResult{Outcome: Done, Cluster: "cluster", Found: true, Config: p.g.state.Config}
	b.answer("p", register)
	b.answer("p", RegisterResult{Outcome: Unknown}) // the swap
	p.g.SetDesired(b.now, Desired{Names: []string{"p", "q"}})
	for range 20 {
		if len(p.ops) > 0 {
			if op := p.ops[len(p.ops)-1]; op.Swap {
				if op.Config.Primary != p.id {
					t.Fatalf("proposed %s", op.Config.String())
				}
				b.answer("p", RegisterResult{Outcome: Done, Cluster: "cluster"})
				break
			}
			b.answer("p", register)
			continue
		}
		b.pass(50*time.Millisecond, "p")
	}
	if e := p.g.state.Config.Epoch; e != 2 {
		t.Fatalf("epoch %d, want 2", e)
	}
	b.holdsNoneBeforeItIsGranted()
}

// released is a frame of the session that Q is in, sent at a time of the primary's clock, which gives the lease back.
func released(q *member, sentAt int64) *Frame {
	last := q.g.log.last()
	return &Frame{Session: q.g.state.Session, Config: q.g.state.Config, Cluster: "cluster", Position: last,
		Stamp: q.g.log.stamp(last), SentAt: sentAt, Released: true}
}

// Q grants a lease and restarts. Frames from before that, which are late, do not tell for what P asked last: Q has
// forgotten it.
func TestARestartedMemberWaitsForTheGrantsOfItsLifeBefore(t *testing.T) {
	for name, late := range map[string]func(*Frame){
		"one that gives the lease back": func(*Frame) {},
		"one that asks for a grant before": func(f *Frame) {
			f.Released, f.SentAt = false, f.SentAt-1
		},
	} {
		b := pq(t)
		p, q := b.members["p"].id, b.members["q"]
		sentAt := q.g.grantSentAt - int64(time.Second)
		granted := q.g.grantUntil
		q = b.restart("q", Options{})
		if q.g.grantUntil < granted {
			t.Fatal("Q does not assume that it has granted a lease just before it ended")
		}
		first := released(q, sentAt)
		late(first)
		for _, f := range []*Frame{first, released(q, sentAt)} {
			q.g.Step(b.now, &Message{From: p, To: q.id, Body: f})
			b.sync("q")
		}
		if q.g.grantUntil < granted {
			t.Errorf("%s: Q would serve %s before its grant ends", name, time.Duration(granted-q.g.grantUntil))
		}
	}
}
