package process

import (
	"errors"
	"slices"
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/group"
	"github.com/causalstore/causalstore/sidecar/causal/member"
	"github.com/causalstore/causalstore/sidecar/causal/middleman"
	"github.com/causalstore/causalstore/sidecar/causal/shard"
	"github.com/causalstore/causalstore/topology"
)

var errBroken = errors.New("the storage is broken")

// memberRig drives the only member of a shard that has a register, on a storage that keeps nothing but its marks.
type memberRig struct {
	t        *testing.T
	m        *Member
	now      causal.Now
	register group.RegisterResult // what it holds
	marks    Marks
	// held are effects that are not carried out, of kinds that hold names; fails are kinds that fail.
	hold, fail []EffectKind
	problem    Problem
	held       []Effect
	log        []EffectKind
	announced  causal.Leadership
	mute       bool // nothing is announced
}

func newMemberRig(t *testing.T, found member.Applied) *memberRig {
	t.Helper()
	topo, err := topology.New(1, []topology.DataCenter{{Name: "a", Coordinators: 1, Shards: 1, ShardMembers: 1}},
		[]topology.Ring{{Name: "r", DCs: []topology.DC{0}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	r := &memberRig{t: t, now: causal.Now{Mono: 1, WallMs: 1000}, marks: Marks{Starts: 3}}
	ids := uint64(0)
	r.m = NewMember(MemberConfig{Storage: member.StorageConfig{Self: self.WithMember(1), Topology: topo, Volume: 7,
		Found: found, Empty: true}, Shard: Config{Middleman: middleman.DefaultConfig(topo, self), RemoveKeys: 2},
		NewID: func() uint64 { ids++; return ids }}, &group.Image{}, r.now)
	return r
}

// run lets time pass, and carries out what the member asks for.
func (r *memberRig) run(ms int, until func() bool) bool {
	r.t.Helper()
	for range ms {
		if until != nil && until() {
			return true
		}
		r.now.Mono += 1e6
		r.now.WallMs++
		if r.m.NextTick(r.now) <= r.now.Mono {
			r.m.Tick(r.now)
		}
		r.settle()
	}
	return until == nil
}

func (r *memberRig) settle() {
	for range 20 {
		r.m.Reads(nil)
		for _, e := range r.m.Effects(nil) {
			r.log = append(r.log, e.Kind)
			if slices.Contains(r.hold, e.Kind) {
				r.held = append(r.held, e)
				continue
			}
			r.m.Done(r.now, e.ID, r.carryOut(&e))
		}
		r.m.Take(nil)
		for _, e := range r.m.Writes(nil) {
			r.m.Appended(r.now, e.Index)
		}
		for _, op := range r.m.RegisterOps(nil) {
			r.request(op)
		}
		if l := r.m.Leadership(); l != r.announced && !r.mute {
			r.announced = l
			r.m.Announced(r.now, l)
		}
	}
}

func (r *memberRig) request(op group.RegisterOp) {
	if op.Swap {
		r.register.Config, r.register.Found = op.Config, true
	}
	res := r.register
	res.ID, res.Outcome, res.Cluster = op.ID, group.Done, "c"
	r.m.RegisterDone(r.now, res)
}

func (r *memberRig) carryOut(e *Effect) (result EffectResult) {
	if slices.Contains(r.fail, e.Kind) {
		return EffectResult{Err: errBroken, Problem: r.problem}
	}
	switch e.Kind {
	case EffectLoad:
		result.Marks = r.marks
	case EffectTask:
		for _, c := range e.Task.Changes {
			for _, m := range c.Meta {
				if err := r.marks.Set(m.Name, m.Value); err != nil {
					r.t.Fatal(err)
				}
			}
		}
	}
	return result
}

func (r *memberRig) serves() bool { return r.m.Shard() != nil && r.m.Shard().Serving() != nil }

func TestAMemberServesOnceItsShardHasStartedAndThatIsAnnounced(t *testing.T) {
	r := newMemberRig(t, member.Applied{})
	r.hold, r.mute = []EffectKind{EffectLoad}, true
	if r.run(2000, func() bool { return r.m.Leadership() != causal.Leadership{} }) {
		t.Error("it serves before its storage was read")
	}
	if r.m.Session() == 0 || r.m.Starting() == nil || len(r.held) != 1 {
		t.Fatalf("session %d, %d effects", r.m.Session(), len(r.held))
	}
	r.hold = nil
	r.m.Done(r.now, r.held[0].ID, EffectResult{Marks: r.marks})
	if !r.run(1000, r.serves) || r.m.Leadership().IsZero() {
		t.Fatal("it does not serve")
	}
	query := causal.PastQuery{ID: 1}.Message(topology.Node{Part: topology.Coordinator}, self)
	r.m.Step(r.now, &query)
	if sent := r.m.Take(nil); len(sent) > 0 {
		t.Errorf("nobody knows that it serves, and it has sent %v", sent)
	}
	r.m.Announced(r.now, r.m.Leadership())
	r.m.Step(r.now, &query)
	if sent := r.m.Take(nil); len(sent) == 0 {
		t.Error("it does not answer")
	}
}

// What was asked for while the lease held is not told the middleman when another member may serve.
func TestResultsWaitForTheAnnouncement(t *testing.T) {
	r := newMemberRig(t, member.Applied{})
	if !r.run(3000, r.serves) {
		t.Fatal("it does not serve")
	}
	r.m.Announced(r.now, causal.Leadership{})
	g := r.m.Generation()
	r.m.ReadDone(r.now, g, middleman.StorageResult{ID: 1})
	r.m.ReadDone(r.now, g+1, middleman.StorageResult{ID: 1})
	if len(r.m.held) != 1 {
		t.Errorf("%d results wait, want that of the present middleman", len(r.m.held))
	}
	r.m.Announced(r.now, r.m.Leadership())
	r.settle()
	if len(r.m.held) != 0 {
		t.Error("it waits though the leadership is announced")
	}
}

// Else the group would be without a primary until the process ends.
func TestAMemberWhoseShardDoesNotStartTriesAgainAndFailsInTheEnd(t *testing.T) {
	r := newMemberRig(t, member.Applied{})
	r.fail = []EffectKind{EffectLoad}
	if r.run(5000, func() bool { return r.m.Failure() != nil }) {
		t.Fatalf("it fails at once: %v", r.m.Failure())
	}
	if n := len(slices.DeleteFunc(slices.Clone(r.log), func(k EffectKind) bool { return k != EffectLoad })); n < 5 || n > 30 {
		t.Errorf("%d attempts in 5 s", n)
	}
	r.fail = nil
	if !r.run(2000, r.serves) {
		t.Error("it does not serve when its storage can be read again")
	}
	r = newMemberRig(t, member.Applied{})
	r.fail = []EffectKind{EffectLoad}
	if !r.run(15000, func() bool { return r.m.Failure() != nil }) || !errors.Is(r.m.Failure(), errBroken) {
		t.Errorf("after 15 s: %v", r.m.Failure())
	}
}

func TestAMemberWhoseStorageHasLostDataMarksThatAndFails(t *testing.T) {
	r := newMemberRig(t, member.Applied{})
	if !r.run(3000, r.serves) {
		t.Fatal("it does not serve")
	}
	r.hold, r.fail, r.problem = []EffectKind{EffectLoss}, []EffectKind{EffectPing}, HasLost
	r.run(500, nil)
	if len(r.held) != 1 || r.m.Failure() != nil {
		t.Fatalf("%d effects; %v", len(r.held), r.m.Failure())
	}
	if marker := r.held[0].Task.Marker; !marker.Copying || marker.Volume != 7 || marker.Position != 0 {
		t.Errorf("the marker is %+v", marker)
	}
	r.m.Done(r.now, r.held[0].ID, EffectResult{})
	if !errors.Is(r.m.Failure(), errBroken) {
		t.Errorf("it goes on: %v", r.m.Failure())
	}
}

func TestAShardWhoseStorageHasLostDataMarksThatAndFails(t *testing.T) {
	r := newRig(t, twoRings(t, 1, 0), Marks{Starts: 3})
	r.settle()
	r.log = nil
	r.write(put("k", 3))
	e := r.p.Effects(nil)[0]
	r.p.Done(r.now, e.ID, EffectResult{Err: errBroken, Problem: HasLost})
	if r.settle(); !errors.Is(r.p.Failure(), errBroken) || r.marks.Loss != shard.LossFound {
		t.Errorf("%q; the loss is %d, and it fails with %v", r.log, r.marks.Loss, r.p.Failure())
	}
}

// A storage that refuses connections is gone; one that fails otherwise may be slow; one that is full responds.
func TestAStorageThatRefusesConnectionsIsNoticedSooner(t *testing.T) {
	const ms = int64(1e6)
	for _, c := range []struct {
		problem Problem
		after   int64 // that the storage counts as one that does not respond; 0: never
	}{{IsGone, 300 * ms}, {NoProblem, 1000 * ms}, {IsFull, 0}} {
		var h storageHealth
		stuckAt := int64(0)
		for at := int64(1); at < 3000*ms && stuckAt == 0; at += ms {
			h.notePing(causal.Now{Mono: at}, &EffectResult{Err: errBroken, Problem: c.problem})
			if h.isStuck(causal.Now{Mono: at}) {
				stuckAt = at
			}
		}
		if (c.after == 0) != (stuckAt == 0) || stuckAt > 0 && stuckAt != c.after+1 {
			t.Errorf("problem %d: it does not respond from %d ns on, want %d", c.problem, stuckAt, c.after)
		}
		h.notePing(causal.Now{Mono: 4000 * ms}, &EffectResult{})
		if h.isStuck(causal.Now{Mono: 9000 * ms}) {
			t.Errorf("problem %d: it is over, and the storage does not respond", c.problem)
		}
	}
}

// A change that hangs silences the member, unless the storage is full; and that ends with the change.
func TestAMemberIsSilentWhileAChangeHangs(t *testing.T) {
	r := newMemberRig(t, member.Applied{})
	if !r.run(3000, r.serves) {
		t.Fatal("it does not serve")
	}
	r.hold = []EffectKind{EffectTask}
	if _, err := r.m.Propose(r.now, member.Change{Writes: []causal.Write{{Key: "k"}}}); err != nil {
		t.Fatal(err)
	}
	if r.run(900, nil); !r.m.StorageResponds() || len(r.held) != 1 {
		t.Fatalf("after 0.9 s; %d changes", len(r.held))
	}
	if r.run(200, nil); r.m.StorageResponds() {
		t.Error("it responds after 1.1 s")
	}
	r.hold = nil
	r.m.Done(r.now, r.held[0].ID, EffectResult{})
	if !r.m.StorageResponds() {
		t.Error("it does not respond though the change is done")
	}
}
