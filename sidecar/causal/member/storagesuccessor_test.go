package member

import (
	"fmt"
	"testing"
	"time"
)

// P gives a group up whose only member Q is not heard of, and does not hear whether that was done. Q comes back, P
// copies its storage, and then the swap applies: the group of P has taken the place of Q's, and has no other member. It
// begins with nothing, wherever P stops meanwhile.
func TestAGroupBeginsAlthoughItsMemberHasFollowedTheOneThatItReplaces(t *testing.T) {
	for _, c := range []struct {
		tasks   int  // of the storage that P begins, before it stops; 0: it does not stop
		done    bool // the last of them was done
		logHung bool // it stops since the disk of the log does not respond
	}{{}, {tasks: 1}, {tasks: 1, done: true}, {tasks: 2}, {tasks: 2, done: true}, {logHung: true}} {
		t.Run(fmt.Sprintf("%+v", c), func(t *testing.T) {
			r := newShardRig(t, 2)
			p, q := proposeInPlaceOfFollowed(t, r)
			if p.hung, p.logHung = c.tasks > 0, c.logHung; !r.swap(r.held[0]) {
				t.Fatal("the swap does not apply")
			}
			r.holds, r.acked = false, map[string]uint64{} // they were given up
			for n := range c.tasks {
				if r.await("a task", func() bool { return p.held != nil }); n+1 < c.tasks {
					r.runTask(p, p.held)
					r.flush()
				}
			}
			if p.hung = false; c.logHung {
				r.pass(2 * time.Second)
			}
			if p.logHung = false; c.tasks > 0 || c.logHung {
				if c.done {
					p.store.run(p.held)
				}
				p.crash()
				r.start(p)
			}
			volume, lost := p.volume, q.volume
			r.await("P to serve", func() bool { return r.primary() == p })
			if n := len(p.store.keys); n > 0 || p.volume != volume || r.register.Group != volume {
				t.Errorf("P has %d keys of the group that was given up, and is volume %d of group %d; it was %d", n,
					p.volume, r.register.Group, volume)
			}
			p.s.SetWhole(true)
			r.mustWrite("after")
			if r.checkEnd(); q.volume == lost {
				t.Error("Q has its volume still")
			}
		})
	}
}

// proposeInPlaceOfFollowed makes the first member propose a group in place of that of the second one, which it follows
// then. The proposal is held in the register.
func proposeInPlaceOfFollowed(t *testing.T, r *shardRig) (p, q *shardMember) {
	p, q = r.members[0], r.members[1]
	r.startAll()
	for i := range 10 {
		r.mustWrite(fmt.Sprint("k", i))
	}
	p.crash()
	r.await("Q to go on without P", func() bool { return r.primary() == q && len(r.register.Members) == 1 })
	r.mustWrite("alone")
	r.wipe(p)
	p.store, q.cut = newModelStore(), true
	r.start(p)
	r.holds = true
	r.await("the loss to be accepted", func() bool { return p.s.AcceptLoss(r.now) == nil })
	r.await("the proposal", func() bool { return len(r.held) > 0 })
	q.cut = false
	r.await("P to follow Q", func() bool { return len(p.store.keys) == 11 && p.s.group.IsFounded() })
	r.pass(time.Second)
	if proposed := r.held[0].Config; proposed.Group != p.volume {
		t.Fatalf("proposed: %+v", proposed)
	}
	return p, q
}
