package process

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/middleman"
	"github.com/causalstore/causalstore/sidecar/causal/shard"
	"github.com/causalstore/causalstore/topology"
)

// rig drives a Shard on a storage in memory, one effect at a time, and notes the effects in order.
type rig struct {
	t       *testing.T
	p       *Shard
	topo    *topology.Topology
	now     causal.Now
	marks   Marks
	records map[string]causal.Record
	changes uint64
	pending []Effect
	log     []string
	fail    func(*Effect) bool
}

var self = topology.Node{Part: topology.Middleman}

func twoRings(t *testing.T, shards, before int) *topology.Topology {
	t.Helper()
	topo, err := topology.New(1, []topology.DataCenter{{Name: "a", Coordinators: 1, Shards: shards,
		ShardsBefore: before}, {Name: "b", Coordinators: 1, Shards: 1}},
		[]topology.Ring{{Name: "r", DCs: []topology.DC{0}}, {Name: "s", DCs: []topology.DC{1}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return topo
}

func newRig(t *testing.T, topo *topology.Topology, marks Marks, keys ...string) *rig {
	r := &rig{t: t, topo: topo, now: causal.Now{Mono: 1, WallMs: 1000}, marks: marks,
		records: map[string]causal.Record{}, fail: func(*Effect) bool { return false }}
	for i, key := range keys {
		r.records[key] = causal.Record{Version: causal.Version{HLC: causal.HLC(i + 1), Origin: 1}}
	}
	r.start(causal.Mutations{})
	return r
}

func (r *rig) start(broken causal.Mutations) {
	cfg := middleman.DefaultConfig(r.topo, self)
	cfg.Broken = broken
	r.p = NewShard(Config{Middleman: cfg, ID: 7, RemoveKeys: 2}, r.now)
	r.pending, r.log = nil, nil
}

// collect takes what the Shard asks for.
func (r *rig) collect() {
	r.p.Reads(nil)
	r.pending = r.p.Effects(r.pending)
}

// next carries out the oldest effect of a kind; 0: of any. It returns false if there is none.
func (r *rig) next(kind EffectKind) bool {
	r.t.Helper()
	r.collect()
	i := slices.IndexFunc(r.pending, func(e Effect) bool { return kind == 0 || e.Kind == kind })
	if i < 0 {
		return false
	}
	e := r.pending[i]
	r.pending = slices.Delete(r.pending, i, i+1)
	r.log = append(r.log, describe(&e))
	result := EffectResult{}
	if r.fail(&e) {
		result.Err = errors.New("the storage has failed")
	} else {
		r.carryOut(&e, &result)
	}
	r.p.Done(r.now, e.ID, result)
	return true
}

// settle carries out all effects.
func (r *rig) settle() {
	r.t.Helper()
	for n := 0; r.next(0); n++ {
		if n == 100 {
			r.t.Fatalf("it does not come to rest: %q", r.log)
		}
	}
}

func (r *rig) carryOut(e *Effect, result *EffectResult) {
	switch e.Kind {
	case EffectLoad:
		result.Marks = r.marks
	case EffectWrite, EffectChange, EffectLoss:
		r.changes++
		for _, w := range e.Change.Writes {
			if w.Delete {
				delete(r.records, w.Key)
			} else {
				r.records[w.Key] = w.Record
			}
		}
		for _, m := range e.Change.Meta {
			if err := r.marks.Set(m.Name, m.Value); err != nil {
				r.t.Fatal(err)
			}
		}
	case EffectList:
		for _, key := range slices.Sorted(maps.Keys(r.records)) {
			if e.Want == nil || e.Want(topology.SlotOf(key)) {
				result.Keys = append(result.Keys, key)
			}
		}
	}
	for _, key := range e.Keys {
		result.Records = append(result.Records, causal.Moved{Key: key, Record: r.records[key]})
	}
	result.Position.Changes = r.changes
}

// describe names what an effect does.
func describe(e *Effect) string {
	switch e.Kind {
	case EffectLoad:
		return "load"
	case EffectList:
		return "list"
	case EffectRead:
		return "read"
	case EffectTombstones:
		return "tombstones"
	}
	var parts []string
	for _, w := range e.Change.Writes {
		if w.Delete {
			parts = append(parts, "-"+w.Key)
		} else {
			parts = append(parts, "+"+w.Key)
		}
	}
	for _, m := range e.Change.Meta {
		text := m.Name
		if m.Name == MarkLoss {
			text = fmt.Sprintf("%s=%d", m.Name, m.Value[0])
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, " ")
}

func (r *rig) expect(what string, want ...string) {
	r.t.Helper()
	if !slices.Equal(r.log, want) {
		r.t.Errorf("%s:\n got %q\nwant %q", what, r.log, want)
	}
	r.log = nil
}

// write makes the middleman of the rig ask for a write.
func (r *rig) write(op middleman.StorageOp) { r.p.addWrite(&op) }

func put(key string, o topology.Origin) middleman.StorageOp {
	return middleman.StorageOp{ID: 1 << 40, Kind: middleman.StorageWrite, Key: key,
		Record: causal.Record{Version: causal.Version{HLC: 1, Origin: o}}}
}

func TestAMiddlemanServesOnceItsStartIsDurable(t *testing.T) {
	r := newRig(t, twoRings(t, 1, 0), Marks{Starts: 3})
	for r.p.Serving() == nil && r.next(0) {
	}
	r.expect("a start", "load", "stand", "incarnation lineage")
	if r.marks.Starts <= 3 || r.marks.Lineage.Last() != r.marks.Starts {
		t.Errorf("the start is %d, the lineage ends with %d", r.marks.Starts, r.marks.Lineage.Last())
	}
	r.start(causal.Mutations{})
	r.settle()
	r.expect("another start", "load", "incarnation lineage", "tombstones")
}

// Else a crash in between would leave a storage that lacks what was removed, and does not know that.
func TestALossIsDurableBeforeWhatIsLeftIsRemovedAndUntilItIs(t *testing.T) {
	topo := twoRings(t, 1, 0)
	marks := Marks{Starts: 3, State: shard.MigrationState{Map: topo.Map(0)}, Loss: shard.LossFound}
	r := newRig(t, topo, marks, "x", "y", "z")
	r.start(causal.MutationsOf(causal.EmptiesDamaged)) // it asks nobody
	r.settle()
	r.expect("a start that clears", "load", "data-lost=1", "list", "-x -y", "-z",
		"incarnation lineage data-lost=2", "tombstones")
}

func TestAStartThatFailsEndsTheShard(t *testing.T) {
	for failing := range 3 {
		r := newRig(t, twoRings(t, 1, 0), Marks{Starts: 3})
		n := 0
		r.fail = func(*Effect) bool { n++; return n == failing+1 }
		r.settle()
		if r.p.Failure() == nil || r.p.Serving() != nil || n != failing+1 {
			t.Errorf("effect %d has failed: failure %v, %d effects", failing, r.p.Failure(), n)
		}
	}
}

func TestAStorageOfOtherShardsIsNotUsed(t *testing.T) {
	r := newRig(t, twoRings(t, 2, 0), Marks{Starts: 3, State: shard.MigrationState{Map: twoRings(t, 3, 0).Map(0)}})
	r.settle()
	if err := r.p.Failure(); err == nil || !strings.Contains(err.Error(), "put shardsBefore back") {
		t.Errorf("it goes on: %v", err)
	}
}

func TestWritesThatArriveDuringAnApplyShareTheNextUpToTheLimits(t *testing.T) {
	r := newRig(t, twoRings(t, 1, 0), Marks{Starts: 3})
	r.settle()
	sizes := func(n, size int) {
		for i := range n {
			op := put(fmt.Sprintf("k%d", i), 0)
			op.Record.Value.Data = make([]byte, size)
			r.write(op)
		}
		r.collect()
	}
	sizes(1, 10)
	sizes(100, 10)
	sizes(maxGroupOps+3, 10)
	sizes(3, maxGroupBytes/2-100)
	for i, want := range []int{1, maxGroupOps, 103 + 1, 2} {
		r.collect()
		if len(r.pending) != 1 || len(r.pending[0].Change.Writes) != want {
			t.Fatalf("group %d: %d changes, the first with %d writes, want %d", i, len(r.pending),
				len(r.pending[0].Change.Writes), want)
		}
		r.next(EffectWrite)
	}
}

// A mark that a failed change was to write may be in the storage. It is not replaced by less.
func TestMarksAreInTheChangeThatNeedsThemAndAreNeverLess(t *testing.T) {
	r := newRig(t, twoRings(t, 1, 0), Marks{Starts: 3})
	r.settle()
	r.log = nil
	r.write(put("x", 1))
	r.settle()
	r.write(put("y", 1))
	r.settle()
	r.expect("the first write of an origin, and the second", "+x origins", "+y")
	r.fail = func(*Effect) bool { return true }
	r.write(put("x", 2))
	r.write(middleman.StorageOp{Kind: middleman.StorageHorizon, Horizon: 9})
	r.collect()
	r.next(EffectWrite)
	r.fail = func(*Effect) bool { return false }
	r.write(put("x", 3))
	r.write(middleman.StorageOp{Kind: middleman.StorageHorizon, Horizon: 5})
	r.settle()
	r.expect("after a failure", "+x tombstone-horizon origins", "+x tombstone-horizon origins")
	if r.marks.Horizon != 9 || !r.marks.Origins.Has(2) || !r.marks.Origins.Has(3) {
		t.Errorf("the storage has the horizon %d and the origins %b", r.marks.Horizon, r.marks.Origins)
	}
}

// Puts of a log that was given up would be taken again.
func TestAFenceIsNotLowered(t *testing.T) {
	r := newRig(t, twoRings(t, 1, 0), Marks{Starts: 3})
	r.settle()
	for _, generation := range []uint64{5, 3} {
		r.write(middleman.StorageOp{Kind: middleman.StorageFence, Origin: 2, Generation: generation})
	}
	if r.settle(); r.marks.Fences[2] != 5 {
		t.Errorf("the fence is %d, want 5", r.marks.Fences[2])
	}
}

// What a mover writes and what the middleman writes are under way at the same time, but not with marks, of which the
// one that is made last would replace the other.
func TestNoTwoChangesWithMarksAreUnderWay(t *testing.T) {
	r := newRig(t, twoRings(t, 1, 0), Marks{Starts: 3})
	r.settle()
	r.log = nil
	moved := shard.MoveOp{Kind: shard.MoveApply, Horizon: 7, Records: []causal.Moved{
		{Key: "m", Record: causal.Record{Version: causal.Version{HLC: 1, Origin: 4}}}}}
	r.write(put("x", 1))
	r.collect()
	r.p.tasks = append(r.p.tasks, func() { r.p.move(&shard.Mover{}, moved) })
	if r.collect(); len(r.pending) != 1 {
		t.Fatalf("%d changes are under way", len(r.pending))
	}
	r.next(EffectWrite)
	r.write(put("y", 2))
	if r.collect(); len(r.pending) != 1 {
		t.Fatalf("%d changes are under way", len(r.pending))
	}
	r.settle()
	r.expect("changes with marks", "+x origins", "+m tombstone-horizon origins", "+y origins")
	r.p.tasks = append(r.p.tasks, func() { r.p.move(&shard.Mover{}, moved) })
	r.write(put("z", 2))
	if r.collect(); len(r.pending) != 2 {
		t.Errorf("%d changes without marks are under way", len(r.pending))
	}
}

// What the storage may still carry out for a middleman that was stopped would be unknown to the next one.
func TestAMiddlemanStartsWhenTheStorageIsDoneWithTheOneBefore(t *testing.T) {
	r := newRig(t, twoRings(t, 1, 0), Marks{Starts: 3})
	r.settle()
	r.log = nil
	r.write(put("x", 1))
	r.collect()
	r.write(put("dropped", 1))
	// the number of caches changes, so that another middleman is to serve
	dcs := slices.Clone(r.topo.DCs)
	dcs[0].Caches = 1
	topo, err := topology.New(2, dcs, r.topo.Rings, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.p.SetTopology(r.now, topo); err != nil {
		t.Fatal(err)
	}
	if r.collect(); len(r.pending) != 1 || r.p.Serving() != nil {
		t.Fatalf("%d effects are under way before the storage is done", len(r.pending))
	}
	generation := r.p.Generation()
	for r.p.Serving() == nil && r.next(0) {
	}
	r.expect("the next start", "+x origins", "incarnation lineage")
	if r.p.NoteTombstone(generation, "x", causal.Record{}) {
		t.Error("it takes note of what a scan for an earlier middleman finds")
	}
	r.settle()
	r.expect("of what the one before had asked for, nothing more", "tombstones")
	r.now.Mono += int64(middleman.DefaultLease) - 1
	r.p.Tick(r.now)
	r.settle()
	r.expect("before the leases have expired")
	if due := r.p.NextTick(r.now); due > r.now.Mono+1 {
		t.Errorf("the next tick is in %d ns", due-r.now.Mono)
	}
	r.now.Mono++
	r.p.Tick(r.now)
	r.settle()
	r.expect("after the leases have expired", "caches")
}
