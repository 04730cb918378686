package sim

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/causalstore/causalstore/lab/load"
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/session"
	"github.com/causalstore/causalstore/topology"
)

// cutWatch sees when the cuts that sessions read at, in each data center, reach what is complete.
type cutWatch struct {
	world    *World
	sidecars []topology.Node    // by data center
	waiting  [][]completedWrite // by data center
	cuts     []causal.HLC       // by data center
	movedAt  []int64            // by data center
	// ages are the times from the completion of a write until it is in the cut, for each write and each data center.
	// Those completed before from do not count.
	ages []time.Duration
	from int64
	// completed are the writes whose completion was seen, and reached those that came into a cut, once for each data
	// center.
	completed, reached []completedWrite
	// longest is the longest time without a new cut.
	longest time.Duration
}

type completedWrite struct {
	hlc causal.HLC
	at  int64
}

// observe notes the writes that coordinators report as complete.
func (c *cutWatch) observe(m *causal.Message) {
	if m.Kind != causal.KindComplete || c.world.now < c.from {
		return
	}
	for _, v := range m.Complete().Versions {
		c.completed = append(c.completed, completedWrite{v.HLC, c.world.now})
		for dc := range c.waiting {
			c.waiting[dc] = append(c.waiting[dc], completedWrite{v.HLC, c.world.now})
		}
	}
}

func (c *cutWatch) poll() {
	for dc, id := range c.sidecars {
		var cut causal.HLC
		withMachine(c.world, id, func(m *session.Sidecar, _ causal.Now) { cut = m.Cut() })
		if cut != c.cuts[dc] || c.world.now < c.from {
			c.cuts[dc], c.movedAt[dc] = cut, c.world.now
		}
		c.longest = max(c.longest, time.Duration(c.world.now-c.movedAt[dc]))
		c.waiting[dc] = slices.DeleteFunc(c.waiting[dc], func(w completedWrite) bool {
			if w.hlc <= cut {
				c.ages = append(c.ages, time.Duration(c.world.now-w.at))
				c.reached = append(c.reached, completedWrite{w.hlc, c.world.now})
			}
			return w.hlc <= cut
		})
	}
	c.world.schedule(int64(5*time.Millisecond), c.poll)
}

// percentile returns an age; all must be measured.
func (c *cutWatch) percentile(p int) time.Duration { return percentileOf(c.ages, p) }

// agesBeyondPast returns what is left of the ages without the wait for other writes: the times from when a write and
// all writes with smaller timestamps were complete until it was in the cut.
func (c *cutWatch) agesBeyondPast() []time.Duration {
	slices.SortFunc(c.completed, func(a, b completedWrite) int { return cmp.Compare(a.hlc, b.hlc) })
	last := int64(0)
	for i := range c.completed {
		last = max(last, c.completed[i].at)
		c.completed[i].at = last
	}
	ages := make([]time.Duration, len(c.reached))
	for i, w := range c.reached {
		n, _ := slices.BinarySearchFunc(c.completed, w.hlc+1, func(a completedWrite, h causal.HLC) int {
			return cmp.Compare(a.hlc, h)
		})
		ages[i] = time.Duration(w.at - c.completed[n-1].at)
	}
	return ages
}

func percentileOf(ages []time.Duration, p int) time.Duration {
	slices.Sort(ages)
	return ages[(len(ages)-1)*p/100]
}

// regionLoad is a closed loop of clients, each a session, in every data center: 95 % reads, of keys that are drawn
// zipfian.
type regionLoad struct {
	*workload
	rng     *rand.Rand
	popular *load.Zipf
}

// startRegions starts eight clients in each data center, and what watches their cuts from a time on.
func startRegions(topo *topology.Topology, from time.Duration, nearBytes int) (*World, *cutWatch) {
	return startSeed(1, topo, from, nearBytes)
}

// startSeed is startRegions with a seed.
func startSeed(seed uint64, topo *topology.Topology, from time.Duration, nearBytes int) (*World, *cutWatch) {
	w := NewWorld(topo, Settings{Seed: seed, Cache: true, Level: causal.Snapshot,
		ProductionPace: true, Lease: 3 * time.Second,
		KeepMs: 3000, NearBytes: nearBytes})
	l := &regionLoad{workload: &workload{world: w, pending: map[uint64]*client{}, issuing: true},
		rng: rand.New(rand.NewPCG(seed, 2)), popular: load.NewZipf(5000, 0.99)}
	n := len(topo.DCs)
	c := &cutWatch{world: w, waiting: make([][]completedWrite, n), cuts: make([]causal.HLC, n),
		movedAt: make([]int64, n), from: int64(from)}
	w.delivered = c.observe
	w.Run(time.Second, nil)
	for dc := range topo.DCs {
		sidecar := w.AddSidecar(topology.DC(dc), 1, l.results)
		c.sidecars = append(c.sidecars, sidecar)
		for id := uint64(1); id <= 8; id++ {
			withMachine(w, sidecar, func(m *session.Sidecar, _ causal.Now) { m.Open(id) })
			p := &client{load: l.workload, id: id, sidecar: sidecar, scripted: true}
			w.schedule(l.rng.Int64N(int64(time.Second)), func() { l.next(p) })
		}
	}
	c.poll()
	return w, c
}

func (l *regionLoad) next(p *client) {
	op := session.Op{Kind: session.OpGet, Key: fmt.Sprint("key", l.popular.Rank(l.rng))}
	if l.rng.IntN(20) == 0 {
		op.Kind, op.Value = session.OpPut, causal.Value{Data: []byte("value")}
	}
	p.issue(op)
	p.onResult = func(*session.Result) { l.world.schedule(int64(5*time.Millisecond), func() { l.next(p) }) }
}

// regionPair is two rings of one data center each, with a round trip in milliseconds between them.
func regionPair(t *testing.T, rtt float64, members int) *topology.Topology {
	t.Helper()
	dcs := []topology.DataCenter{{Name: "a"}, {Name: "b"}}
	for i := range dcs {
		dcs[i].Coordinators, dcs[i].Caches, dcs[i].Shards, dcs[i].CoordinatorMembers = 1, 1, 2, members
	}
	topo, err := topology.New(1, dcs, []topology.Ring{{Name: "a", DCs: []topology.DC{0}},
		{Name: "b", DCs: []topology.DC{1}}}, [][]float64{{0, rtt}, {rtt, 0}})
	if err != nil {
		t.Fatal(err)
	}
	return topo
}

// In virtual time, so it is the same on every machine.
// A write to a storage waits for the one before, so some wait for one that takes long.
func TestWhatIsCompleteIsSoonInTheCut(t *testing.T) {
	for _, tt := range []struct {
		name     string
		topo     *topology.Topology
		p50, p99 time.Duration
		// Since all writes with smaller timestamps were complete, too.
		beyond50, beyond99 time.Duration
	}{
		{"two regions 30 ms apart", regionPair(t, 30, 1), 100 * time.Millisecond, 250 * time.Millisecond,
			75 * time.Millisecond, 200 * time.Millisecond},
		{"two regions 80 ms apart", regionPair(t, 80, 1), 125 * time.Millisecond, 250 * time.Millisecond,
			100 * time.Millisecond, 200 * time.Millisecond},
		{"eight regions", topology.Default(), 125 * time.Millisecond, 480 * time.Millisecond, 0,
			150 * time.Millisecond},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var ages, beyond []time.Duration
			for seed := range uint64(5) { // one seed alone has a p99 of its own
				w, c := startSeed(seed+1, tt.topo, 3*time.Second, 0)
				w.Run(5*time.Second, nil)
				ages, beyond = append(ages, c.ages...), append(beyond, c.agesBeyondPast()...)
			}
			p50, p99 := percentileOf(ages, 50), percentileOf(ages, 99)
			t.Logf("%d ages: p50 %s, p99 %s", len(ages), p50, p99)
			if p50 > tt.p50 || p99 > tt.p99 {
				t.Errorf("p50 %s, p99 %s; allowed are %s and %s", p50, p99, tt.p50, tt.p99)
			}
			p50, p99 = percentileOf(beyond, 50), percentileOf(beyond, 99)
			t.Logf("since all writes with smaller timestamps were complete, too: p50 %s, p99 %s", p50, p99)
			if p50 > tt.beyond50 || p99 > tt.beyond99 {
				t.Errorf(
					"p50 %s, p99 %s since all writes with smaller timestamps were complete, too; allowed are %s and %s",
					p50, p99, tt.beyond50, tt.beyond99)
			}
		})
	}
}

func TestCutsGoOnWhenAnotherMemberServesTheLog(t *testing.T) {
	topo := regionPair(t, 30, 2)
	w, c := startRegions(topo, 4*time.Second, 0)
	w.Run(4*time.Second, nil)
	n := w.process(topology.Node{Part: topology.Coordinator})
	if n == nil || n.id.Member == 0 {
		t.Fatalf("the coordinator has no members: %v", n)
	}
	w.crash(n)
	w.Run(12*time.Second, nil)
	limit := session.DefaultConfig(topo, topology.Node{}).MaxSnapshotLag
	t.Logf("%s has crashed: longest time without a new cut %s", n.id, c.longest)
	if c.longest >= limit {
		t.Errorf("the cut did not move for %s, so sessions read the newest versions", c.longest)
	}
	for dc, cut := range c.cuts {
		if age := startMs + w.now/1e6 - cut.WallMs(); age > 1000 {
			t.Errorf("the cut in %s is %d ms old", topo.DCs[dc].Name, age)
		}
	}
}

// threeRegions are two rings of three data centers, each with two coordinators.
func threeRegions(t *testing.T) *topology.Topology {
	t.Helper()
	dcs := []topology.DataCenter{{Name: "a"}, {Name: "b"}, {Name: "c"}}
	for i := range dcs {
		dcs[i].Coordinators, dcs[i].Caches, dcs[i].Shards = 2, 1, 2
	}
	rings := []topology.Ring{{Name: "ab", DCs: []topology.DC{0, 1}}, {Name: "c", DCs: []topology.DC{2}}}
	topo, err := topology.New(1, dcs, rings, [][]float64{{0, 20, 60}, {20, 0, 60}, {60, 60, 0}})
	if err != nil {
		t.Fatal(err)
	}
	return topo
}

func TestCutsGoOnWhileTheCoordinatorsOfADataCenterAreSilent(t *testing.T) {
	for _, tt := range []struct {
		name   string
		silent []topology.Node
		// from is the first data center whose sidecars get vectors.
		from int
	}{
		{"one", []topology.Node{{Part: topology.Coordinator, Index: 1}}, 0},
		{"all of a data center", []topology.Node{{Part: topology.Coordinator}, {Part: topology.Coordinator, Index: 1}},
			1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			topo := threeRegions(t)
			const stop, settled = 4 * time.Second, 6 * time.Second
			w, c := startRegions(topo, settled, 0)
			w.Run(stop, nil)
			for _, id := range tt.silent {
				w.crash(w.process(id))
			}
			w.Run(settled-stop, nil)
			before := readsOf(c, tt.from)
			w.Run(4*time.Second, nil)
			after := readsOf(c, tt.from)
			for dc := tt.from; dc < len(topo.DCs); dc++ {
				if age := startMs + w.now/1e6 - c.cuts[dc].WallMs(); age > 500 {
					t.Errorf("the cut in %s is %d ms old", topo.DCs[dc].Name, age)
				}
			}
			if len(c.ages) == 0 {
				t.Fatal("nothing that was complete has come into the cut")
			}
			reads := float64(after.Gets - before.Gets)
			cached, bound := float64(after.CacheHits-before.CacheHits)/reads,
				float64(after.BoundGets-before.BoundGets)/reads
			p50, p99 := c.percentile(50), c.percentile(99)
			t.Logf("%.0f reads, %.3f of them from caches, %.3f bound; %d ages: p50 %s, p99 %s", reads, cached, bound,
				len(c.ages), p50, p99)
			if cached < 0.75 || bound > 0.02 || p50 > 150*time.Millisecond || p99 > 250*time.Millisecond {
				t.Errorf("allowed are 0.75 from caches at least, 0.02 bound, p50 150 ms, p99 250 ms")
			}
		})
	}
}

// readsOf adds up what sidecars have counted, from a data center on.
func readsOf(c *cutWatch, from int) (sum session.Stats) {
	for _, id := range c.sidecars[from:] {
		withMachine(c.world, id, func(m *session.Sidecar, _ causal.Now) {
			st := m.Stats()
			sum.Gets, sum.BoundGets, sum.CacheHits, sum.RemoteReads = sum.Gets+st.Gets, sum.BoundGets+st.BoundGets,
				sum.CacheHits+st.CacheHits, sum.RemoteReads+st.RemoteReads
		})
	}
	return sum
}
