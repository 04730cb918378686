package group

import (
	"testing"
	"time"
)

// P and Q have lost the volumes of their group {1, 2}. P gives it up: a group of P begins, with another name and a greater epoch, and Q, which has
// nothing either, believes the register. A volume of the lost group that comes back does neither.
func TestALostGroupIsReplacedByAnotherOne(t *testing.T) {
	b := newBench(t, "p", "q", "old")
	p, q, old := b.members["p"], b.members["q"], b.members["old"]
	lost := Config{Group: 77, Epoch: 4, Members: []ID{{"p", 77}, {"q", 78}}, Primary: ID{"p", 77}, Nonce: Nonce{77, 1, 9}}
	if err := p.g.AcceptLoss(b.now); err == nil {
		t.Fatal("a group is given up of which nothing is known")
	}
	b.teach(lost, "p", "q")
	was := lost
	was.Members, was.Primary = []ID{old.id}, old.id
	b.teach(was, "old")
	b.pass(3*time.Second, "p", "q")
	if !p.g.Status().Lost || !q.g.Status().Lost {
		t.Fatalf("lost: %v, %v", p.g.Status().Lost, q.g.Status().Lost)
	}
	if err := p.g.AcceptLoss(b.now); err != nil {
		t.Fatal(err)
	}
	var next Config
	for range 50 {
		b.pass(100*time.Millisecond, "p", "q")
		for len(p.ops) > 0 {
			op := p.ops[len(p.ops)-1]
			if op.Swap {
				next = op.Config
				b.answer("p", RegisterResult{Outcome: Done, Cluster: "cluster"})
			} else {
				b.answer("p", RegisterResult{Outcome: Done, Cluster: "cluster", Found: true, Config: lost})
			}
			p.ops = nil
		}
		if next.Epoch > 0 {
			break
		}
	}
	if next.Group != p.id.Volume || next.Epoch != 5 || len(next.Members) != 1 {
		t.Fatalf("proposed %+v", next)
	}
	b.pass(2*time.Second, "p")
	if b.role("p") != Serving {
		t.Fatalf("P is %s", b.role("p"))
	}
	q.ops = nil
	q.g.register.busy = false
	q.g.RegisterChanged(b.now)
	b.sync("q")
	b.answer("q", RegisterResult{Outcome: Done, Cluster: "cluster", Found: true, Config: next})
	if s := q.g.Status(); s.Config.Group != next.Group || s.Frozen != "" || s.Lost {
		t.Errorf("Q: %+v", s)
	}
	old.ops = nil
	old.g.register.busy = false
	old.g.RegisterChanged(b.now)
	b.sync("old")
	b.answer("old", RegisterResult{Outcome: Done, Cluster: "cluster", Found: true, Config: next})
	if s := old.g.Status(); s.Config.Group != 77 || s.Frozen == "" {
		t.Errorf("the volume of the lost group: %+v", s)
	}
}
