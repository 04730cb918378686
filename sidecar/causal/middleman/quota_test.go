package middleman

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

func TestWatchesOfFutureVersionsHaveABoundAndEnd(t *testing.T) {
	r := newRig(t, func(c *Config) { c.OwnerOf = func(topology.Node) string { return "shop" } })
	slot := topology.SlotOf(r.key(self, 1))
	check := func(from topology.Node, hlc causal.HLC) {
		m := causal.DepCheck{Version: causal.Version{HLC: hlc, Origin: 1}, Slot: slot}.Message(from, self)
		r.m.Step(r.now, &m)
	}
	for i := range causal.HLC(maxWatchesOfOne + 1000) {
		check(topology.Node{Part: topology.Sidecar, Index: uint64(i % 50)}, 1e6+i)
	}
	if n := len(r.m.deps.watchers); n != maxWatchesOfOne || len(r.m.deps.watched) != n {
		t.Errorf("%d versions are watched for one identity", n)
	}
	check(peer, 7)
	if len(r.m.deps.watchers[causal.Version{HLC: 7, Origin: 1}]) != 1 {
		t.Error("sidecars leave no room for other shards")
	}
	for i := range 2 * maxWatchesOfPart {
		check(peer, causal.HLC(1e9+i))
	}
	if n := len(r.m.deps.watchers) - maxWatchesOfOne; n != maxWatchesOfPart {
		t.Errorf("%d versions are watched for one shard", n)
	}
	r.wait(2 * watchTTL)
	if n, s, p := len(r.m.deps.watchers)+len(r.m.deps.watched), r.m.deps.ofSidecars.Held(),
		r.m.deps.ofParts.Held(); n+s+p != 0 {
		t.Errorf("after nobody has asked again: %d watches, %d and %d counted", n, s, p)
	}
}

// Each message has a copy of its key, which may have 64 KiB.
func TestReadsThatWaitForAPutShareItsKey(t *testing.T) {
	r := newRig(t)
	key := r.key(self, 0)
	r.put(key, record(version(10)), after(version(7), r.key(peer, 0)))
	for range 3 {
		if _, ok := r.get(causal.Get{Key: strings.Clone(key), Seen: 10}); ok {
			t.Fatal("the read does not wait")
		}
	}
	p := r.m.staged.byKey[key]
	for _, q := range p.questions {
		if unsafe.StringData(q.read.key) != unsafe.StringData(p.key) {
			t.Error("a read that waits holds a key of its own")
		}
	}
	if len(p.questions) != 3 {
		t.Errorf("%d reads wait", len(p.questions))
	}
}

// Storage is slower than whoever asks: what waits for it must be bounded.
func TestScansAndCountsOfOneIdentityHaveABound(t *testing.T) {
	attacker := func(i int) topology.Node { return topology.Node{Part: topology.Sidecar, Index: 100 + uint64(i)} }
	owner := func(n topology.Node) string { return map[bool]string{true: "attacker"}[n.Index >= 100] }
	r := newRig(t, func(c *Config) { c.OwnerOf = owner })
	r.hold = func(op StorageOp) bool { return op.Kind == StorageScan || op.Kind == StorageCount }
	busy := 0
	ask := func(m causal.Message) {
		r.inbox = nil
		r.step(m)
		for _, reply := range r.inbox {
			if reply.Kind == causal.KindScanReply && reply.ScanReply().Err == causal.ErrBusy ||
				reply.Kind == causal.KindCountReply && reply.CountReply().Err == causal.ErrBusy {
				busy++
			}
		}
	}
	for i := range 1000 {
		ask(causal.Scan{ID: uint64(i), Limit: 10, Map: r.m.slotMap()}.Message(attacker(i), self))
		ask(causal.Count{ID: uint64(i)}.Message(attacker(i), self))
	}
	if waiting := 2000 - busy; waiting != maxScansOfOne/scanBytes {
		t.Errorf("%d requests of one identity are with storage", waiting)
	}
	busy = 0
	other := causal.Scan{ID: 1, Limit: 10, Map: r.m.slotMap()}
	if ask(other.Message(topology.Node{Part: topology.Sidecar, Index: 1}, self)); busy != 0 {
		t.Error("another one has no room")
	}
	r.proceed()
	if n := r.m.scans.Held(); n != 0 {
		t.Errorf("%d bytes are counted when storage has answered all", n)
	}
	long := causal.Scan{ID: 1, Limit: 10, After: strings.Repeat("k", 20<<20), Map: r.m.slotMap()}
	if ask(long.Message(attacker(0), self)); busy != 0 {
		t.Error("the longest cursor has no room")
	}
}

// It would have to name more keys than fit a reply.
func TestAScanThatIsRefusedForItsNamesIsNotCounted(t *testing.T) {
	r := newRig(t)
	missing := causal.Version{HLC: 5, Origin: 33} // in flight for ever
	for i, n := 0, 0; n <= maxNamedBytes/causal.MaxKeyBytes; i++ {
		if key := fmt.Sprintf("%0*d", causal.MaxKeyBytes, i); r.topo.Owner(0, topology.SlotOf(key)) == self {
			r.put(key, record(version(causal.HLC(100+i))), after(missing, r.key(peer, 1)))
			n++
		}
	}
	r.step(causal.Scan{ID: 1, Limit: 10, Seen: 1 << 20, Map: r.m.slotMap()}.Message(sidecar, self))
	if got := r.received(causal.KindScanReply, sidecar); len(got) != 1 || got[0].ScanReply().Err != causal.ErrBusy {
		t.Fatalf("%d replies, want one that it is busy", len(got))
	}
	if n := r.m.scans.Held(); n != 0 {
		t.Errorf("%d bytes are counted for a scan that was refused", n)
	}
}

func TestWhatOneOriginStagesHasABound(t *testing.T) {
	r := newRig(t)
	missing := causal.Version{HLC: 5, Origin: 33} // in flight for ever
	value := make([]byte, 1<<20)
	for i := range 100 {
		rec := record(version(causal.HLC(100 + i)))
		rec.Value.Data = value
		r.put(r.key(self, 1), rec, after(missing, r.key(peer, 1)))
	}
	if staged := r.m.staged.bytes[1]; staged > maxStagedBytes || staged < maxStagedBytes-2<<20 ||
		r.m.Stats().Crowded == 0 {
		t.Errorf("%d bytes are staged, %d puts refused", staged, r.m.Stats().Crowded)
	}
	if n := r.m.writes.pending; n != int(r.m.Stats().Puts) || n > 64 {
		t.Errorf("%d puts are pending, %d were taken", n, r.m.Stats().Puts)
	}
	other := record(causal.Version{HLC: 100, Origin: 17})
	r.put(r.key(self, 2), other, after(missing, r.key(peer, 1)))
	if r.m.staged.bytes[17] == 0 {
		t.Error("another origin has no room")
	}
}

func TestFrontiersOfShardsThatDoNotExistAreNotKept(t *testing.T) {
	r := newRig(t)
	before := len(r.m.frontiers.byLane)
	for i := range uint64(1000) {
		f := causal.Frontier{Map: r.topo.Map(0)}
		f.Add(causal.LaneProgress{Origin: 1, Received: 5, Clean: 5})
		r.step(f.Message(topology.Node{Part: topology.Middleman, Index: 1000 + i}, self))
	}
	if n := len(r.m.frontiers.byLane); n != before {
		t.Errorf("%d frontiers are kept", n-before)
	}
}

func TestReadsThatWaitForAPutHaveAShareForEachIdentity(t *testing.T) {
	r := newRig(t, func(c *Config) {
		c.OwnerOf = func(n topology.Node) string { return map[bool]string{true: "attacker"}[n.Index >= 100] }
	})
	key := r.key(self, 0)
	r.put(key, record(version(10)), after(version(7), r.key(peer, 0)))
	busy := func(sidecar uint64) (n int) {
		for _, m := range r.inbox {
			if m.Kind == causal.KindGetReply && m.To.Index == sidecar && m.GetReply().Err == causal.ErrBusy {
				n++
			}
		}
		return n
	}
	refused := 0
	for i := range uint64(2 * maxParkedQuestions) {
		r.inbox = nil
		from := 100 + i%50
		r.step(causal.Get{ID: i, Key: key, Seen: 10}.Message(topology.Node{Part: topology.Sidecar, Index: from}, self))
		refused += busy(from)
	}
	if n := r.m.staged.parked.Held(); n != maxParkedOfOne || refused != 2*maxParkedQuestions-maxParkedOfOne {
		t.Errorf("%d reads of one identity wait, %d are refused", n, refused)
	}
	r.inbox = nil
	r.step(causal.Get{ID: 1, Key: key, Seen: 10}.Message(topology.Node{Part: topology.Sidecar, Index: 1}, self))
	r.step(causal.DepStatus{Version: version(7)}.Message(peer, self))
	served := 0
	for _, m := range r.inbox {
		if m.Kind == causal.KindGetReply && m.To.Index == 1 && m.GetReply().Record.Version == version(10) {
			served++
		}
	}
	if served != 1 || r.m.staged.parked.Held() != 0 {
		t.Errorf("the read of another identity was answered %d times, %d count", served, r.m.staged.parked.Held())
	}
}

// Each of them is looked for, and is in several tables: with 24 bytes for each, a put counted for a tenth of what it
// takes.
func TestStagedPutsWithManyDependenciesTakeWhatTheyCountFor(t *testing.T) {
	for name, shared := range map[string]bool{"each names others": false, "all name the same": true} {
		r := newRig(t)
		memory := func() int {
			runtime.GC()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			return int(m.HeapAlloc)
		}
		before := memory()
		const puts = 30
		for i := range causal.HLC(puts) {
			r.put(r.key(self, 1), record(version(1e9+i)), func(a *causal.PutAfter) {
				for d := range causal.HLC(causal.MaxPutDeps) {
					missing := causal.Version{HLC: 1 + d, Origin: 33}
					if !shared {
						missing.HLC += i * causal.MaxPutDeps
					}
					a.Deps.AddWrite(causal.Dep{Version: missing, Slot: topology.SlotOf(r.key(self, 2))})
				}
			})
		}
		r.inbox = nil
		if counted, took := r.m.staged.bytes[1], memory()-before; took > counted*3/2 {
			t.Errorf("%s: %d puts count for %d bytes, and take %d", name, puts, counted, took)
		}
		runtime.KeepAlive(r)
	}
}

func TestWritesThatAreAskedForAgainHaveABoundInEachStep(t *testing.T) {
	r := newRig(t)
	const puts = 3
	for i := range causal.HLC(puts) {
		r.put(r.key(self, 1), record(version(1e9+i)), func(a *causal.PutAfter) {
			for d := range causal.HLC(causal.MaxPutDeps) {
				a.Deps.AddWrite(causal.Dep{Version: causal.Version{HLC: 1 + d + i*causal.MaxPutDeps, Origin: 33},
					Slot: topology.SlotOf(r.key(peer, 2))})
			}
		})
	}
	asked := map[causal.Version]bool{}
	step := func(f func()) {
		t.Helper()
		f()
		n := 0
		for _, m := range r.m.Take(nil) {
			if m.Kind == causal.KindDepCheck {
				asked[m.DepCheck().Version] = true
				n++
			}
		}
		if n > maxDepChecks {
			t.Errorf("%d writes are asked for in one step", n)
		}
	}
	r.m.Take(nil)
	step(func() { r.m.LinkUp(r.now, peer) })
	for range puts*causal.MaxPutDeps/maxDepChecks + 1 {
		r.now.Mono += int64(time.Millisecond)
		step(func() { r.m.Tick(r.now) })
	}
	if len(asked) != puts*causal.MaxPutDeps {
		t.Errorf("%d of %d writes were asked for again", len(asked), puts*causal.MaxPutDeps)
	}
}

// What is complete has no value, and is acknowledged at once: it only holds the lane together. A coordinator can send
// it without end.
func TestCompleteWritesOfALaneHaveABound(t *testing.T) {
	for name, first := range map[string]causal.HLC{"behind one that has not arrived": 1,
		"behind one that is not clean": 0} {
		r := newRig(t)
		r.put(r.key(self, 1), record(version(10)), after(causal.Version{HLC: 5, Origin: 33}, r.key(peer, 1)))
		previous := 10 + first
		for i := range causal.HLC(maxUnclean + 1000) {
			v := 20 + i
			a := causal.PutAfter{Complete: true, Record: causal.Record{Version: version(v)}, Previous: previous,
				Map: r.topo.Map(0)}
			m := a.Message(r.topo.CoordinatorOf(1), self)
			r.m.Step(r.now, &m)
			previous = v
			if i%1024 == 0 {
				r.m.writes.purge(r.m.known, r.m.ring)
			}
		}
		l := r.m.lanes.of(1)
		if len(l.cleanAhead) > maxOutOfOrder || len(l.outOfOrder) > maxOutOfOrder || len(l.unclean) > maxUnclean {
			t.Errorf("%s: %d are remembered as clean, %d as out of order, %d as received", name, len(l.cleanAhead),
				len(l.outOfOrder), len(l.unclean))
		}
	}
}
