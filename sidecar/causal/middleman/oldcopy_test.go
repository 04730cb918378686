package middleman

import (
	"testing"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// newOldRig starts a middleman whose storage was written up to change 50, in the start before.
func newOldRig(t *testing.T, mutations ...causal.Mutation) *rig {
	t.Helper()
	return newRig(t, func(c *Config) {
		c.Fresh, c.Incarnation, c.Changes, c.Broken = false, 20, 50, causal.MutationsOf(mutations...)
		c.Lineage = causal.Lineage{}.With(10, causal.Position{}).With(20, causal.Position{Changes: 50})
	})
}

func (r *rig) hear(from topology.Node, remembers causal.Reach, away uint64) {
	r.step(causal.LaneSync{Incarnation: r.config.Incarnation, Map: r.topo.Map(0), Away: away,
		Reached: remembers}.Message(from, self))
}

// reads reports whether a read of a session that has seen nothing is answered, and a fill too.
func (r *rig) reads() bool {
	r.t.Helper()
	r.lastID++
	r.step(causal.Get{ID: r.lastID, Key: r.key(self, 0)}.Message(sidecar, self))
	replies := r.received(causal.KindGetReply, sidecar)
	if len(replies) != 1 {
		r.t.Fatalf("a read is answered with %v", replies)
	}
	if err := replies[0].GetReply().Err; err != causal.OK && err != causal.ErrStarting {
		r.t.Errorf("a read is refused: %v", err)
	}
	return replies[0].GetReply().Err == causal.OK
}

func TestAStorageIsCheckedBeforeItIsServed(t *testing.T) {
	fine := causal.Reach{Incarnation: 10, Changes: 50}
	r := newOldRig(t)
	if r.wait(0); r.reads() || r.m.IsChecked() || len(r.m.Unheard()) != 3 {
		t.Fatalf("it serves before it has heard anybody; unheard: %v", r.m.Unheard())
	}
	r.hear(coordinator, fine, allAwayBut(0, 1))
	r.hear(leader1, causal.Reach{}, allAwayBut(0)) // of an earlier version, or new
	if r.reads() {
		t.Error("it serves before all have answered")
	}
	r.hear(coordinator1, causal.Reach{Incarnation: 10, Changes: 7}, 0)
	if !r.reads() || !r.m.IsChecked() || len(r.m.Unheard()) != 0 {
		t.Errorf("it does not serve though all have answered; unheard: %v", r.m.Unheard())
	}

	r = newOldRig(t)
	r.wait(hearFor + time.Second)
	if r.reads() {
		t.Error("it serves though nobody has answered")
	}
	r.hear(coordinator, fine, allAwayBut(0, 1))
	if !r.reads() {
		t.Error("it waits for more than one, for longer than it is to")
	}
	r.hear(leader1, causal.Reach{Incarnation: 10, Changes: 51}, allAwayBut(0))
	if isOld, who, what := r.m.IsOldCopy(); !isOld || who != leader1 || what.Changes != 51 || r.m.IsChecked() {
		t.Errorf("a late answer does not count: %v %v %v", isOld, who, what)
	}
}

func TestACoordinatorThatHasRestartedIsHeardWhenWhatItSendsAgainIsHere(t *testing.T) {
	checkHeardWhenSentAgain(t, newOldRig(t))
}

// The storage is empty, and the coordinator has forgotten that the shard had acknowledged anything.
func TestAnEmptiedStorageIsServedWhenWhatARestartedCoordinatorSendsAgainIsHere(t *testing.T) {
	checkHeardWhenSentAgain(t, newRig(t, func(c *Config) {
		c.Fresh, c.Emptied, c.Incarnation, c.Lineage = false, true, 20, causal.Lineage{}.With(20, causal.Position{})
	}))
}

func checkHeardWhenSentAgain(t *testing.T, r *rig) {
	t.Helper()
	r.hear(coordinator1, causal.Reach{}, 0)
	r.hear(leader1, causal.Reach{}, allAwayBut(0))
	w := causal.Version{HLC: causal.HLCAt(500), Origin: 1}
	sync := causal.LaneSync{Incarnation: 20, Map: r.topo.Map(0), Newest: w.HLC, Away: allAwayBut(0, 1), Unsure: true}
	r.step(sync.Message(coordinator, self))
	// The vectors say that the ring has it. The storage does not.
	r.step(causal.Vectors{Entries: []causal.VectorEntry{{Origin: 1, SV: w.HLC}}}.Message(coordinator, self))
	if r.reads() {
		t.Fatal("it serves before it has what the coordinator may have forgotten")
	}
	p := causal.PutAfter{Key: r.key(self, 0), Record: causal.Record{Version: w, Value: causal.Value{Data: []byte("x")}},
		Map: r.topo.Map(0)}
	r.step(p.Message(coordinator, self))
	if _, stored := r.records[r.key(self, 0)]; !stored {
		t.Error("a put that the vectors cover is not written")
	}
	if r.wait(lease + time.Second); !r.reads() {
		t.Error("it does not serve when everything is here")
	}
}

func TestHowFarAStorageHasComeIsTold(t *testing.T) {
	r := newOldRig(t)
	told := func(to topology.Node) (changes []uint64) {
		for _, m := range r.received(causal.KindPutAck, to) {
			changes = append(changes, m.PutAck().Changes)
		}
		return changes
	}
	r.m.history.changes = 60
	if r.wait(2 * reportInterval); len(told(coordinator))+len(told(leader1)) > 0 {
		t.Error("it tells before it has heard what is remembered")
	}
	r.hear(coordinator, causal.Reach{}, allAwayBut(0, 1))
	r.hear(coordinator1, causal.Reach{}, 0)
	r.hear(leader1, causal.Reach{}, allAwayBut(0))
	r.wait(2 * reportInterval)
	for _, leader := range []topology.Node{coordinator, leader1} {
		if changes := told(leader); len(changes) != 1 || changes[0] != 60 {
			t.Errorf("%v is told %v", leader, changes)
		}
	}
	for range 5 {
		r.wait(2 * reportInterval)
	}
	if len(told(coordinator))+len(told(coordinator1))+len(told(leader1)) > 0 {
		t.Error("it tells again though nothing has changed")
	}
	r.m.LinkUp(r.now, leader1)
	if r.wait(2 * reportInterval); len(told(leader1)) != 1 {
		t.Error("what may be lost on a link is not told again")
	}
}

// Its key may have been deleted since, and the tombstone dropped.
func TestAPutBelowTheHorizonIsNotInDoubt(t *testing.T) {
	r := newOldRig(t)
	r.m.tombstones.horizon = 9
	for hlc, want := range map[causal.HLC]bool{9: false, 10: true} {
		if got := r.m.isInDoubt(causal.Version{HLC: hlc, Origin: 1}); got != want {
			t.Errorf("a put at %d, with the horizon 9, is in doubt: %v", hlc, got)
		}
	}
}
