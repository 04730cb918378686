package sim

import (
	"fmt"
	"testing"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/session"
	"github.com/causalstore/causalstore/topology"
)

// All keys are written all the time: a bound session that kept reading the newest versions would stay bound forever.
func TestSessionReadsAtTheCutAgainAfterOneReadOfTheNewest(t *testing.T) {
	dcs := []topology.DataCenter{{Name: "a", Ring: 0, Coordinators: 1, Caches: 1, Shards: 1},
		{Name: "b", Ring: 1, Coordinators: 1, Caches: 1, Shards: 1}}
	topo, err := topology.New(1, dcs, []topology.Ring{{Name: "r0", DCs: []topology.DC{0}},
		{Name: "r1", DCs: []topology.DC{1}}}, [][]float64{{0, 80}, {80, 0}})
	if err != nil {
		t.Fatal(err)
	}
	w := NewWorld(topo, Settings{NoRandomness: true, Cache: true, Level: causal.Snapshot,
		SnapshotEvery: 500 * time.Millisecond,
		Lease:         3 * time.Second, KeepMs: 3000})
	wl := &workload{world: w, pending: map[uint64]*client{}, issuing: true}
	w.Run(time.Second, nil)
	keys := []string{"h0", "h1", "h2", "h3"}
	sess := func(dc topology.DC, id uint64) *client {
		n := w.AddSidecar(dc, id, wl.results)
		withMachine(w, n, func(m *session.Sidecar, _ causal.Now) { m.Open(id) })
		return &client{load: wl, session: fmt.Sprint(id), name: fmt.Sprint(id), id: id, sidecar: n, scripted: true}
	}
	var repeat func(p *client, every time.Duration, i int, op func(i int) session.Op)
	repeat = func(p *client, every time.Duration, i int, op func(i int) session.Op) {
		if !p.busy {
			p.issue(op(i))
		}
		w.schedule(int64(every), func() { repeat(p, every, i+1, op) })
	}
	for d := range 2 {
		for k := range 4 {
			p := sess(topology.DC(d), uint64(10+10*d+k))
			key := keys[k]
			repeat(p, 20*time.Millisecond, 0, func(i int) session.Op {
				return session.Op{Kind: session.OpPut, Key: key,
					Value: causal.Value{Data: fmt.Appendf(nil, "%s-%d", p.name, i)}}
			})
		}
	}
	r := sess(0, 1)
	w.Run(5*time.Second, nil)
	latest := false
	repeat(r, 5*time.Millisecond, 0, func(i int) session.Op {
		op := session.Op{Kind: session.OpGet, Key: keys[i%4], Level: readLevel(latest)}
		latest = false
		return op
	})
	var last session.Stats
	phase := func() float64 {
		w.Run(10*time.Second, nil)
		var st session.Stats
		withMachine(w, r.sidecar, func(m *session.Sidecar, _ causal.Now) { st = m.Stats() })
		gets, bound := st.Gets-last.Gets, st.BoundGets-last.BoundGets
		last = st
		return float64(bound) / float64(gets)
	}
	phase()
	latest = true
	if phase() == 0 {
		t.Error("the read of the newest version did not bind the session, so this test shows nothing")
	}
	if f := phase(); f > 0 {
		t.Errorf("%.0f %% of the reads are bound 10 s later", 100*f)
	}
}
