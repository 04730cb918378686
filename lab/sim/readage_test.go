package sim

import (
	"fmt"
	"testing"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/session"
	"github.com/causalstore/causalstore/topology"
)

// readWatch measures when sessions that have seen nothing read what is complete: of some writes, in each data center,
// the time from when the sidecar of the writer hears that it is complete until the first read begins that returns it,
// or something newer.
type readWatch struct {
	world    *World
	load     *workload
	sidecars []topology.Node // by data center
	from     int64           // writes that complete before do not count
	every    int             // of so many writes that complete, one is watched
	keys     map[causal.Version]string
	complete int
	sessions uint64
	ages     []time.Duration
}

// watchReads adds sidecars that read what others write.
func watchReads(w *World, from time.Duration, every int) *readWatch {
	r := &readWatch{world: w, load: &workload{world: w, pending: map[uint64]*client{}, issuing: true},
		from: int64(from), every: every, keys: map[causal.Version]string{}}
	for dc := range w.topo.DCs {
		r.sidecars = append(r.sidecars, w.AddSidecar(topology.DC(dc), 2, r.load.results))
	}
	before := w.delivered
	w.delivered = func(m *causal.Message) {
		before(m)
		r.observe(m)
	}
	return r
}

func (r *readWatch) observe(m *causal.Message) {
	switch m.Kind {
	case causal.KindPutAfter:
		p := m.PutAfter()
		r.keys[p.Record.Version] = p.Key
	case causal.KindComplete:
		for _, v := range m.Complete().Versions {
			if r.complete++; r.world.now < r.from || r.complete%r.every != 0 {
				continue
			}
			at := r.world.now
			for dc := range r.sidecars {
				r.world.schedule(0, func() { r.read(r.sidecars[dc], v, at) })
			}
		}
	}
}

// read reads the key of a write that is complete since a time, in a new session, until that returns it.
func (r *readWatch) read(sidecar topology.Node, v causal.Version, completeAt int64) {
	r.sessions++
	id, start := r.sessions, r.world.now
	withMachine(r.world, sidecar, func(m *session.Sidecar, _ causal.Now) { m.Open(id) })
	p := &client{load: r.load, id: id, session: fmt.Sprint(id), sidecar: sidecar, scripted: true}
	p.onResult = func(res *session.Result) {
		withMachine(r.world, sidecar, func(m *session.Sidecar, _ causal.Now) { m.Close(id) })
		if res.Err == causal.OK && !res.Record.Version.Less(v) {
			r.ages = append(r.ages, time.Duration(start-completeAt))
			return
		}
		r.world.schedule(int64(10*time.Millisecond), func() { r.read(sidecar, v, completeAt) })
	}
	p.issue(session.Op{Kind: session.OpGet, Key: r.keys[v]})
}

// In virtual time, so it is the same on every machine.
func TestWhatIsCompleteIsSoonReadInEightRegions(t *testing.T) {
	t.Parallel()
	const from = 4 * time.Second
	w, c := startRegions(topology.Default(), from, 0)
	r := watchReads(w, from, 4)
	w.Run(from, nil)
	before := readsOf(c, 0)
	w.Run(6*time.Second, nil)
	after := readsOf(c, 0)
	reads := float64(after.Gets - before.Gets)
	bound, remote := float64(after.BoundGets-before.BoundGets)/reads,
		float64(after.RemoteReads-before.RemoteReads)/reads
	p50, p99 := percentileOf(r.ages, 50), percentileOf(r.ages, 99)
	t.Logf("%.0f reads, %.3f bound, %.3f remote; %d ages: p50 %s, p99 %s", reads, bound, remote, len(r.ages), p50, p99)
	if len(r.ages) < 200 {
		t.Fatal("hardly any write was read after it was complete")
	}
	if bound > 0.02 || remote > 0.2 || p50 > 225*time.Millisecond || p99 > 625*time.Millisecond {
		t.Error("allowed are 0.02 bound, 0.2 remote, p50 225 ms, p99 625 ms")
	}
}
