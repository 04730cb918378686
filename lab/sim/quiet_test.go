package sim

import (
	"testing"
	"time"

	"github.com/causalstore/causalstore/history"
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/session"
	"github.com/causalstore/causalstore/topology"
)

// quietWorld is three data centers in two rings, with one sidecar, of which one session has written a key and read it.
func quietWorld(t *testing.T) (*World, topology.Node) {
	t.Helper()
	one := func(name string) topology.DataCenter {
		return topology.DataCenter{Name: name, Coordinators: 1, Shards: 1, Caches: 1}
	}
	topo, err := topology.New(1, []topology.DataCenter{one("a"), one("b"), one("c")},
		[]topology.Ring{{Name: "one", DCs: []topology.DC{0, 1}}, {Name: "two", DCs: []topology.DC{2}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	w := NewWorld(topo, Settings{Cache: true, Lease: 3 * time.Second, KeepMs: 3000, NoRandomness: true})
	sidecar := w.AddSidecar(0, 1, nil)
	w.Run(5*time.Second, nil)
	withMachine(w, sidecar, func(m *session.Sidecar, now causal.Now) {
		m.Open(1)
		m.Do(now, session.Op{ID: 1, Kind: session.OpPut, Session: 1, Key: "x", Value: causal.Value{Data: []byte("1")}})
	})
	w.Run(time.Minute, nil)
	return w, sidecar
}

func TestAQuietDeploymentSendsFewMessages(t *testing.T) {
	w, sidecar := quietWorld(t)
	received, ticks := map[topology.Node]int{}, map[topology.Node]int{}
	w.delivered = func(m *causal.Message) { received[m.To]++ }
	w.idleTick = func(n *node, _ causal.Now) { ticks[n.id]-- }
	const seconds = 60
	w.Run(seconds*time.Second, nil)
	for _, n := range w.order {
		limit := map[topology.Part]struct{ received, ticks int }{ // per second
			topology.Coordinator: {9, 7}, topology.Middleman: {6, 2}, topology.Cache: {3, 1}, topology.Sidecar: {4, 2},
		}[n.id.Part]
		ticks[n.id] += int(seconds * time.Second / tick)
		if received[n.id] > limit.received*seconds || ticks[n.id] > limit.ticks*seconds {
			t.Errorf("%s has received %d messages and needed %d ticks in %d s; allowed are %d and %d per second", n.id,
				received[n.id], ticks[n.id],
				seconds, limit.received, limit.ticks)
		}
	}
	if received[sidecar] == 0 {
		t.Error("the sidecar has heard nothing, not even of the vectors")
	}
}

func TestTheFirstWriteAfterASilenceMakesEveryCoordinatorPublish(t *testing.T) {
	w, sidecar := quietWorld(t)
	published := map[topology.DC]int{}
	w.delivered = func(m *causal.Message) {
		if m.Kind == causal.KindVectors && m.To.Part == topology.Coordinator {
			published[m.From.DC]++
		}
	}
	withMachine(w, sidecar, func(m *session.Sidecar, now causal.Now) {
		m.Do(now, session.Op{ID: 2, Kind: session.OpPut, Session: 1, Key: "x", Value: causal.Value{Data: []byte("2")}})
	})
	w.Run(time.Second, nil)
	for dc := range topology.DC(3) {
		if published[dc] < 16 { // two other data centers, ten times a second each but for the time that the news takes
			t.Errorf("data center %d has published %d times in the second after a write: %v", dc,
				published[dc], published)
		}
	}
}

func TestATickThatNoMachineNeedsDoesNothing(t *testing.T) {
	var checker history.Checker
	for _, p := range Profiles() {
		for seed := range uint64(2) {
			o := runWith(p, seed, causal.Mutations{}, &checker, func(w *World) {
				w.idleTick = func(n *node, now causal.Now) {
					n.m.Tick(now)
					for _, m := range n.m.Take(nil) {
						t.Errorf("profile %s, seed %d: %s says that it needs no tick, and sends %s to %s in one",
							p.Name, seed, n.id, m.Kind, m.To)
					}
				}
			})
			if len(o.Violations) > 0 || t.Failed() {
				t.Fatalf("profile %s, seed %d: %v", p.Name, seed, o.Violations)
			}
		}
	}
}
