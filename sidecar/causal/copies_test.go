package causal_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/cache"
	"github.com/causalstore/causalstore/sidecar/causal/middleman"
	"github.com/causalstore/causalstore/topology"
)

func oneShard(t testing.TB) *topology.Topology {
	dcs := []topology.DataCenter{{Name: "a", Coordinators: 1, Caches: 1, Shards: 1}}
	topo, err := topology.New(1, dcs, []topology.Ring{{Name: "r", DCs: []topology.DC{0}}}, [][]float64{{0}})
	if err != nil {
		t.Fatal(err)
	}
	return topo
}

// rig is a cache and its middleman, joined by a perfect network and a storage in memory.
type rig struct {
	t     testing.TB
	now   causal.Now
	topo  *topology.Topology
	c     *cache.Cache
	m     *middleman.Middleman
	store map[string]causal.Record
	got   []causal.Message // replies to the sidecar
	fills int
	out   map[causal.Kind]int
}

var (
	nSide  = topology.Node{DC: 0, Part: topology.Sidecar, Index: 1}
	nCC    = topology.Node{DC: 0, Part: topology.Coordinator}
	nMM    = topology.Node{DC: 0, Part: topology.Middleman}
	nCache = topology.Node{DC: 0, Part: topology.Cache}
)

func newRig(t testing.TB) *rig {
	topo := oneShard(t)
	r := &rig{t: t, topo: topo, store: map[string]causal.Record{}, now: causal.Now{Mono: 1, WallMs: 1000},
		out: map[causal.Kind]int{}}
	r.c = cache.New(cache.DefaultConfig(topo, nCache))
	cfg := middleman.DefaultConfig(topo, nMM)
	cfg.Incarnation, cfg.Fresh = 1, true
	r.m = middleman.New(cfg, r.now)
	r.pump()
	return r
}

func (r *rig) pump() {
	for {
		msgs := r.c.Take(nil)
		msgs = r.m.Take(msgs)
		ops := r.m.Ops(nil)
		if len(msgs) == 0 && len(ops) == 0 {
			return
		}
		for _, op := range ops {
			res := middleman.StorageResult{ID: op.ID}
			switch op.Kind {
			case middleman.StorageRead:
				res.Record, res.Found = r.store[op.Key]
			case middleman.StorageWrite:
				r.store[op.Key] = op.Record
			case middleman.StorageDelete:
				delete(r.store, op.Key)
			}
			r.m.StorageDone(r.now, res)
		}
		for i := range msgs {
			m := &msgs[i]
			r.out[m.Kind]++
			switch m.To {
			case nCache:
				r.c.Step(r.now, m)
			case nMM:
				if m.Kind == causal.KindFill {
					r.fills++
				}
				r.m.Step(r.now, m)
			case nSide:
				r.got = append(r.got, *m)
			}
		}
	}
}

func (r *rig) tick(d time.Duration) {
	r.now.Mono += int64(d)
	r.now.WallMs += d.Milliseconds()
	r.c.Tick(r.now)
	r.m.Tick(r.now)
	r.pump()
}

func (r *rig) putAfter(key string, h causal.HLC, data string) {
	m := causal.PutAfter{Map: r.topo.Map(0), Key: key, Record: causal.Record{Version: causal.Version{HLC: h, Origin: 1},
		Value: causal.Value{Data: []byte(data)}}}.Message(nCC, nMM)
	r.m.Step(r.now, &m)
}

// put writes and completes.
func (r *rig) put(key string, h causal.HLC, complete bool) {
	r.putAfter(key, h, "0123456789")
	r.pump()
	if complete {
		r.sv(h)
	}
}

func (r *rig) sv(h causal.HLC) {
	m := causal.Vectors{Entries: []causal.VectorEntry{{Origin: 1, SV: h}}}.Message(nCC, nMM)
	r.m.Step(r.now, &m)
	all := causal.Vectors{Entries: []causal.VectorEntry{{Origin: 1, Last: topology.MaxCoordinators, SV: h}}}.Message(
		nCC, nCache)
	r.c.Step(r.now, &all)
	r.pump()
}

func (r *rig) get(g causal.Get) causal.GetReply {
	g.ID = 7
	m := g.Message(nSide, nCache)
	r.got = nil
	r.c.Step(r.now, &m)
	r.pump()
	if len(r.got) != 1 {
		r.t.Fatalf("%d answers", len(r.got))
	}
	return r.got[0].GetReply()
}

func TestACacheWithoutReadersAtCutsKeepsOneVersion(t *testing.T) {
	r := newRig(t)
	r.get(causal.Get{Key: "x"})
	for i := 1; i <= 10_000; i++ {
		r.put("x", causal.HLCAt(int64(1000+i)), true)
		r.get(causal.Get{Key: "x"})
		if i%100 == 0 {
			r.tick(10 * time.Millisecond)
		}
	}
	n, after := r.c.Size()
	if n > 1 || after > 2000 {
		t.Errorf("%d entries of %d bytes for one key", n, after)
	}
}

func TestACacheWithoutReadersAtCutsDropsWhatIsInvalidated(t *testing.T) {
	r := newRig(t)
	r.get(causal.Get{Key: "warm"})
	for i := range 1000 {
		r.get(causal.Get{Key: fmt.Sprint("k", i)})
	}
	for i := range 1000 {
		r.put(fmt.Sprint("k", i), causal.HLCAt(int64(2000+i)), true)
	}
	n, _ := r.c.Size()
	if n > 500 {
		t.Errorf("%d useless copies still count", n)
	}
}

// The former read before a modification.
func TestReadersOfTheNewestLeaveTheCopyOfTheCut(t *testing.T) {
	r := newRig(t)
	r.put("x", causal.HLCAt(1000), true)
	cut := causal.HLCAt(1000)
	r.get(causal.Get{Key: "x", Snapshot: true, Cut: cut})
	hits := 0
	for i := 1; i <= 50; i++ {
		r.put("x", causal.HLCAt(int64(1000+10*i)), true)
		r.get(causal.Get{Key: "x"}) // of INCR
		for range 10 {
			if r.get(causal.Get{Key: "x", Snapshot: true, Cut: cut}).Hit {
				hits++
			}
		}
	}
	if hits < 450 {
		t.Errorf("%d of 500 reads at one cut were hits", hits)
	}
}

func TestAForeignValueIsNotRememberedAsAnOlderVersion(t *testing.T) {
	r := newRig(t)
	r.put("x", causal.HLCAt(1000), true)
	// somebody writes past the middleman; then a proper write
	r.putAfter("x", causal.HLCAt(2000), "")
	for _, o := range r.m.Ops(nil) {
		r.m.StorageDone(r.now, middleman.StorageResult{ID: o.ID, Found: true, Foreign: true,
			Record: causal.Record{Value: causal.Value{Data: []byte("foreign")}}})
	}
	r.pump()
	a := r.get(causal.Get{Key: "x", Snapshot: true, Cut: causal.HLCAt(1500)})
	if string(a.Record.Value.Data) == "foreign" && a.Status == causal.Stable {
		t.Error("a foreign value is stable and cached")
	}
}
