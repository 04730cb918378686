package member

import (
	"fmt"
	"testing"
	"time"
)

// awaitSuccessor writes until another member than old serves, and returns it with how long that took.
func (r *shardRig) awaitSuccessor(old *shardMember, meanwhile func()) (p *shardMember, took time.Duration) {
	r.t.Helper()
	took = r.await("another primary", func() bool {
		meanwhile()
		p = r.primary()
		return p != nil && p != old
	})
	return p, took
}

func TestAPrimaryWhoseStorageDoesNotRespondHandsOver(t *testing.T) {
	for name, c := range map[string]struct {
		members int
		told    bool // the host knows at once
		within  time.Duration
	}{
		"it hangs, of two":   {2, false, 1300 * time.Millisecond},
		"it hangs, of three": {3, false, 1300 * time.Millisecond},
		"it is gone":         {3, true, 200 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			r := newShardRig(t, c.members).startAll()
			r.mustWrite("a", "b")
			old := r.primary()
			old.hung = true
			r.write("a", false)
			if c.told {
				old.s.SetStorageResponds(r.now, false)
			}
			next, took := r.awaitSuccessor(old, func() {})
			t.Logf("another member serves after %s", took)
			if took > c.within {
				t.Errorf("it took %s", took)
			}
			if took := r.await("a write", func() bool {
				return r.write("c", false) && r.acked["c"] == r.serial
			}); took > 200*time.Millisecond {
				t.Errorf("a write took %s", took)
			}
			if n := len(next.s.Status().Config.Members); n != c.members-1 {
				t.Errorf("the configuration has %d members", n)
			}
			old.hung = false
			old.s.SetStorageResponds(r.now, true)
			r.checkEnd()
			if old.s.copies > 0 {
				t.Error("the storage was copied, though the log continues it")
			}
		})
	}
}

// Without a register, nothing can be handed over: it keeps silent soon, and goes on when its storage does.
func TestAnImpairedPrimaryThatCannotHandOverKeepsSilent(t *testing.T) {
	r := newShardRig(t, 2).startAll()
	r.mustWrite("a")
	old := r.primary()
	r.away, old.hung = true, true
	old.s.SetStorageResponds(r.now, false)
	if took := r.await("silence", func() bool { return r.primary() == nil }); took > 2*time.Second {
		t.Errorf("it took %s", took)
	}
	if old.s.HoldsLease(r.now) {
		t.Error("it serves")
	}
	old.hung = false
	old.s.SetStorageResponds(r.now, true)
	r.pass(time.Second)
	r.away = false
	r.mustWrite("b")
	r.checkEnd()
}

func TestAPrimaryDoesNotHandOverToAStorageThatDoesNotRespond(t *testing.T) {
	r := newShardRig(t, 2).startAll()
	r.mustWrite("a")
	for _, p := range r.members {
		p.hung = true
	}
	r.write("a", false)
	r.pass(10 * time.Second)
	if n := len(r.register.Members); n != 2 {
		t.Errorf("the configuration has %d members", n)
	}
	r.members[0].hung = false
	r.mustWrite("b")
	r.members[1].hung = false
	r.checkEnd()
}

func TestAPrimaryWhoseStorageAloneIsFullHandsOver(t *testing.T) {
	r := newShardRig(t, 3).startAll()
	r.mustWrite("a", "b")
	old := r.primary()
	old.hung = true
	r.write("a", false)
	full := func() {
		if old.hung {
			old.s.NoteStorageFull(r.now)
		}
	}
	next, took := r.awaitSuccessor(old, full)
	if took > 2*time.Second {
		t.Errorf("it took %s", took)
	}
	for i := range 100 { // it is preferred, and stays full
		full()
		r.write(fmt.Sprint("k", i), false)
		r.pass(50 * time.Millisecond)
	}
	if p := r.primary(); p != next {
		t.Error("the full one serves, or nobody")
	}
	if n := len(r.register.Members); n != 3 {
		t.Errorf("the configuration has %d members", n)
	}
	old.hung = false
	r.await("the preferred member", func() bool { return r.primary() == old })
	r.checkEnd()
}

func TestAPrimaryStaysWhenAllStoragesAreFull(t *testing.T) {
	r := newShardRig(t, 3).startAll()
	r.mustWrite("a")
	old := r.primary()
	for _, p := range r.members {
		p.hung = true
	}
	r.write("a", false)
	epoch := r.register.Epoch
	for range 100 {
		for _, p := range r.members {
			p.s.NoteStorageFull(r.now)
		}
		r.pass(50 * time.Millisecond)
	}
	if r.primary() != old || r.register.Epoch != epoch {
		t.Errorf("epoch %d after %d", r.register.Epoch, epoch)
	}
	for _, p := range r.members {
		p.hung = false
	}
	r.checkEnd()
}

// Else: writes wait until it is missed.
func TestWritesDoNotWaitForAMemberWhoseStorageDoesNotRespond(t *testing.T) {
	r := newShardRig(t, 3).startAll()
	r.mustWrite("a")
	q := r.members[2]
	q.hung = true
	longest := time.Duration(0)
	for i := range 100 {
		want := r.serial + 1
		longest = max(longest, r.await("a write", func() bool {
			return r.serial >= want || r.write(fmt.Sprint("k", i), false)
		})+
			r.await("its end", func() bool { return r.acked[fmt.Sprint("k", i)] >= want }))
		r.pass(25 * time.Millisecond)
	}
	if n := len(r.register.Members); n != 2 || longest > 200*time.Millisecond {
		t.Errorf("the configuration has %d members; a write took %s", n, longest)
	}
	q.hung = false
	r.checkEnd()
}

// Else: the only member of the configuration is one whose volume was lost, though the storage beside the other one has
// merely hung for a while.
func TestAHandOverToALostMemberLosesNothing(t *testing.T) {
	r := newShardRig(t, 2).startAll()
	r.mustWrite("a", "b")
	old, q := r.primary(), r.members[1]
	q.crash()
	r.wipe(q)
	q.store = newModelStore()
	old.hung = true
	old.s.SetStorageResponds(r.now, false)
	r.pass(5 * time.Second)
	old.hung = false
	old.s.SetStorageResponds(r.now, true)
	r.mustWrite("c")
	r.start(q)
	r.checkEnd()
}
