package member

import (
	"fmt"
	"testing"
	"time"
)

func TestAWriteIsDoneWhenAllMembersHaveIt(t *testing.T) {
	r := newShardRig(t, 3).startAll()
	r.mustWrite("a", "b", "a")
	p := r.primary()
	if p.number != 1 {
		t.Errorf("member %d serves, want the first", p.number)
	}
	r.members[2].paused = true
	if !r.write("c", false) {
		t.Fatal("it was refused")
	}
	if r.acked["c"] != 0 || len(p.store.keys) != 2 {
		t.Fatalf("it is done while a member does not have it: %v", p.store.keys)
	}
	if took := r.await("the write without the member", func() bool { return r.acked["c"] != 0 }); took > 2*time.Second {
		t.Errorf("it took %s", took)
	}
	r.members[2].paused = false
	r.checkEnd()
}

func TestAnotherMemberServesWithEverythingApplied(t *testing.T) {
	r := newShardRig(t, 3).startAll()
	for i := range 30 {
		r.mustWrite(fmt.Sprint("k", i%7))
	}
	old := r.primary()
	old.crash()
	took := r.await("another primary", func() bool { p := r.primary(); return p != nil && p != old })
	if took > 2*time.Second {
		t.Errorf("it took %s", took)
	}
	r.mustWrite("after")
	r.start(old)
	r.checkEnd()
}

func TestAPrimaryWhoseStorageIsBehindServesLater(t *testing.T) {
	r := newShardRig(t, 2).startAll()
	q := r.members[1]
	q.hung = true
	r.mustWrite("a", "b")
	if len(q.store.keys) != 0 {
		t.Fatal("the storage of member 2 does something")
	}
	r.members[0].crash()
	r.pass(500 * time.Millisecond)
	if r.primary() != nil {
		t.Fatal("somebody serves")
	}
	q.hung = false
	r.await("member 2", func() bool { return r.primary() == q })
	if len(q.store.keys) != 2 {
		t.Errorf("it serves with %v", q.store.keys)
	}
	r.start(r.members[0])
	r.checkEnd()
}
