package shard

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/middleman"
	"github.com/causalstore/causalstore/topology"
)

// storage is the durable state of one shard.
type storage struct {
	records map[string]causal.Record
	state   MigrationState
	horizon causal.HLC
	starts  uint64
	caches  topology.CacheLayout
	life    uint64
}

func (d *storage) carryOut(op MoveOp) MoveResult {
	r := MoveResult{ID: op.ID}
	switch op.Kind {
	case MoveList:
		for key := range d.records {
			if op.Want(topology.SlotOf(key)) {
				r.Keys = append(r.Keys, key)
			}
		}
		slices.Sort(r.Keys)
	case MoveRead:
		for _, key := range op.Keys {
			r.Records = append(r.Records, causal.Moved{Key: key, Record: d.records[key]})
		}
		r.Horizon = d.horizon
	case MoveApply:
		for _, m := range op.Records {
			if m.Record.Version.IsZero() {
				delete(d.records, m.Key)
			} else {
				d.records[m.Key] = m.Record
			}
		}
		d.horizon = max(d.horizon, op.Horizon)
	case MoveWipe:
		for key := range d.records {
			if op.Want(topology.SlotOf(key)) {
				delete(d.records, key)
			}
		}
	case MoveSaveState:
		d.state = op.State
	}
	return r
}

// host runs a Shard the way package node does.
type host struct {
	id     topology.Node
	topo   *topology.Topology
	disk   *storage
	s      *Shard
	plan   Start
	broken causal.Mutations
	// hold keeps requests of the mover from being carried out; nil: none.
	hold func(MoveOp) bool
	held []MoveOp
}

func (h *host) boot(t *testing.T) {
	t.Helper()
	if err := CheckState(h.topo, h.id, h.disk.state); err != nil {
		t.Fatal(err)
	}
	var mover *Mover
	if NeedsMover(h.topo, h.id) {
		h.disk.life++
		cfg := DefaultMoverConfig(h.topo, h.id)
		cfg.Life, cfg.State, cfg.Notice, cfg.Chunk, cfg.Broken = h.disk.life, h.disk.state, 0, 2, h.broken
		mover = NewMover(cfg)
	} else {
		h.disk.state.Map = h.topo.Map(0)
	}
	h.s = New(h.topo, h.id, mover, Past{Starts: 1, HasWritesOf: func(topology.Origin) bool { return false }})
}

// reconcile carries out what the Shard asks for, and returns the messages that it sends.
func (h *host) reconcile(now causal.Now) []causal.Message {
	if !h.s.IsCurrent() {
		h.s.Stop()
		h.s.Drained()
		history := History{Starts: h.disk.starts, Caches: h.disk.caches, Horizon: h.disk.horizon}
		if plan, ok := h.s.PlanStart(causal.Now{}, middleman.DefaultConfig(h.topo, h.id), history); ok {
			h.disk.starts, h.plan = plan.Config.Incarnation, plan
			h.s.Start(middleman.New(plan.Config, now), plan)
		}
	}
	for ops := h.s.MoveOps(nil); len(ops) > 0; ops = h.s.MoveOps(nil) {
		for _, op := range ops {
			if h.hold != nil && h.hold(op) {
				h.held = append(h.held, op)
				continue
			}
			h.s.Mover().OpDone(op, h.disk.carryOut(op))
		}
	}
	return h.s.Take(nil)
}

// ring is a data center with one ring whose shards change in number.
type ring struct {
	t     *testing.T
	hosts []*host
	now   causal.Now
	// write is called while the first copy is made, once.
	write func()
	// repeated returns how often a message arrives again at once, and how often when storage has carried out what
	// follows from it; nil: never.
	repeated func(*causal.Message) (atOnce, later int)
}

func oneRing(t *testing.T, shards, before int) *topology.Topology {
	t.Helper()
	topo, err := topology.New(1, []topology.DataCenter{{Name: "a", Coordinators: 1, Caches: 1, Shards: shards,
		ShardsBefore: before}},
		[]topology.Ring{{Name: "r", DCs: []topology.DC{0}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return topo
}

func newRing(t *testing.T, hosts, shards, before int, mutations ...causal.Mutation) *ring {
	r := &ring{t: t, now: causal.Now{Mono: 1, WallMs: 100_000}}
	topo := oneRing(t, shards, before)
	for i := range hosts {
		h := &host{id: topology.Node{Part: topology.Middleman, Index: uint64(i)}, topo: topo,
			disk:   &storage{records: map[string]causal.Record{}},
			broken: causal.MutationsOf(mutations...)}
		h.boot(t)
		r.hosts = append(r.hosts, h)
	}
	return r
}

// run lets time pass and delivers every message, and asserts that no slot is served twice.
func (r *ring) run(d time.Duration) {
	r.t.Helper()
	for end := r.now.Mono + int64(d); r.now.Mono < end; {
		r.now.Mono += int64(20 * time.Millisecond)
		var sent []causal.Message
		for _, h := range r.hosts {
			h.s.Tick(r.now)
			sent = append(sent, h.reconcile(r.now)...)
		}
		for i := 0; i < len(sent); i++ { // it grows
			if to := sent[i].To; to.Part == topology.Middleman && int(to.Index) < len(r.hosts) {
				h := r.hosts[to.Index]
				atOnce, later := 0, 0
				if r.repeated != nil {
					atOnce, later = r.repeated(&sent[i])
				}
				for range 1 + atOnce {
					h.s.Step(r.now, &sent[i])
				}
				sent = append(sent, h.reconcile(r.now)...)
				for range later {
					h.s.Step(r.now, &sent[i])
				}
			}
			if !sent[i].FitsMessage() {
				r.t.Fatalf("a %s of %d bytes does not fit a message", sent[i].Kind, sent[i].MaxEncodedSize())
			}
			if sent[i].Kind == causal.KindPulled && r.write != nil {
				r.write()
				r.write = nil
			}
		}
		for slot := range topology.Slots {
			var by []topology.Node
			for _, h := range r.hosts {
				if v := h.s.View(); v != nil && v.Owner(0, topology.Slot(slot)) == h.id {
					by = append(by, h.id)
				}
			}
			if len(by) > 1 {
				r.t.Fatalf("slot %d is served by %v", slot, by)
			}
		}
	}
}

// reshard changes the number of shards and restarts nothing.
func (r *ring) reshard(shards, before int) {
	r.t.Helper()
	topo := oneRing(r.t, shards, before)
	for _, h := range r.hosts {
		h.topo = topo
		if err := CheckState(topo, h.id, h.disk.state); err != nil {
			r.t.Fatal(err)
		}
		h.disk.life++
		cfg := DefaultMoverConfig(topo, h.id)
		cfg.Life, cfg.State, cfg.Notice, cfg.Chunk, cfg.Broken = h.disk.life, h.disk.state, 0, 2, h.broken
		h.s.SetTopology(topo, NewMover(cfg))
	}
}

func (h *host) put(key string, hlc causal.HLC) {
	rec := causal.Record{Version: causal.Version{HLC: hlc, Origin: 1}}
	h.s.NoteWrite(middleman.StorageOp{Kind: middleman.StorageWrite, Key: key, Record: rec})
	h.disk.records[key] = rec
}

func keys(n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf("key-%d", i))
	}
	return all
}

// wrong returns the keys that their owner does not hold at the wanted HLC, and those that another one holds as well.
func (r *ring) wrong(want map[string]causal.HLC) (all []string) {
	for key, hlc := range want {
		owner := r.hosts[0].topo.Owner(0, topology.SlotOf(key))
		for _, h := range r.hosts {
			if rec, ok := h.disk.records[key]; ok != (h.id == owner && hlc != 0) || ok && rec.Version.HLC != hlc {
				all = append(all, fmt.Sprintf("%s at %s", key, h.id))
			}
		}
	}
	return all
}

func TestReshardingMovesEveryRecordToItsNewOwner(t *testing.T) {
	for _, broken := range []bool{false, true} {
		var mutations []causal.Mutation
		if broken {
			mutations = []causal.Mutation{causal.MoveWithoutRest}
		}
		r := newRing(t, 3, 2, 0, mutations...)
		r.hosts = r.hosts[:2]
		r.run(time.Second)
		want := map[string]causal.HLC{}
		for _, key := range keys(40) {
			r.hosts[r.hosts[0].topo.Owner(0, topology.SlotOf(key)).Index].put(key, 10)
			want[key] = 10
		}
		third := &host{id: topology.Node{Part: topology.Middleman, Index: 2}, topo: oneRing(t, 3, 2),
			disk:   &storage{records: map[string]causal.Record{}},
			broken: causal.MutationsOf(mutations...)}
		third.boot(t)
		r.reshard(3, 2)
		r.hosts = append(r.hosts, third)
		r.write = func() { // while copies are made
			for _, key := range keys(40) {
				old := oneRing(t, 2, 0).Owner(0, topology.SlotOf(key))
				r.hosts[old.Index].put(key, 20)
				want[key] = 20
			}
		}
		r.run(10 * time.Second)
		for _, h := range r.hosts {
			if stage := h.s.Mover().Stage(); stage != "done" || h.s.Serving() == nil {
				t.Errorf("%s is %s, serves %v", h.id, stage, h.s.Serving() != nil)
			}
		}
		if wrong := r.wrong(want); (len(wrong) > 0) != broken {
			t.Errorf("with move-without-rest %v, wrong records: %v", broken, wrong)
		}
	}
}

// A value that an earlier version has accepted fits a message alone, and not beside others.
func TestAChunkFitsAMessageWhateverItsValuesAre(t *testing.T) {
	r := newRing(t, 3, 2, 0)
	r.hosts = r.hosts[:2]
	r.run(time.Second)
	want, data, moved := map[string]causal.HLC{}, make([]byte, 20<<20-400), 0
	for _, key := range keys(40) {
		h := r.hosts[r.hosts[0].topo.Owner(0, topology.SlotOf(key)).Index]
		h.put(key, 10)
		want[key] = 10
		if oneRing(t, 3, 2).Owner(0, topology.SlotOf(key)).Index == 2 {
			rec := h.disk.records[key]
			rec.Value.Data = data[:[]int{ChunkBytes - 300, len(data)}[moved%2]]
			h.disk.records[key] = rec
			moved++
		}
	}
	third := &host{id: topology.Node{Part: topology.Middleman, Index: 2}, topo: oneRing(t, 3, 2),
		disk: &storage{records: map[string]causal.Record{}}}
	third.boot(t)
	r.reshard(3, 2)
	r.hosts = append(r.hosts, third)
	r.run(10 * time.Second)
	if wrong := r.wrong(want); len(wrong) > 0 || len(third.disk.records) < 6 {
		t.Errorf("wrong records: %v; %d were moved", wrong, len(third.disk.records))
	}
}

func TestAMiddlemanThatLeavesEndsEmpty(t *testing.T) {
	r := newRing(t, 2, 2, 0)
	r.run(time.Second)
	want := map[string]causal.HLC{}
	for _, key := range keys(20) {
		r.hosts[r.hosts[0].topo.Owner(0, topology.SlotOf(key)).Index].put(key, 10)
		want[key] = 10
	}
	r.reshard(1, 2)
	r.run(10 * time.Second)
	if wrong := r.wrong(want); len(wrong) > 0 {
		t.Errorf("wrong records: %v", wrong)
	}
	if m := r.hosts[1].s.Mover(); !m.HasLeft() || m.Stage() != "gone" || r.hosts[1].s.Serving() != nil {
		t.Errorf("it is %s", m.Stage())
	}
}

func TestOldRecordsOfSlotsThatAreTakenInAreRemoved(t *testing.T) {
	for _, broken := range []bool{false, true} {
		r := newRing(t, 2, 1, 0)
		r.hosts = r.hosts[:1]
		r.run(time.Second)
		second := &host{id: topology.Node{Part: topology.Middleman, Index: 1}, topo: oneRing(t, 2, 1),
			disk: &storage{records: map[string]causal.Record{}}}
		if broken {
			second.broken = causal.MutationsOf(causal.MoveOntoOld)
		}
		for _, key := range keys(20) { // from an earlier membership; the keys were deleted since
			second.disk.records[key] = causal.Record{Version: causal.Version{HLC: 5, Origin: 1}}
		}
		second.boot(t)
		r.reshard(2, 1)
		r.hosts = append(r.hosts, second)
		r.run(10 * time.Second)
		if back := len(second.disk.records) > 0; back != broken {
			t.Errorf("with move-onto-old %v deleted keys are back: %v", broken, back)
		}
	}
}

func TestNothingIsServedWhileStorageMayStillCarryOutEarlierRequests(t *testing.T) {
	topo, self := oneRing(t, 1, 0), topology.Node{Part: topology.Middleman}
	s := New(topo, self, nil, Past{Starts: 1})
	plan, ok := s.PlanStart(causal.Now{}, middleman.DefaultConfig(topo, self), History{})
	if !ok || s.IsCurrent() {
		t.Fatalf("nothing serves yet: plan %v, current %v", ok, s.IsCurrent())
	}
	s.Start(middleman.New(plan.Config, causal.Now{}), plan)
	s.Stop()
	if _, ok := s.PlanStart(causal.Now{}, middleman.DefaultConfig(topo, self), History{Starts: 1}); ok {
		t.Error("a start is planned before the storage has drained")
	}
	s.Drained()
	if _, ok := s.PlanStart(causal.Now{}, middleman.DefaultConfig(topo, self), History{Starts: 1}); !ok {
		t.Error("no start is planned after the storage has drained")
	}
}

// The host makes the incarnation durable between plan and start, which takes a while. What the middleman writes then
// must be in the last list.
func TestSlotsAreNotHandedOverWhileAMiddlemanIsAboutToStart(t *testing.T) {
	topo, self := oneRing(t, 2, 1), topology.Node{Part: topology.Middleman}
	cfg := DefaultMoverConfig(topo, self)
	cfg.Life = 1
	mover := NewMover(cfg)
	s := New(topo, self, mover, Past{Starts: 1})
	plan, ok := s.PlanStart(causal.Now{}, middleman.DefaultConfig(topo, self), History{Starts: 1})
	if !ok {
		t.Fatal("nothing is to be served before slots move")
	}
	mover.phase = phaseStopping // everybody has a copy
	if ops := s.MoveOps(nil); len(ops) > 0 {
		t.Errorf("slots are handed over although a middleman starts that may write to them: %+v", ops)
	}
	s.Start(middleman.New(plan.Config, causal.Now{}), plan)
	if ops := s.MoveOps(nil); len(ops) > 0 || s.IsCurrent() {
		t.Errorf("the middleman serves under the old map, and it is current: %v, %+v", s.IsCurrent(), ops)
	}
	s.Stop()
	s.Drained()
	if ops := s.MoveOps(nil); len(ops) != 1 || !ops[0].State.Stopped {
		t.Errorf("nothing is written any more, and slots are not handed over: %+v", ops)
	}
}

func TestAMiddlemanStartsWithWhatItsStorageKnowsOfItsPast(t *testing.T) {
	self := topology.Node{Part: topology.Middleman}
	layout := oneRing(t, 1, 0).CacheLayout()
	for _, c := range []struct {
		name               string
		shards, before     int
		h                  History
		fresh, inherited   bool
		saveCaches, starts bool
	}{
		{"first start", 1, 0, History{}, true, false, true, true},
		{"restart", 1, 0, History{Starts: 3, Caches: layout, Horizon: 9}, false, false, false, true},
		{"restart with other caches", 1, 0, History{Starts: 3, Caches: layout + 1}, false, true, true, true},
		{"first start during a resharding that only takes slots away", 2, 1, History{}, false, true, true, true},
	} {
		topo := oneRing(t, c.shards, c.before)
		var mover *Mover
		if NeedsMover(topo, self) {
			cfg := DefaultMoverConfig(topo, self)
			cfg.Life = 1
			mover = NewMover(cfg)
		}
		p, ok := answered(New(topo, self, mover, Past{Starts: c.h.Starts})).PlanStart(causal.Now{},
			middleman.DefaultConfig(topo, self), c.h)
		if ok != c.starts || p.Config.Fresh != c.fresh || p.Config.Inherited != c.inherited ||
			p.SaveCaches != c.saveCaches ||
			p.Config.Incarnation != c.h.Starts+1 || p.Config.Horizon != c.h.Horizon {
			t.Errorf("%s: %v, %+v", c.name, ok, p)
		}
	}
}

func TestAStorageThatDoesNotFitTheTopologyIsRefused(t *testing.T) {
	two, three := oneRing(t, 2, 0).Map(0), oneRing(t, 3, 0).Map(0)
	first, third := topology.Node{Part: topology.Middleman}, topology.Node{Part: topology.Middleman, Index: 2}
	for _, c := range []struct {
		name           string
		shards, before int
		self           topology.Node
		state          MigrationState
		fits           bool
	}{
		{"first start", 2, 0, first, MigrationState{}, true},
		{"restart", 2, 0, first, MigrationState{Map: two}, true},
		{"other numbers without a resharding", 3, 0, first, MigrationState{Map: two}, false},
		{"resharding begins", 3, 2, first, MigrationState{Map: two}, true},
		{"resharding has ended here", 3, 2, first, MigrationState{Map: three, HoldsMovedSlots: true}, true},
		{"stopped for this resharding", 3, 2, first, MigrationState{Map: two, Stopped: true}, true},
		{"stopped, and the resharding is taken back", 2, 0, first, MigrationState{Map: two, Stopped: true}, false},
		{"another resharding", 4, 3, first, MigrationState{Map: two}, false},
		{"takes slots in for the first time", 3, 2, third, MigrationState{Stopped: true}, true},
		{"has not taken in everything", 3, 0, third, MigrationState{Stopped: true}, false},
	} {
		if err := CheckState(oneRing(t, c.shards, c.before), c.self, c.state); (err == nil) != c.fits {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
