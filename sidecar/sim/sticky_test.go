package sim

import (
	"fmt"
	"testing"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/topology"
)

// The keys are written all the time, so a bound session that went on reading the newest would be bound for ever.
func TestAfterOneReadOfTheNewestASessionReadsAtTheCutAgain(t *testing.T) {
	dcs := []topology.DataCenter{{Name: "a", Ring: 0, Coordinators: 1, Caches: 1, Shards: 1}, {Name: "b", Ring: 1, Coordinators: 1, Caches: 1, Shards: 1}}
	topo, err := topology.New(1, dcs, []topology.Ring{{Name: "r0", DCs: []topology.DC{0}}, {Name: "r1", DCs: []topology.DC{1}}}, [][]float64{{0, 80}, {80, 0}})
	if err != nil {
		t.Fatal(err)
	}
	w := NewWorld(topo, Settings{Quiet: true, Cache: true, Snapshot: true, SnapshotEvery: 500 * time.Millisecond, Lease: 3 * time.Second, KeepMs: 3000})
	wl := &workload{world: w, byOp: map[uint64]*process{}, issuing: true}
	w.Run(time.Second, nil)
	keys := []string{"h0", "h1", "h2", "h3"}
	sess := func(dc topology.DC, id uint64) *process {
		n := w.AddSidecar(dc, id, wl.results)
		w.do(n, func(m machine, _ causal.Now) { m.(*causal.Sidecar).Open(id) })
		return &process{w: wl, session: fmt.Sprint(id), name: fmt.Sprint(id), id: id, sidecar: n, stopped: true}
	}
	var loop func(p *process, every time.Duration, i int, op func(i int) causal.Op)
	loop = func(p *process, every time.Duration, i int, op func(i int) causal.Op) {
		if !p.busy {
			p.issue(op(i))
		}
		w.after(int64(every), func() { loop(p, every, i+1, op) })
	}
	for d := range 2 {
		for k := range 4 {
			p := sess(topology.DC(d), uint64(10+10*d+k))
			key := keys[k]
			loop(p, 20*time.Millisecond, 0, func(i int) causal.Op {
				return causal.Op{Kind: causal.OpPut, Key: key, Value: causal.Value{Data: fmt.Appendf(nil, "%s-%d", p.name, i)}}
			})
		}
	}
	r := sess(0, 1)
	w.Run(5*time.Second, nil)
	latest := false
	loop(r, 5*time.Millisecond, 0, func(i int) causal.Op {
		op := causal.Op{Kind: causal.OpGet, Key: keys[i%4], Latest: latest}
		latest = false
		return op
	})
	var last causal.SidecarStats
	phase := func() float64 {
		w.Run(10*time.Second, nil)
		var st causal.SidecarStats
		w.do(r.sidecar, func(m machine, _ causal.Now) { st = m.(*causal.Sidecar).Stats() })
		gets, bound := st.Gets-last.Gets, st.Bound-last.Bound
		last = st
		return float64(bound) / float64(gets)
	}
	phase()
	latest = true
	if phase() == 0 {
		t.Error("the read of the newest bound nothing: this test looks at nothing")
	}
	if f := phase(); f > 0 {
		t.Errorf("10 s later, %.0f %% of the reads are bound", 100*f)
	}
}
