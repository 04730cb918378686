package group

import (
	"testing"
	"time"
)

// P, whose group {Q} was lost, has proposed another one in its place, and did not hear whether that was done. The
// volume of Q comes back, and P follows it; then the swap applies. P begins its group without what it has from Q. Those
// that were members of Q's group do not.
func TestAMemberThatHasFollowedTheGroupThatItsOwnReplacesBeginsWithNothing(t *testing.T) {
	b := newBench(t, "p", "q")
	p, q := b.members["p"], b.members["q"]
	former := Config{Group: q.id.Volume, Epoch: 4, Members: []ID{q.id}, Primary: q.id, Nonce: Nonce{q.id.Volume, 1, 9}}
	b.teach(former, "p", "q")
	for _, m := range b.members {
		m.g.SetDesired(b.now, Desired{Names: []string{"p", "q"}})
	}
	read := func(name string, c *Config) {
		if m := b.members[name]; len(m.ops) > 0 && !m.ops[len(m.ops)-1].Swap {
			b.answer(name, RegisterResult{Outcome: Done, Cluster: "cluster", Found: true, Config: *c})
		}
	}
	follow := func(d time.Duration, c *Config) {
		for end := b.now.Mono + int64(d); b.now.Mono < end; b.pass(100*time.Millisecond, "p", "q") {
			read("p", c)
		}
	}
	follow(2*time.Second, &former)
	b.append("q", "x")
	if follow(2*time.Second, &former); p.g.Last() == 0 || b.role("p") != Outside {
		t.Fatalf("P is %s, and has records up to %d", b.role("p"), p.g.Last())
	}
	next := Config{Group: p.id.Volume, Epoch: 5, Members: []ID{p.id}, Primary: p.id,
		Nonce: Nonce{p.id.Volume, p.g.Life(), 1}, Replaced: []uint64{former.Group}}
	applied := b.now.Mono
	for b.role("p") != Serving {
		if follow(100*time.Millisecond, &next); b.now.Mono-applied > int64(time.Minute) {
			t.Fatalf("P is %s in %s", b.role("p"), p.g.state.Config.String())
		}
	}
	o := p.g.opts
	if after, wait := time.Duration(b.now.Mono-applied), o.ReadEvery+o.RegisterTimeout+o.Lease; after < wait {
		t.Errorf("P serves after %s; the members of the former group may until %s", after, wait)
	}
	if records, _ := p.led(); len(records) > 0 {
		t.Errorf("P serves with %q, which the former group had", records)
	}
	read("q", &next)
	for range 50 {
		b.pass(100*time.Millisecond, "q")
		read("q", &next)
	}
	if s := q.g.Status(); !s.Replaced || s.Role == Serving || q.g.Last() == 0 {
		t.Errorf("Q: %+v", s)
	}
}
