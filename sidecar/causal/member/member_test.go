package member

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/coordinator"
	"github.com/causalstore/causalstore/sidecar/causal/group"
	"github.com/causalstore/causalstore/topology"
)

func TestAMemberAlonePropagatesAcknowledgedPutsAfterARestart(t *testing.T) {
	r := newRig(t, 1)
	p := r.members[0]
	for i := range uint64(50) {
		r.put(p, i+1, fmt.Sprint(i), []byte("v"))
		if reply, ok := r.reply(i + 1); !ok || reply.Err != causal.OK {
			t.Fatalf("put %d: %v, %+v", i, ok, reply)
		}
	}
	p.crash()
	r.sent = nil
	r.start(p)
	r.pass(100 * time.Millisecond)
	if keys := r.propagated(); len(keys) != 50 || keys[49] != "49" {
		t.Errorf("propagated %v", keys)
	}
}

// What the group does not keep in memory is encoded into memory that is used again. What has reached the disk must be
// what was written.
func TestTheMemoryOfRecordsIsUsedAgainOnlyWhenTheyAreOnTheDisk(t *testing.T) {
	r := newRig(t, 1)
	p := r.members[0]
	r.acks = true
	value := func(i int) []byte { return bytes.Repeat([]byte{byte(i)}, 10_000+i) }
	for i := range 200 {
		r.put(p, uint64(i+1), "k", value(i))
	}
	found := 0
	for _, b := range p.disk {
		e, err := group.ParseEntry(1, b)
		if err != nil {
			t.Fatal(err)
		}
		if e.Kind == group.EntryRecord && len(e.Record.Data) > 10_000 {
			i := int(e.Record.Data[len(e.Record.Data)/2])
			if !bytes.Contains(e.Record.Data, value(i)) {
				t.Fatalf("a record on the disk is not what was written")
			}
			found++
		}
	}
	if found == 0 {
		t.Error("no record is on the disk")
	}
	if n := len(p.c.records.used); n > 1 {
		t.Errorf("%d chunks are in use, and everything is committed", n)
	}
	r.pass(5 * time.Second) // a checkpoint
	if size := p.c.LogBytes(); size > 2*defaultCollectBytes {
		t.Errorf("the log holds %d bytes of complete writes", size)
	}
}

func TestAPutIsAcknowledgedWhenAllMembersHaveIt(t *testing.T) {
	r := newRig(t, 3)
	p := r.primary()
	if p.number != 1 {
		t.Errorf("member %d serves, want the first", p.number)
	}
	r.members[2].paused = true
	r.put(p, 1, "a", []byte("v"))
	if _, ok := r.reply(1); ok {
		t.Fatal("it was acknowledged while a member did not have it")
	}
	took := r.await("the answer without the member that does not respond", func() bool {
		_, ok := r.reply(1)
		return ok
	})
	if took > 2*time.Second {
		t.Errorf("a write waits %s for a member that does not respond", took)
	}
	r.members[2].paused = false
	r.await("the member to be back", func() bool { return len(r.primary().c.Status().Config.Members) == 3 })
}

func TestAnotherMemberServesFromTheWholeLogWhenThePrimaryIsGone(t *testing.T) {
	r := newRig(t, 3)
	for i := range uint64(20) {
		r.put(r.primary(), i+1, fmt.Sprint(i), []byte("v"))
	}
	old := r.primary()
	before := old.c.Leadership()
	old.crash()
	r.sent = nil
	took := r.await("another member to serve", func() bool { return r.primary() != nil })
	if took > 2*time.Second {
		t.Errorf("the failover took %s", took)
	}
	next := r.primary()
	if next == old || next.c.Leadership().Compare(before) <= 0 {
		t.Errorf("member %d serves in %v, before it was %v", next.number, next.c.Leadership(), before)
	}
	r.pass(100 * time.Millisecond)
	if keys := r.propagated(); len(keys) != 20 {
		t.Errorf("propagated %v", keys)
	}
	r.put(next, 21, "more", nil)
	if reply, ok := r.reply(21); !ok || reply.Err != causal.OK {
		t.Errorf("a put after the failover: %v, %+v", ok, reply)
	}
	r.start(old)
	r.await("the first member to serve again", func() bool { p := r.primary(); return p != nil && p == old })
}

// A primary that the others may have replaced must not act: not on messages, and not by its own clock.
func TestAMachineWithoutALeaseIsNotStepped(t *testing.T) {
	r := newRig(t, 2)
	p := r.primary()
	p.cut, r.away = true, true
	r.await("the lease to end", func() bool { return p.c.Leadership().IsZero() })
	if p.c.Serving() == nil || p.c.Status().Role != group.Serving {
		t.Fatalf("it is %v", p.c.Status().Role)
	}
	r.sent = nil
	r.put(p, 1, "a", nil)
	query := causal.PastQuery{ID: 9}.Message(shard, self)
	p.c.Step(r.now, &query)
	r.pass(10 * time.Second)
	if len(r.sent) > 0 {
		t.Errorf("without a lease it sent %s", r.sent[0].Kind)
	}
	p.cut, r.away = false, false
	r.await("the lease to be back", func() bool { return !p.c.Leadership().IsZero() })
	r.put(p, 2, "b", nil)
	if reply, ok := r.reply(2); !ok || reply.Err != causal.OK {
		t.Errorf("%v %+v", ok, reply)
	}
}

// A commit that is learned of while the lease is not held is told to the machine when it is held again.
func TestACommitWithoutALeaseIsToldWhenTheLeaseIsBack(t *testing.T) {
	r := newRig(t, 2)
	p := r.primary()
	p.cut, r.away = true, true
	r.put(p, 1, "a", nil)
	r.await("the lease to end", func() bool { return p.c.Leadership().IsZero() })
	p.cut, r.away = false, false
	r.await("the answer", func() bool { _, ok := r.reply(1); return ok })
	if reply, _ := r.reply(1); reply.Err != causal.OK || p.c.Leadership().IsZero() {
		t.Errorf("%+v", reply)
	}
}

func TestAHandOverStopsServingBeforeAnotherMemberStarts(t *testing.T) {
	r := newRig(t, 2)
	old := r.primary()
	r.put(old, 1, "a", nil)
	old.c.HandOver(r.now)
	took := r.await("the other member to serve", func() bool { p := r.primary(); return p != nil && p != old })
	if took > time.Second {
		t.Errorf("it took %s", took)
	}
	if old.c.Serving() != nil || old.c.Status().Role != group.Following {
		t.Errorf("the old primary is %v", old.c.Status().Role)
	}
	r.pass(5 * time.Second)
	if r.primary() == old {
		t.Error("it serves again although it is about to stop")
	}
	if keys := r.propagated(); !slices.Contains(keys, "a") {
		t.Errorf("propagated %v", keys)
	}
}

func TestPutsAreRefusedWhileTheLogHasNoRoom(t *testing.T) {
	r := newRig(t, 2)
	for _, p := range r.members {
		p.c.cfg.MaxLogBytes = 4 << 20
	}
	p := r.primary()
	accepted := 0
	for i := range uint64(60) {
		r.put(p, i+1, "k", make([]byte, 100<<10))
		reply, ok := r.reply(i + 1)
		if ok && reply.Err == causal.OK {
			accepted++
		} else if !ok || reply.Err != causal.ErrBusy {
			t.Fatalf("put %d: %v %+v", i, ok, reply)
		}
	}
	if accepted < 36 || accepted > 38 {
		t.Errorf("%d puts of 100 KiB were accepted into a log of 4 MiB", accepted)
	}
	r.acks, r.sent = true, nil
	seq := uint64(100)
	r.await("room", func() bool {
		seq++
		r.put(p, seq, "k", nil)
		return slices.ContainsFunc(r.sent, func(m causal.Message) bool {
			return m.Kind == causal.KindPutReply && m.PutReply().Err == causal.OK
		})
	})
}

func TestLeadershipsHaveIncarnationsOfTheirOwn(t *testing.T) {
	r := newRig(t, 1)
	p := r.members[0]
	seen := map[uint64]bool{}
	for range 20 {
		if n := p.c.incarnation(r.now); n == 0 || seen[n] {
			t.Fatalf("incarnation %d", n)
		} else {
			seen[n] = true
		}
		p.crash()
		r.start(p)
	}
}

func TestMessagesThatAreNotOfTheGroupAreDropped(t *testing.T) {
	r := newRig(t, 2)
	p := r.members[0]
	before := p.c.Status()
	good := group.Message{From: group.ID{Name: "2", Volume: 101}, To: group.ID{Name: "1", Volume: 100},
		Body: &group.Probe{}}
	for _, m := range []causal.Message{
		causal.GroupMessage{Body: []byte("nonsense")}.Message(self.WithMember(2), self.WithMember(1)),
		causal.GroupMessage{Body: good.AppendTo(nil)}.Message(topology.Node{Part: topology.Coordinator, Index: 1,
			Member: 2}, self.WithMember(1)),
		causal.GroupMessage{Body: good.AppendTo(nil)}.Message(self.WithMember(2), self.WithMember(2)),
		causal.GroupMessage{Body: good.AppendTo(nil)}.Message(self, self.WithMember(1)),
		causal.GroupMessage{Body: good.AppendTo(nil)}.Message(self.WithMember(9), self.WithMember(1)),
	} {
		p.c.Step(r.now, &m)
	}
	if sent := p.c.Take(nil); len(sent) > 0 || p.c.Stats().Malformed != 1 || p.c.Status().Commit != before.Commit {
		t.Errorf("sent %v, %+v", sent, p.c.Stats())
	}
}

func TestTheLatencyOfCommitsIsMeasuredUntilAllMembersHaveTheRecords(t *testing.T) {
	r := newRig(t, 2)
	p := r.primary()
	before := p.c.Stats().Commits
	r.put(p, 1, "a", []byte("v"))
	fast := p.c.Stats().Commits
	if n := fast.Total() - before.Total(); n == 0 {
		t.Error("a commit was not counted")
	}
	r.members[1].paused = true
	r.put(p, 2, "b", []byte("v"))
	r.pass(400 * time.Millisecond)
	after := p.c.Stats().Commits
	if n := after.Total(); n != fast.Total() {
		t.Errorf("%d commits were counted while a member does not have the records", n-fast.Total())
	}
	r.members[1].paused = false
	r.await("the answer", func() bool { _, ok := r.reply(2); return ok })
	if took := p.c.Stats().Commits.Sum - fast.Sum; took < 400*time.Millisecond {
		t.Errorf("the records took %s, and were held for 400ms", took)
	}
}

func TestAPrimarySaysWhichMemberIsMissingAndWhy(t *testing.T) {
	r := newRig(t, 3)
	p := r.primary()
	peer := func(name string) group.PeerHealth {
		for _, h := range r.primary().c.Health(r.now).Peers {
			if h.Name == name {
				return h
			}
		}
		t.Fatalf("nothing is known of member %s", name)
		return group.PeerHealth{}
	}
	if h := p.c.Health(r.now); h.Short >= 0 || peer("2").State != group.PeerInStep || peer("3").Heard < 0 {
		t.Errorf("a group with all members: %+v", h)
	}
	lost := r.members[2]
	lost.crash()
	r.put(p, 1, "a", []byte("v"))
	r.await("the group to do without it", func() bool { return len(p.c.Status().Config.Members) == 2 })
	r.pass(3 * time.Second)
	h := p.c.Health(r.now)
	if h.Short < 2*time.Second || peer("3").State != group.PeerSilent || peer("3").Heard < 3*time.Second {
		t.Errorf("a group without a member: %+v", h)
	}
	if follower := r.members[1].c.Health(r.now); follower.Short < 2*time.Second || len(follower.Peers) != 0 {
		t.Errorf("a follower's word: %+v", follower)
	}
	lost.disk, lost.volume = nil, lost.volume+100
	r.start(lost)
	r.await("it to be back", func() bool { return p.c.Health(r.now).Short < 0 })
	if peer("3").State != group.PeerInStep || peer("3").Behind != 0 {
		t.Errorf("a member that is back: %+v", peer("3"))
	}
}

func TestAPrimarySaysHowFarAMemberIsBehindAndSinceWhenTheRegisterIsAway(t *testing.T) {
	r := newRig(t, 2)
	p := r.primary()
	r.pass(6 * time.Second)
	if h := p.c.Health(r.now); !h.HasRegister || h.RegisterAway >= 0 || h.RegisterAnswered < 0 ||
		h.RegisterAnswered > 6*time.Second {
		t.Errorf("with the register: %+v", h)
	}
	r.away = true
	r.pass(10 * time.Second)
	r.members[1].paused = true
	r.put(p, 1, "a", make([]byte, 1000))
	r.pass(2 * time.Second)
	h := p.c.Health(r.now)
	if h.RegisterAway < 2*time.Second || len(h.Peers) != 1 || h.Peers[0].State != group.PeerSilent ||
		h.Peers[0].Behind == 0 || h.Peers[0].BehindBytes < 1000 {
		t.Errorf("without the register, and with a member that does not respond: %+v", h)
	}
	r.away, r.members[1].paused = false, false
	r.await("it to be well", func() bool {
		h := p.c.Health(r.now)
		return h.RegisterAway < 0 && len(h.Peers) == 1 && h.Peers[0].State == group.PeerInStep && h.Peers[0].Behind == 0
	})
}

// An etcd without space answers reads, and takes nothing.
func TestAMemberSaysThatTheRegisterTakesNoChange(t *testing.T) {
	r := newRig(t, 2)
	p, other := r.primary(), r.members[1]
	r.full = true
	other.paused = true
	r.put(p, 1, "a", []byte("v"))
	r.pass(6 * time.Second)
	if h := p.c.Health(r.now); h.RegisterAway < 3*time.Second || h.RegisterAnswered > 6*time.Second {
		t.Errorf("a primary that cannot do without the other member: %+v", h)
	}
	other.paused, r.full = false, false
	r.await("all to be well", func() bool {
		return p.c.Health(r.now).RegisterAway < 0 && len(p.c.Status().Config.Members) == 2
	})
	r.full = true
	p.crash()
	r.pass(6 * time.Second)
	if h := other.c.Health(r.now); !h.HasRegister || h.RegisterAway < 3*time.Second {
		t.Errorf("a member that cannot take over: %+v", h)
	}
	r.full = false
	r.await("it to serve", func() bool { return r.primary() == other && other.c.Health(r.now).RegisterAway < 0 })
}

// Whoever would stop the primary counts its members before. One that the primary has proposed to do without does not
// count, although it is back, until that is settled.
func TestAMemberThatMayHaveBeenDroppedDoesNotCount(t *testing.T) {
	r := newRig(t, 2)
	p, other := r.primary(), r.members[1]
	r.full = true
	other.paused = true
	r.put(p, 1, "a", []byte("v"))
	r.pass(2 * time.Second)
	other.paused = false
	r.pass(time.Second)
	if n := p.c.Count(); n.Present != 1 || n.Wanted != 2 || len(p.c.Status().Config.Members) != 2 {
		t.Errorf("%+v in %v", n, p.c.Status().Config)
	}
	r.full = false
	r.await("the other member to count again", func() bool { return p.c.Count().Present == 2 })
}

// With another member, a put waits for it to take over instead of being refused.
func TestAFullDiskRefusesPutsOnlyIfNobodyElseHasOne(t *testing.T) {
	for _, members := range []int{1, 2} {
		r := newRig(t, members)
		p := r.primary()
		p.c.NoteFullDisk()
		r.put(p, 1, "k", nil)
		reply, ok := r.reply(1)
		if refused := ok && reply.Err == causal.ErrBusy; refused != (members == 1) {
			t.Errorf("with %d members: answered %v, %+v", members, ok, reply)
		}
	}
}

// The disk may be writing it still.
func TestTheMemoryOfARecordIsUsedAgainOnceItIsCommitted(t *testing.T) {
	q := recordQueue{next: 1, recycle: true}
	records := make([]coordinator.LogRecord, 3)
	for i := range records {
		records[i].Checkpoint = &coordinator.Checkpoint{}
	}
	q.push(causal.Now{}, records)
	for pos := range uint64(3) {
		if q.release(pos); len(q.used) != 1 || len(q.spare) != 0 {
			t.Fatalf("with 3 records of which %d are committed: %d chunks are in use, %d are free", pos, len(q.used),
				len(q.spare))
		}
	}
	if q.release(3); len(q.used) != 0 || len(q.spare) != 1 {
		t.Errorf("with all committed: %d chunks are in use, %d are free", len(q.used), len(q.spare))
	}
}
