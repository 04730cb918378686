package session

import (
	"fmt"
	"testing"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// The rings of a rig. Ring i is data center i alone, with one shard. The sidecar is in data center 0, so ring near is
// the nearest and ring far the farthest.
const (
	near topology.RingID = iota
	middle
	far
)

// rig is a sidecar with session 1 open. The test plays all other nodes.
type rig struct {
	t       testing.TB
	topo    *topology.Topology
	s       *Sidecar
	now     causal.Now
	lastOp  uint64
	results map[uint64]Result
}

func newRig(t testing.TB, configure ...func(*Config)) *rig {
	t.Helper()
	dcs := []topology.DataCenter{
		{Name: "a", Coordinators: 2, Shards: 1, Caches: 1}, {Name: "b", Coordinators: 1, Shards: 1},
		{Name: "c", Coordinators: 1, Shards: 1},
	}
	rings := []topology.Ring{
		{Name: "near", DCs: []topology.DC{0}}, {Name: "middle", DCs: []topology.DC{1}},
		{Name: "far", DCs: []topology.DC{2}},
	}
	topo, err := topology.New(1, dcs, rings, [][]float64{{0, 10, 50}, {10, 0, 50}, {50, 50, 0}})
	if err != nil {
		t.Fatal(err)
	}
	cfg := DefaultConfig(topo, topology.Node{Part: topology.Sidecar, Index: 1})
	for _, f := range configure {
		f(&cfg)
	}
	r := &rig{t: t, topo: topo, s: New(cfg), now: causal.Now{Mono: 1}, results: map[uint64]Result{}}
	r.s.Open(1)
	t.Cleanup(func() {
		r.result(0)
		for id := range r.results {
			r.release(id)
		}
		if cfg.Broken.Any() {
			return
		}
		for _, wrong := range r.s.CheckCounts() {
			t.Error(wrong)
		}
	})
	return r
}

// Options of newRig.
func snapshotReads(c *Config) {
	c.Level, c.SnapshotInterval, c.SnapshotLead = causal.Snapshot, 500*time.Millisecond, 0
}
func noCache(c *Config) { c.UseCache = false }

// showsFault runs check against the protocol, where it must find no violation, and with a rule broken, where it must.
func showsFault(t *testing.T, f causal.Mutation, check func(r *rig) (violation string), configure ...func(*Config)) {
	t.Helper()
	t.Run("protocol", func(t *testing.T) {
		if violation := check(newRig(t, configure...)); violation != "" {
			t.Error(violation)
		}
	})
	t.Run("mutation "+f.String(), func(t *testing.T) {
		broken := append(configure[:len(configure):len(configure)], func(c *Config) { c.Broken = causal.MutationsOf(f) })
		if check(newRig(t, broken...)) == "" {
			t.Error("the violation was not noticed")
		}
	})
}

// shard returns the middleman of a ring.
func (r *rig) shard(ring topology.RingID) topology.Node {
	return topology.Node{DC: topology.DC(ring), Part: topology.Middleman}
}

// start starts an operation of session 1, or of op.Session if it is set.
func (r *rig) start(op Op) (id uint64) {
	r.lastOp++
	op.ID = r.lastOp
	if op.Session == 0 {
		op.Session = 1
	}
	r.s.Do(r.now, op)
	return op.ID
}

func (r *rig) startGet(key string) uint64 { return r.start(Op{Kind: OpGet, Key: key}) }

func (r *rig) startPut(key, value string) uint64 {
	return r.start(Op{Kind: OpPut, Key: key, Value: causal.Value{Data: []byte(value)}})
}

// sent returns the messages of a kind that were sent since the last call, and drops all others.
func (r *rig) sent(kind causal.Kind) (ms []*causal.Message) {
	for _, m := range r.s.Take(nil) {
		if m.Kind == kind {
			ms = append(ms, &m)
		}
	}
	return ms
}

// request returns the only message of a kind that was sent since the last call.
func (r *rig) request(kind causal.Kind) *causal.Message {
	r.t.Helper()
	ms := r.sent(kind)
	if len(ms) != 1 {
		r.t.Fatalf("%d messages %s were sent, want 1", len(ms), kind)
	}
	return ms[0]
}

func (r *rig) step(m causal.Message) { r.s.Step(r.now, &m) }

// replyGet answers a Get.
func (r *rig) replyGet(request *causal.Message, reply causal.GetReply) {
	g := request.Get()
	reply.ID, reply.Key = g.ID, g.Key
	r.step(reply.Message(request.To, request.From))
}

// replyPut answers a Put.
func (r *rig) replyPut(request *causal.Message, v causal.Version, err causal.ErrCode) {
	r.step(causal.PutReply{ID: request.Put().ID, Session: 1, Version: v, Err: err}.Message(request.To, request.From))
}

// result returns the result of an operation, if it is finished.
func (r *rig) result(id uint64) (Result, bool) {
	for _, res := range r.s.TakeResults(nil) {
		if _, twice := r.results[res.ID]; twice {
			r.t.Errorf("operation %d has two results", res.ID)
		}
		r.results[res.ID] = res
	}
	res, ok := r.results[id]
	return res, ok
}

// release ends the count of what the result of an operation holds.
func (r *rig) release(id uint64) {
	res := r.results[id]
	r.s.ReleaseAhead(res.Ahead)
	res.Ahead = 0
	r.results[id] = res
}

// mustResult returns the result of an operation that must be finished.
func (r *rig) mustResult(id uint64) Result {
	r.t.Helper()
	res, ok := r.result(id)
	if !ok {
		r.t.Fatalf("operation %d is not finished", id)
	}
	return res
}

func (r *rig) mustBeUnfinished(id uint64) {
	r.t.Helper()
	if res, ok := r.result(id); ok {
		r.t.Fatalf("operation %d is finished: %+v", id, res)
	}
}

// read reads a key and answers with a version, from a ring.
func (r *rig) read(key string, v causal.Version, status causal.Status, ring topology.RingID) Result {
	r.t.Helper()
	id := r.startGet(key)
	r.replyGet(r.request(causal.KindGet), causal.GetReply{Record: record(v), Status: status, Ring: ring})
	return r.mustResult(id)
}

// write puts a key, and has it accepted with a version.
func (r *rig) write(key, value string, v causal.Version) {
	r.t.Helper()
	id := r.startPut(key, value)
	r.replyPut(r.request(causal.KindPut), v, causal.OK)
	if res := r.mustResult(id); res.Err != causal.OK {
		r.t.Fatalf("put %s: %s", key, res.Err)
	}
}

// complete tells the sidecar that own writes are complete.
func (r *rig) complete(versions ...causal.Version) {
	c := causal.Complete{Session: 1, Versions: versions}
	r.step(c.Message(topology.Node{Part: topology.Coordinator}, r.s.cfg.Self))
}

// vectors tells the sidecar the stability vectors.
func (r *rig) vectors(entries ...causal.VectorEntry) {
	leader := r.topo.Leader(0)
	r.step(causal.Vectors{Entries: entries}.Message(leader, r.s.cfg.Self))
}

// completeUpTo says that every write of every origin at or below h is complete.
func (r *rig) completeUpTo(h causal.HLC) {
	r.vectors(causal.VectorEntry{Origin: 1, Last: topology.Origin(r.topo.Origins()), SV: h})
}

// receivedUpTo says that a ring has acknowledged every write of every origin at or below h.
func (r *rig) receivedUpTo(h causal.HLC, ring topology.RingID) {
	rv := make([]causal.HLC, len(r.topo.Rings))
	rv[ring] = h
	r.vectors(causal.VectorEntry{Origin: 1, Last: topology.Origin(r.topo.Origins()), RV: rv})
}

// depStatus answers notify-after.
func (r *rig) depStatus(v causal.Version, ring topology.RingID, clean bool) {
	r.step(causal.DepStatus{Version: v, Ring: ring, Clean: clean}.Message(r.shard(ring), r.s.cfg.Self))
}

// tick lets d go by, and ticks.
func (r *rig) tick(d time.Duration) {
	r.now.Mono += int64(d)
	r.now.WallMs += d.Milliseconds()
	r.s.Tick(r.now)
}

// bound reports whether the session is bound, and the rings that it may read.
func (r *rig) bound() (bool, topology.RingSet) {
	st := r.s.Status(1)
	return st.Restrictions > 0, st.Rings
}

// version returns the version of a coordinator of data center 1, which is foreign to the session's own writes.
func version(h causal.HLC) causal.Version { return causal.Version{HLC: h, Origin: 17} }

// ownVersion returns the version of a coordinator of the own data center.
func ownVersion(h causal.HLC) causal.Version { return causal.Version{HLC: h, Origin: 1} }

func record(v causal.Version) causal.Record {
	return causal.Record{Version: v, Value: causal.Value{Data: fmt.Appendf(nil, "%d", v.HLC)}}
}
