package member

import (
	"fmt"
	"testing"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/group"
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

func TestAHandedOverShardServesAtOnce(t *testing.T) {
	r := newShardRig(t, 3).startAll()
	r.mustWrite("a", "b")
	old := r.primary()
	old.s.HandOver(r.now)
	r.flush()
	if took := r.await("another primary", func() bool {
		p := r.primary()
		return p != nil && p != old
	}); took > time.Second {
		t.Errorf("it took %s", took)
	}
	if old.s.Session() != 0 || !old.s.Leadership().IsZero() {
		t.Error("the old one serves")
	}
	if _, err := old.s.Propose(r.now, Change{}); err == nil {
		t.Error("the old one takes proposals")
	}
	r.mustWrite("c")
	r.checkEnd()
}

func TestChangesAreAppliedOnceWhereverAMemberStops(t *testing.T) {
	for _, applied := range []bool{false, true} {
		r := newShardRig(t, 2).startAll()
		r.mustWrite("a")
		q := r.members[1]
		q.hung = true
		r.mustWrite("b", "c") // they are in the log of member 2
		if q.held == nil {
			t.Fatal("the storage has nothing to do")
		}
		if applied {
			q.store.run(q.held)
		}
		q.crash()
		q.hung = false
		r.start(q)
		r.checkEnd()
		if q.s.copies > 0 {
			t.Errorf("applied %v: the storage was copied", applied)
		}
	}
}

func TestAStorageThatHasLostSomethingIsCopied(t *testing.T) {
	for name, lose := range map[string]func(*shardMember){
		"no marker":             func(p *shardMember) { p.store.marker = Applied{} },
		"everything":            func(p *shardMember) { p.store = newModelStore() },
		"another volume's":      func(p *shardMember) { p.store.marker.Volume++ },
		"behind the log's base": func(p *shardMember) { p.store.marker.Position = 1 },
		"another session's":     func(p *shardMember) { p.store.marker.Stamp.Life += 7 },
		"ahead of the log":      func(p *shardMember) { p.store.marker.Position += 5 },
		"incomplete":            func(p *shardMember) { p.store.marker.Copying = true },
	} {
		t.Run(name, func(t *testing.T) {
			r := newShardRig(t, 2)
			r.retain = 1
			r.startAll()
			for i := range 40 {
				r.mustWrite(fmt.Sprint(i))
			}
			for _, p := range r.members {
				if p.s.group.Base() < 3 {
					t.Fatal("nothing was collected")
				}
			}
			q := r.members[1]
			volume := q.volume
			q.crash()
			lose(q)
			r.start(q)
			r.mustWrite("more")
			r.await("a copy", func() bool { return q.s.copies > 0 })
			r.checkEnd()
			if q.volume == volume {
				t.Error("a log beside a storage that has lost something still counts")
			}
		})
	}
}

func TestAPrimaryWhoseStorageHasLostSomethingDoesNotServe(t *testing.T) {
	r := newShardRig(t, 2).startAll()
	r.mustWrite("a", "b")
	p := r.members[0]
	p.crash()
	p.store = newModelStore()
	r.start(p)
	r.mustWrite("c")
	r.checkEnd()
	if len(p.store.keys) != 3 {
		t.Errorf("it has %v", p.store.keys)
	}
}

func TestAMemberThatWasAwayShortlyIsContinuedByTheLog(t *testing.T) {
	for _, c := range []struct {
		retain int
		copies uint64
	}{{1 << 20, 0}, {1, 1}} {
		r := newShardRig(t, 2)
		r.retain = c.retain
		r.startAll()
		r.mustWrite("a")
		q := r.members[1]
		q.crash()
		for i := range 60 {
			r.mustWrite(fmt.Sprint(i))
		}
		r.start(q)
		r.checkEnd()
		if q.s.copies != c.copies {
			t.Errorf("%d bytes are kept: %d copies", c.retain, q.s.copies)
		}
	}
}

func TestAMemberWhoseStorageDoesNotRespondIsDoneWithout(t *testing.T) {
	for number := range 2 {
		r := newShardRig(t, 3).startAll()
		r.mustWrite("a")
		p := r.members[number]
		copies := p.s.copies
		p.hung = true
		r.write("b", false)
		took := r.await("a configuration without it", func() bool {
			q := r.primary()
			return q != nil && q != p && !r.register.Has(group.ID{Name: nameOf(p.s.self), Volume: p.volume})
		})
		if took > 4*time.Second {
			t.Errorf("member %d: it took %s", number+1, took)
		}
		if !p.s.Status().Impaired {
			t.Error("it does not know")
		}
		r.mustWrite("c", "d")
		p.hung = false
		r.checkEnd()
		if p.s.copies > copies {
			t.Error("its storage was copied")
		}
	}
}

func TestAStorageThatTheHostFindsUnresponsiveImpairsItsMember(t *testing.T) {
	r := newShardRig(t, 2).startAll()
	p := r.members[0]
	p.s.SetStorageResponds(r.now, false)
	r.await("another primary", func() bool { return r.primary() == r.members[1] })
	p.s.SetStorageResponds(r.now, true)
	r.checkEnd()
}

func TestAGroupIsCreatedFromAStorageThatHasData(t *testing.T) {
	r := newShardRig(t, 3)
	first := &r.members[0].store
	for i := range 10 {
		first.set(fmt.Sprint("old", i), causal.Record{Version: causal.Version{HLC: 1}}, false)
	}
	first.meta["incarnation"] = "7"
	r.startAll()
	r.mustWrite("new", "old3")
	r.checkEnd()
	if s := &r.members[2].store; len(s.keys) != 11 || s.meta["incarnation"] != "7" {
		t.Errorf("member 3 has %d keys and %v", len(s.keys), s.meta)
	}
}

func TestTheStorageOfSomebodyElseIsNotReplaced(t *testing.T) {
	for name, spoil := range map[string]func(*shardMember){
		"a store that was never a member's": func(*shardMember) {},
		"a member's of another group": func(p *shardMember) {
			p.store.marker = Applied{Group: 5, Volume: 6, Position: 7}
		},
	} {
		r := newShardRig(t, 2)
		other := r.members[1]
		other.store.set("precious", causal.Record{}, false)
		spoil(other)
		r.start(r.members[0])
		r.start(other)
		r.pass(5 * time.Second)
		if r.primary() != nil {
			t.Errorf("%s: a group was created beside it", name)
		}
		other.crash()
		kept := other.store
		other.store = newModelStore()
		r.start(other)
		r.awaitAll()
		other.crash()
		other.store = kept
		r.wipe(other)
		r.start(other)
		r.pass(5 * time.Second)
		if other.s.Failure() == nil || len(other.store.keys) != 1 {
			t.Errorf("%s: failure %v, and it has %v", name, other.s.Failure(), other.store.keys)
		}
	}
}

// A creator whose marker is not durable when it creates the group would be damaged after a restart.
func TestACreatorMayStopAtAnyTime(t *testing.T) {
	for step := range 12 {
		r := newShardRig(t, 2)
		p := r.members[0]
		p.store.set("old", causal.Record{Version: causal.Version{HLC: 1}}, false)
		r.start(p)
		r.start(r.members[1])
		r.pass(time.Duration(step) * 50 * time.Millisecond)
		p.crash()
		r.start(p)
		r.awaitAll()
		r.mustWrite("a")
		r.checkEnd()
		if len(p.store.keys) != 2 || p.s.copies > 0 {
			t.Errorf("step %d: %d keys, %d copies", step, len(p.store.keys), p.s.copies)
		}
	}
}

// A member that was to create the group has marked its storage, and stops; then another one is to create it. The mark
// is no data, before the restart and after it. A storage that holds something, has a position, or was marked with a log
// that is gone may have been that of a group.
func TestAMarkedStorageKeepsNoOtherMemberFromCreatingTheGroup(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(*shardRig, *shardMember)
		want  bool
	}{
		"it was marked only": {func(*shardRig, *shardMember) {}, true},
		"the storage holds something": {func(_ *shardRig, p *shardMember) {
			p.store.set("old", causal.Record{Version: causal.Version{HLC: 1}}, false)
		}, false},
		"the log is another one": {func(r *shardRig, p *shardMember) { r.wipe(p) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := newShardRig(t, 2)
			p := r.members[1]
			p.store.marker = Applied{Group: p.volume, Volume: p.volume}
			c.spoil(r, p)
			for _, m := range r.members {
				r.start(m)
			}
			r.pass(5 * time.Second)
			if serves := r.primary() != nil; serves != c.want {
				t.Fatalf("a member serves: %v, want %v", serves, c.want)
			}
			if c.want {
				r.awaitAll()
				r.mustWrite("a")
				r.checkEnd()
			}
		})
	}
}

// The creator of a group loses its log when it has marked its storage, and has not created the group. A marker that is
// not of such a creation, a storage that holds something, or a group in the register is another matter: something may
// be lost.
func TestACreatorThatLosesItsLogBeforeThereIsAGroupCreatesOne(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(*shardRig, *shardMember)
		want  bool
	}{
		"it was marked only": {func(*shardRig, *shardMember) {}, true},
		"the storage holds something": {func(_ *shardRig, p *shardMember) {
			p.store.set("old", causal.Record{Version: causal.Version{HLC: 1}}, false)
		}, false},
		"the storage is of a group":    {func(_ *shardRig, p *shardMember) { p.store.marker.Group++ }, false},
		"the storage is at a position": {func(_ *shardRig, p *shardMember) { p.store.marker.Position = 7 }, false},
		"the register has its group": {func(r *shardRig, p *shardMember) {
			id := group.ID{Name: "1", Volume: p.store.marker.Volume}
			r.register = group.Config{Group: id.Volume, Epoch: 1, Members: []group.ID{id}, Primary: id,
				Nonce: group.Nonce{Volume: id.Volume, Number: 1}}
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := newShardRig(t, 2)
			p := r.members[0]
			p.store.marker = Applied{Group: p.volume, Volume: p.volume}
			c.spoil(r, p)
			marker := p.store.marker
			r.wipe(p)
			for _, m := range r.members {
				r.start(m)
			}
			r.pass(5 * time.Second)
			if serves := r.primary() != nil; serves != c.want {
				t.Fatalf("a member serves: %v, want %v", serves, c.want)
			}
			if marked := p.store.marker != marker; marked != c.want {
				t.Errorf("its storage is marked anew: %v, want %v", marked, c.want)
			}
			if c.want {
				r.awaitAll()
				r.mustWrite("a")
				r.checkEnd()
			}
		})
	}
}
