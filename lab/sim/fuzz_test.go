package sim

import (
	"testing"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/session"
	"github.com/causalstore/causalstore/sidecar/transport/wire"
	"github.com/causalstore/causalstore/topology"
)

// The fuzz tests deliver what a transport would pass on to the machines of one part, in a deployment that works. Their
// corpus is recorded from the same deployment each time, so it never lags behind the messages.

// fuzzedWorld returns a small deployment with groups, caches, near copies and a session that has written and read, as
// it is after some time.
func fuzzedWorld(record func(*causal.Message)) *World {
	dc := func(name string) topology.DataCenter {
		return topology.DataCenter{Name: name, Coordinators: 2, Shards: 2, Caches: 1, CoordinatorMembers: 2,
			ShardMembers: 2}
	}
	t, err := topology.New(1, []topology.DataCenter{dc("a"), dc("b")},
		[]topology.Ring{{Name: "one", DCs: []topology.DC{0}}, {Name: "two", DCs: []topology.DC{1}}},
		[][]float64{{0, 20}, {20, 0}})
	if err != nil {
		panic(err)
	}
	w := NewWorld(t, Settings{Seed: 1, Cache: true, Lease: time.Second, KeepMs: 1000, NoRandomness: true,
		NearBytes: 1 << 16, NearReads: 1})
	w.delivered = record
	id := uint64(0)
	for i := range topology.DC(2) {
		sidecar := w.AddSidecar(i, 1, nil)
		withMachine(w, sidecar, func(m *session.Sidecar, _ causal.Now) { m.Open(1) })
		for range 6 {
			w.Run(200*time.Millisecond, nil)
			withMachine(w, sidecar, func(m *session.Sidecar, now causal.Now) {
				for _, op := range []session.Op{{Kind: session.OpPut, Key: "k", Value: causal.Value{Data: []byte("v")}},
					{Kind: session.OpGet, Key: "k"}, {Kind: session.OpMGet, Keys: []string{"k", "l"}}} {
					id++
					op.ID, op.Session = id, 1
					m.Do(now, op)
				}
			})
		}
	}
	w.Run(300*time.Millisecond, nil)
	return w
}

// fuzzMachines fuzzes the machines of one part.
func fuzzMachines(f *testing.F, concerns func(*causal.Message) bool) {
	corpus := map[causal.Kind]int{}
	var batch wire.Batch
	fuzzedWorld(func(m *causal.Message) {
		if !concerns(m) || corpus[m.Kind] >= 3 {
			return
		}
		corpus[m.Kind]++
		batch = wire.Batch{}
		batch.Add(m)
		f.Add(batch.Buf)
	})
	if len(corpus) == 0 {
		f.Fatal("the deployment sends nothing of that sort")
	}
	f.Fuzz(func(t *testing.T, frame []byte) {
		messages, _, err := wire.DecodeFrame(frame, nil)
		if err != nil || len(messages) > 64 {
			return
		}
		w := fuzzedWorld(nil)
		forger := newForger(w, 1, 0)
		w.delivered = nil
		for i := range messages {
			if m := &messages[i]; concerns(m) {
				forger.deliver(m, "content")
				w.Run(time.Millisecond, nil)
			}
		}
		w.Run(100*time.Millisecond, nil) // what follows from them, and from timers
		for _, what := range append(forger.panics, w.checkCounts()...) {
			t.Error(what)
		}
	})
}

func FuzzCoordinator(f *testing.F) {
	fuzzMachines(f, func(m *causal.Message) bool {
		return m.To.Part == topology.Coordinator && m.Kind != causal.KindGroup
	})
}

func FuzzMiddleman(f *testing.F) {
	fuzzMachines(f, func(m *causal.Message) bool {
		return m.To.Part == topology.Middleman && m.Kind != causal.KindGroup && m.Kind != causal.KindCopy
	})
}

func FuzzCache(f *testing.F) {
	fuzzMachines(f, func(m *causal.Message) bool { return m.To.Part == topology.Cache })
}

func FuzzSession(f *testing.F) {
	fuzzMachines(f, func(m *causal.Message) bool { return m.To.Part == topology.Sidecar })
}

func FuzzGroupMember(f *testing.F) {
	fuzzMachines(f, func(m *causal.Message) bool { return m.Kind == causal.KindGroup || m.Kind == causal.KindCopy })
}
