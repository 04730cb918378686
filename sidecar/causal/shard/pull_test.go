package shard

import (
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
		if s.last || s.done {
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
