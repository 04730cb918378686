package middleman

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// The nodes around the middleman under test, which is one of three in the only ring.
var (
	self         = topology.Node{Part: topology.Middleman}
	peer         = topology.Node{Part: topology.Middleman, Index: 1}
	coordinator  = topology.Node{Part: topology.Coordinator}
	coordinator1 = topology.Node{Part: topology.Coordinator, Index: 1}
	sidecar      = topology.Node{Part: topology.Sidecar, Index: 1}
	leader1      = topology.Node{DC: 1, Part: topology.Coordinator}
	cacheA       = topology.Node{Part: topology.Cache}
	cacheB       = topology.Node{DC: 1, Part: topology.Cache}
)

const lease = 3 * time.Second

// testTopology has two data centers in one ring: two shards and two coordinators in the first, one of each in the
// second, and a cache in both.
func testTopology(t testing.TB) *topology.Topology {
	t.Helper()
	dcs := []topology.DataCenter{{Name: "a", Coordinators: 2, Caches: 1, Shards: 2},
		{Name: "b", Coordinators: 1, Caches: 1, Shards: 1}}
	topo, err := topology.New(1, dcs, []topology.Ring{{Name: "r", DCs: []topology.DC{0, 1}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return topo
}

// rig drives one middleman with messages, and carries out its storage requests in memory.
type rig struct {
	t       testing.TB
	topo    *topology.Topology
	config  Config
	m       *Middleman
	now     causal.Now
	records map[string]causal.Record
	foreign map[string]bool // keys that something else has written
	horizon causal.HLC
	fences  causal.Fences
	// hold keeps storage requests from being carried out; fail makes them fail. Both may be nil.
	hold, fail func(StorageOp) bool
	held       []StorageOp
	writes     []StorageOp // all but reads that were carried out
	inbox      []causal.Message
	lastID     uint64
	lastPut    map[topology.Origin]causal.HLC
}

func newRig(t testing.TB, configure ...func(*Config)) *rig {
	t.Helper()
	topo := testTopology(t)
	r := &rig{t: t, topo: topo, now: causal.Now{Mono: int64(time.Hour), WallMs: 1_000_000},
		records: map[string]causal.Record{},
		foreign: map[string]bool{}, lastPut: map[topology.Origin]causal.HLC{}}
	r.config = DefaultConfig(topo, self)
	r.config.Incarnation, r.config.Fresh, r.config.Lease = 1, true, lease
	for _, f := range configure {
		f(&r.config)
	}
	r.m = New(r.config, r.now)
	t.Cleanup(func() {
		if r.config.Broken.Any() {
			return
		}
		for _, wrong := range r.m.CheckCounts() {
			t.Error(wrong)
		}
	})
	return r
}

// restart replaces the middleman by one that has only what storage holds.
func (r *rig) restart() {
	r.config.Incarnation++
	r.config.Fresh, r.config.Horizon, r.config.Fences = false, r.horizon, r.fences
	r.held, r.inbox = nil, nil
	r.m = New(r.config, r.now)
}

// step gives the middleman a message, and carries out what follows from it.
func (r *rig) step(msg causal.Message) {
	r.m.Step(r.now, &msg)
	r.pump()
}

// wait lets time pass, and then the middleman do what is due.
func (r *rig) wait(d time.Duration) {
	r.now.Mono += int64(d)
	r.now.WallMs += d.Milliseconds()
	r.m.Tick(r.now)
	r.pump()
}

// pump carries out storage requests and collects messages until there are no more.
func (r *rig) pump() {
	for {
		r.inbox = r.m.Take(r.inbox)
		ops := r.m.Ops(nil)
		if len(ops) == 0 {
			return
		}
		for _, op := range ops {
			if r.hold != nil && r.hold(op) {
				r.held = append(r.held, op)
				continue
			}
			r.carryOut(op)
		}
	}
}

// proceed carries out the storage requests that were held back.
func (r *rig) proceed() {
	held := r.held
	r.held, r.hold = nil, nil
	for _, op := range held {
		r.carryOut(op)
	}
	r.pump()
}

func (r *rig) carryOut(op StorageOp) {
	result := StorageResult{ID: op.ID, Failed: r.fail != nil && r.fail(op)}
	if !result.Failed {
		switch op.Kind {
		case StorageRead:
			result.Record, result.Found = r.records[op.Key]
			result.Foreign = r.foreign[op.Key]
		case StorageWrite:
			r.records[op.Key] = op.Record
			delete(r.foreign, op.Key)
		case StorageDelete:
			delete(r.records, op.Key)
		case StorageHorizon:
			r.horizon = op.Horizon
		case StorageCount:
			result.Count = int64(len(r.records))
		case StorageFence:
			r.fences = r.fences.With(op.Origin, op.Generation)
		case StorageScan:
			result.Keys = slices.Sorted(maps.Keys(r.records))
			result.Keys = slices.DeleteFunc(result.Keys, func(key string) bool { return key <= op.Key })
			if op.Limit > 0 && len(result.Keys) > op.Limit {
				result.Keys = result.Keys[:op.Limit]
				result.Next = result.Keys[op.Limit-1]
			}
		}
		if op.Kind != StorageRead && op.Kind != StorageScan {
			r.writes = append(r.writes, op)
		}
	}
	r.m.StorageDone(r.now, result)
}

// received removes the messages of a kind that were sent to a node, and returns them.
func (r *rig) received(kind causal.Kind, node topology.Node) (msgs []causal.Message) {
	r.inbox = slices.DeleteFunc(r.inbox, func(m causal.Message) bool {
		if m.Kind != kind || m.To != node {
			return false
		}
		msgs = append(msgs, m)
		return true
	})
	return msgs
}

// acked removes the acknowledgements to a coordinator, and returns the HLCs of the writes.
func (r *rig) acked(node topology.Node) (all []causal.HLC) {
	for _, m := range r.received(causal.KindPutAck, node) {
		for _, v := range m.PutAck().Versions {
			all = append(all, v.HLC)
		}
	}
	return all
}

// version returns a version of the coordinator that most tests write through.
func version(hlc causal.HLC) causal.Version { return causal.Version{HLC: hlc, Origin: 1} }

// record returns a record whose value names its version.
func record(v causal.Version) causal.Record {
	return causal.Record{Version: v, Value: causal.Value{Data: fmt.Appendf(nil, "v%d", v.HLC)}}
}

func tombstoneOf(v causal.Version) causal.Record {
	return causal.Record{Version: v, Value: causal.Value{Tombstone: true}}
}

// put sends the next write of a lane; change may adapt it.
func (r *rig) put(key string, rec causal.Record, change ...func(*causal.PutAfter)) {
	o := rec.Version.Origin
	a := causal.PutAfter{Key: key, Record: rec, Previous: r.lastPut[o], Map: r.topo.Map(0)}
	for _, f := range change {
		f(&a)
	}
	r.lastPut[o] = max(r.lastPut[o], rec.Version.HLC)
	r.step(a.Message(r.topo.CoordinatorOf(o), self))
}

// after makes a put depend on a single write of a key.
func after(v causal.Version, key string) func(*causal.PutAfter) {
	return func(a *causal.PutAfter) { a.Deps.AddWrite(causal.Dep{Version: v, Slot: topology.SlotOf(key)}) }
}

// afterLane makes a put depend on the lane to the shard of a key.
func afterLane(v causal.Version, key string) func(*causal.PutAfter) {
	return func(a *causal.PutAfter) { a.Deps.AddLane(causal.Dep{Version: v, Slot: topology.SlotOf(key)}) }
}

// get reads a key and returns the reply; false: there is none yet.
func (r *rig) get(g causal.Get) (causal.GetReply, bool) {
	r.lastID++
	g.ID = r.lastID
	r.step(g.Message(sidecar, self))
	return r.reply(g.ID)
}

// reply returns the reply to a Get, if it was sent.
func (r *rig) reply(id uint64) (causal.GetReply, bool) {
	for _, m := range r.inbox {
		if m.Kind == causal.KindGetReply && m.RequestID() == id {
			return m.GetReply(), true
		}
	}
	return causal.GetReply{}, false
}

// mustGet reads a key.
func (r *rig) mustGet(g causal.Get) causal.GetReply {
	r.t.Helper()
	reply, ok := r.get(g)
	if !ok {
		r.t.Fatalf("no reply to %+v", g)
	}
	return reply
}

// openStream opens a stream of a cache and gives it a lease.
func (r *rig) openStream(cache topology.Node, epoch uint64) {
	r.step(causal.StreamOpen{Epoch: epoch, Incarnation: r.config.Incarnation}.Message(cache, self))
	r.step(causal.LeaseRenewal{Epoch: epoch}.Message(cache, self))
	r.received(causal.KindLeaseGrant, cache)
}

// fill asks for a value on the first stream of a cache.
func (r *rig) fill(cache topology.Node, f causal.Fill) causal.FillReply {
	r.t.Helper()
	if f.Epoch == 0 {
		f.Epoch = 1
	}
	r.step(f.Message(cache, self))
	replies := r.received(causal.KindFillReply, cache)
	if len(replies) != 1 {
		r.t.Fatalf("%d replies to %+v, want 1", len(replies), f)
	}
	return replies[0].FillReply()
}

// confirm confirms everything on the first stream of a cache.
func (r *rig) confirm(cache topology.Node) {
	r.step(causal.InvalidateAck{Epoch: 1, AckedSeq: r.m.streams.byCache[cache].seq}.Message(cache, self))
}

// raiseSV tells that every write of every origin up to hlc is complete.
func (r *rig) raiseSV(hlc causal.HLC) {
	all := causal.VectorEntry{Origin: 1, Last: topology.Origin(r.topo.Origins()), SV: hlc}
	r.step(causal.Vectors{Entries: []causal.VectorEntry{all}}.Message(coordinator, self))
}

// key returns a key of a shard; different numbers give different keys.
func (r *rig) key(shard topology.Node, number int) string {
	for i := 0; ; i++ {
		key := fmt.Sprint("key", i)
		if r.topo.Owner(0, topology.SlotOf(key)) == shard {
			if number == 0 {
				return key
			}
			number--
		}
	}
}

// ruleHolds runs a scenario twice: on a middleman that follows the protocol, where it must find no violation, and on
// one that breaks a rule, where it must find one. The scenario returns what is wrong, or "".
func ruleHolds(t *testing.T, mutation causal.Mutation, scenario func(r *rig) string, configure ...func(*Config)) {
	t.Helper()
	t.Run("with the rule", func(t *testing.T) {
		if violation := scenario(newRig(t, configure...)); violation != "" {
			t.Error(violation)
		}
	})
	t.Run("broken by "+mutation.String(), func(t *testing.T) {
		breakRule := func(c *Config) { c.Broken = causal.MutationsOf(mutation) }
		violation := scenario(newRig(t, append(slices.Clone(configure), breakRule)...))
		if violation == "" {
			t.Error("the scenario does not notice that the rule is broken")
		}
		t.Log(violation)
	})
}
