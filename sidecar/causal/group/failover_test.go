package group

import (
	"testing"
	"time"
)

// P is gone, and R has lost what it had acknowledged: nothing would be committed with R until somebody drops it.
func TestWhoTakesOverProposesNoDamagedMember(t *testing.T) {
	b := newBench(t, "p", "q", "r")
	p, q, r := b.members["p"].id, b.members["q"], b.members["r"].id
	c := Config{Epoch: 1, Members: []ID{p, q.id, r}, Primary: p, Nonce: Nonce{1, 1, 1}}
	b.teach(c, "q")
	for range 100 {
		b.pass(50*time.Millisecond, "q")
		if len(q.ops) == 0 {
			q.g.Step(b.now, &Message{From: r, To: q.id,
				Body: &Answer{Number: q.g.probed, Config: c, Cluster: "cluster", Damaged: true}})
			continue
		}
		if op := q.ops[len(q.ops)-1]; op.Swap {
			if op.Config.Has(r) || op.Config.Has(p) || op.Config.Primary != q.id {
				t.Errorf("proposed %s", op.Config.String())
			}
			return
		}
		b.answer("q", RegisterResult{Outcome: Done, Cluster: "cluster", Found: true, Config: c})
	}
	t.Error("Q proposes nothing")
}
