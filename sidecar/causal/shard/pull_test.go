package shard

import (
	"fmt"
	"testing"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// The giver has stopped to serve, and its disk does not hold that yet. If it crashes now, it serves the old map again
// and writes what is in no list.
func TestTheLastListIsMadeOnceItIsDurableThatTheGiverHasStopped(t *testing.T) {
	r := newRing(t, 1, 1, 0)
	r.run(time.Second)
	giver := r.hosts[0]
	want := map[string]causal.HLC{}
	for _, key := range keys(20) {
		giver.put(key, 10)
		want[key] = 10
	}
	taker := &host{id: topology.Node{Part: topology.Middleman, Index: 1}, topo: oneRing(t, 2, 1),
		disk: &storage{records: map[string]causal.Record{}}}
	taker.boot(t)
	r.reshard(2, 1)
	r.hosts = append(r.hosts, taker)
	giver.hold = func(op MoveOp) bool { return op.Kind == MoveSaveState && op.State.Stopped }
	r.run(5 * time.Second)
	if len(giver.held) != 1 || giver.disk.state.Stopped {
		t.Fatalf("%d requests are held, the giver is %s", len(giver.held), giver.s.Mover().Stage())
	}
	for _, s := range taker.s.Mover().sources {
		if s.IsLast() || s.IsDone() {
			t.Errorf("the taker has the last list of %s", s.node)
		}
	}
	op := giver.held[0]
	giver.hold = nil
	giver.s.Mover().OpDone(op, giver.disk.carryOut(op))
	r.run(10 * time.Second)
	if wrong := r.wrong(want); len(wrong) > 0 || taker.s.Mover().Stage() != "done" {
		t.Errorf("the taker is %s, wrong records: %v", taker.s.Mover().Stage(), wrong)
	}
}

// A late answer to a Pull and that to its repetition are the same chunk. The second may come while storage is applying
// the first, or later.
func TestAChunkThatComesTwiceIsTakenOnce(t *testing.T) {
	for _, isLater := range []bool{false, true} {
		r := newRing(t, 1, 1, 0)
		r.run(time.Second)
		want := map[string]causal.HLC{}
		for _, key := range keys(40) {
			r.hosts[0].put(key, 10)
			want[key] = 10
		}
		taker := &host{id: topology.Node{Part: topology.Middleman, Index: 1}, topo: oneRing(t, 2, 1),
			disk: &storage{records: map[string]causal.Record{}}}
		taker.boot(t)
		r.reshard(2, 1)
		r.hosts = append(r.hosts, taker)
		chunks := 0
		r.repeated = func(m *causal.Message) (atOnce, later int) {
			switch {
			case m.Kind != causal.KindPulled:
				return 0, 0
			case isLater:
				later = 1
			default:
				atOnce = 1
			}
			chunks++
			return atOnce, later
		}
		r.run(10 * time.Second)
		if chunks < 3 {
			t.Fatalf("%d chunks, want several", chunks)
		}
		if wrong := r.wrong(want); len(wrong) > 0 || taker.s.Mover().Stage() != "done" {
			t.Errorf("with the second one later %v, the taker is %s, wrong records: %v", isLater,
				taker.s.Mover().Stage(), wrong)
		}
	}
}

// Its storage is slower than the interval at which it is asked again.
func TestAGiverReadsAChunkOnceHoweverOftenItIsAskedFor(t *testing.T) {
	r, taker, want := takerOf(t, func(op MoveOp) bool { return op.Kind == MoveRead })
	giver := r.hosts[0]
	r.run(5 * time.Second)
	if len(giver.held) != 1 {
		t.Fatalf("%d chunks are being read", len(giver.held))
	}
	op := giver.held[0]
	giver.hold, giver.held = nil, nil
	giver.s.Mover().OpDone(op, giver.disk.carryOut(op))
	r.run(10 * time.Second)
	if wrong := r.wrong(want); len(wrong) > 0 || taker.s.Mover().Stage() != "done" {
		t.Errorf("the taker is %s, wrong records: %v", taker.s.Mover().Stage(), wrong)
	}
}

// takerOf adds a second shard to a ring of one that has 40 keys, and returns it with what both should have. hold keeps
// requests of the giver back.
func takerOf(t *testing.T, hold func(MoveOp) bool) (r *ring, taker *host, want map[string]causal.HLC) {
	t.Helper()
	r = newRing(t, 1, 1, 0)
	r.run(time.Second)
	want = map[string]causal.HLC{}
	for _, key := range keys(40) {
		r.hosts[0].put(key, 10)
		want[key] = 10
	}
	taker = &host{id: topology.Node{Part: topology.Middleman, Index: 1}, topo: oneRing(t, 2, 1),
		disk: &storage{records: map[string]causal.Record{}}}
	taker.boot(t)
	r.hosts[0].hold = hold
	r.reshard(2, 1)
	r.hosts = append(r.hosts, taker)
	return r, taker, want
}

// The giver has forgotten that a key was deleted since it was copied.
func TestWhatWasCopiedFromAGiverThatRestartsIsRemoved(t *testing.T) {
	reads := 0
	r, taker, want := takerOf(t, func(op MoveOp) bool {
		if op.Kind == MoveRead {
			reads++
		}
		return reads > 3
	})
	giver := r.hosts[0]
	r.run(2 * time.Second)
	deleted := ""
	for key := range taker.disk.records {
		deleted = key
	}
	if deleted == "" || len(giver.held) == 0 {
		t.Fatalf("%d keys are copied, %d requests of the giver are held", len(taker.disk.records), len(giver.held))
	}
	delete(giver.disk.records, deleted)
	want[deleted] = 0
	giver.hold, giver.held = nil, nil
	giver.boot(t)
	r.run(10 * time.Second)
	if wrong := r.wrong(want); len(wrong) > 0 || taker.s.Mover().Stage() != "done" {
		t.Errorf("the taker is %s, wrong records: %v", taker.s.Mover().Stage(), wrong)
	}
}

// The taker restarts while the giver lists keys. What was written since that list was read is in none of the new life.
func TestAListForAnEarlierLifeOfTheTakerDoesNotCount(t *testing.T) {
	r, taker, want := takerOf(t, func(op MoveOp) bool { return op.Kind == MoveList })
	giver := r.hosts[0]
	r.run(time.Second)
	if len(giver.held) != 1 {
		t.Fatalf("%d lists are made", len(giver.held))
	}
	early := giver.disk.carryOut(giver.held[0])
	late := keyOf(taker)
	giver.put(late, 20)
	want[late] = 20
	taker.boot(t)
	r.run(time.Second)
	if len(giver.held) != 2 {
		t.Fatalf("%d lists are made", len(giver.held))
	}
	mover := giver.s.Mover()
	mover.OpDone(giver.held[0], early)
	r.run(time.Second)
	mover.OpDone(giver.held[1], giver.disk.carryOut(giver.held[1]))
	giver.hold = nil
	r.run(10 * time.Second)
	if wrong := r.wrong(want); len(wrong) > 0 || taker.s.Mover().Stage() != "done" {
		t.Errorf("the taker is %s, wrong records: %v", taker.s.Mover().Stage(), wrong)
	}
}

// The giver was told to stop, and its storage finishes a write while it makes the list for a taker that has restarted.
// The list comes when the giver has stopped.
func TestAListThatWasBegunBeforeTheGiverHadStoppedIsNotTheLast(t *testing.T) {
	r, taker, want := takerOf(t, func(op MoveOp) bool { return op.Kind == MoveSaveState && op.State.Stopped })
	giver := r.hosts[0]
	r.run(5 * time.Second)
	if len(giver.held) != 1 {
		t.Fatalf("%d requests are held, the giver is %s", len(giver.held), giver.s.Mover().Stage())
	}
	stop := giver.held[0]
	giver.hold = func(op MoveOp) bool { return op.Kind == MoveList }
	giver.held = nil
	taker.boot(t)
	r.run(time.Second)
	if len(giver.held) != 1 {
		t.Fatalf("%d lists are made", len(giver.held))
	}
	early := giver.disk.carryOut(giver.held[0])
	late := keyOf(taker)
	giver.put(late, 20)
	want[late] = 20
	giver.s.Mover().OpDone(stop, giver.disk.carryOut(stop))
	giver.s.Mover().OpDone(giver.held[0], early)
	giver.hold = nil
	r.run(10 * time.Second)
	if wrong := r.wrong(want); len(wrong) > 0 || taker.s.Mover().Stage() != "done" {
		t.Errorf("the taker is %s, wrong records: %v", taker.s.Mover().Stage(), wrong)
	}
}

// keyOf returns a key of a shard that no other test writes.
func keyOf(h *host) string {
	for i := 0; ; i++ {
		if key := fmt.Sprint("late-", i); h.topo.Owner(0, topology.SlotOf(key)) == h.id {
			return key
		}
	}
}
