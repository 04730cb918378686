package node

import (
	"log/slog"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/middleman"
	"github.com/causalstore/causalstore/sidecar/causal/process"
	"github.com/causalstore/causalstore/sidecar/causal/shard"
	"github.com/causalstore/causalstore/sidecar/storage"
	"github.com/causalstore/causalstore/sidecar/storage/embedded"
	"github.com/causalstore/causalstore/topology"
)

// A shard with data hears that its data center was excluded. It keeps them and answers nothing. Then either another
// ring has all data, and it forgets its own; or a person says that its data count, and it keeps them, over a restart
// too.
func TestAnExcludedShardKeepsWhatIsInItsStore(t *testing.T) {
	excluded := func(keeps int) *topology.Topology {
		topo, err := topology.New(2, []topology.DataCenter{{Name: "a", Coordinators: 1, Shards: 1, Exclusions: 1,
			KeepsData: keeps}, {Name: "b", Coordinators: 1, Shards: 1}},
			[]topology.Ring{{Name: "r", DCs: []topology.DC{0}}, {Name: "q", DCs: []topology.DC{1}}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return topo
	}
	self, other := topology.Node{Part: topology.Middleman}, topology.Node{DC: 1, Part: topology.Middleman}
	for _, c := range []struct {
		name     string
		otherHas bool
		keeps    int
		loss     shard.Loss
		kept     bool
	}{
		{"nobody has the data", false, 0, shard.NoLoss, true},
		{"another ring has them", true, 0, shard.LossCleared, false},
		{"a person lets them count", false, 1, shard.LossKept, true},
		{"another ring has them, and a person lets these count", true, 1, shard.LossCleared, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			store, err := embedded.Open(filepath.Join(t.TempDir(), "store"),
				embedded.Options{Logger: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatal(err)
			}
			defer store.Close()
			version := causal.Version{HLC: 7, Origin: 1}
			if err := store.Apply(t.Context(),
				[]storage.Write{
					{Key: "x", Record: causal.Record{Version: version, Value: causal.Value{Data: []byte("1")}}},
				}); err != nil {
				t.Fatal(err)
			}
			if err := store.Apply(t.Context(), nil, metaOf((&process.Marks{Starts: 3}).Metas(process.MarkStarts))...); err != nil {
				t.Fatal(err)
			}
			var mono atomic.Int64
			mono.Store(1)
			net := newRecorder()
			start := func() *Middleman {
				mm, err := NewMiddleman(t.Context(),
					MiddlemanOptions{Config: middleman.DefaultConfig(excluded(c.keeps), self), Net: net, Store: store,
						InlineReads: true,
						Clock: func() causal.Now {
							return causal.Now{Mono: mono.Load(), WallMs: 1000}
						}, Logger: slog.New(slog.DiscardHandler)})
				if err != nil {
					t.Fatal(err)
				}
				return mm
			}
			mm := start()
			defer func() { mm.Close() }()
			from := func(m causal.Message) {
				var o causal.Outbox
				o.SetExclusions(causal.Exclusions{1})
				o.Send(m)
				mm.Handle(o.Take(nil))
			}
			await := func(what string, isSo func() bool) {
				t.Helper()
				for deadline := time.Now().Add(20 * time.Second); !isSo(); time.Sleep(time.Millisecond) {
					if time.Now().After(deadline) {
						t.Fatalf("%s: not within 20 s", what)
					}
				}
			}
			if !mm.Serves() {
				t.Fatal("it does not serve before it hears of the exclusion")
			}
			from(causal.Ping{ID: 1}.Message(topology.Node{DC: 1, Part: topology.Coordinator}, self))
			await("it stops", func() bool { _, withdrawn := mm.Withdrawn(); return withdrawn && !mm.Serves() })
			loss := func() shard.Loss {
				marks, err := readMarks(t.Context(), store, process.MarkLoss)
				if err != nil {
					t.Fatal(err)
				}
				return marks.Loss
			}
			for range 40 { // 10 s
				mono.Add(int64(250 * time.Millisecond))
				mm.Tick()
				if _, withdrawn := mm.Withdrawn(); !withdrawn || !c.otherHas {
					continue
				}
				asked := net.wait(t, causal.KindPastQuery, 1)
				last := asked[len(asked)-1]
				from(causal.PastReply{ID: last.PastQuery().ID, HasAll: true,
					Map: excluded(0).Map(1)}.Message(other, self))
			}
			await("it goes on", func() bool { return loss() == c.loss && mm.Serves() == (c.loss != shard.NoLoss) })
			if rec, found, err := store.Get(t.Context(), "x"); err != nil || found != c.kept ||
				found && rec.Version != version {
				t.Errorf("the store holds %v, %v, %v; want that it is kept: %v", rec.Version, found, err, c.kept)
			}
			if c.loss != shard.LossKept {
				return
			}
			mm.Close()
			mm = start()
			if p, ok := mm.Backfill(); !ok || !p.Kept || loss() != shard.LossKept {
				t.Errorf("after a restart: %+v, %v, loss %d", p, ok, loss())
			}
		})
	}
}
