package node

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/member"
	"github.com/causalstore/causalstore/sidecar/causal/middleman"
	"github.com/causalstore/causalstore/sidecar/causal/process"
	"github.com/causalstore/causalstore/sidecar/causal/shard"
	"github.com/causalstore/causalstore/sidecar/storage"
	"github.com/causalstore/causalstore/sidecar/storage/embedded"
	"github.com/causalstore/causalstore/topology"
)

// oneRing returns a topology of one data center with a number of shards, and the number before; 0: no resharding.
func oneRing(t *testing.T, shards, before int) *topology.Topology {
	t.Helper()
	topo, err := topology.New(1, []topology.DataCenter{{Name: "a", Coordinators: 1, Shards: shards,
		ShardsBefore: before}},
		[]topology.Ring{{Name: "r", DCs: []topology.DC{0}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return topo
}

func TestNewMiddlemanRefusesAStoreWhoseSlotsDoNotMatchTheTopology(t *testing.T) {
	store, err := embedded.Open(filepath.Join(t.TempDir(), "store"),
		embedded.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	start := func(topo *topology.Topology) error {
		config := middleman.DefaultConfig(topo, topology.Node{Part: topology.Middleman})
		mm, err := NewMiddleman(t.Context(), MiddlemanOptions{Config: config, Clock: NewClock(), Net: newRecorder(),
			Store:       store,
			InlineReads: true, Logger: slog.New(slog.DiscardHandler)})
		if err == nil {
			mm.Close()
		}
		return err
	}
	if err := start(oneRing(t, 2, 0)); err != nil {
		t.Fatalf("the first start: %v", err)
	}
	for _, c := range []struct {
		shards, before int
		want           string
	}{{1, 0, "put shardsBefore back"}, {4, 3, "another resharding"}, {2, 0, ""}, {1, 2, ""}, {2, 0, ""}} {
		err := start(oneRing(t, c.shards, c.before))
		if got := fmt.Sprint(err); (err == nil) != (c.want == "") || !strings.Contains(got, c.want) && err != nil {
			t.Errorf("%d shards, %d before: got %v, want %q", c.shards, c.before, err, c.want)
		}
	}
	handedOver := process.Marks{State: shard.MigrationState{Map: oneRing(t, 2, 0).Map(0), Stopped: true}}
	if err := store.Apply(t.Context(), nil, metaOf(handedOver.Metas(process.MarkState))...); err != nil {
		t.Fatal(err)
	}
	if err := start(oneRing(t, 2, 0)); err == nil || !strings.Contains(err.Error(), "put shardsBefore back") {
		t.Errorf("a start after slots were handed over: %v", err)
	}
}

// Messages of an earlier life are told by its number.
func TestEachLifeOfAMoverHasANumberOfItsOwn(t *testing.T) {
	store, self := openStore(t), topology.Node{Part: topology.Middleman}
	for want := range uint64(3) {
		marks, err := readMarks(t.Context(), store, process.MarkMoves)
		if marks.Moves != want || err != nil {
			t.Fatalf("after %d lives: %d, %v", want, marks.Moves, err)
		}
		mm, err := NewMiddleman(t.Context(), MiddlemanOptions{Config: middleman.DefaultConfig(oneRing(t, 2, 1), self),
			Clock: NewClock(), Net: newRecorder(), Store: store, InlineReads: true, Logger: discard})
		if err != nil {
			t.Fatal(err)
		}
		mm.Close()
	}
}

// What another middleman knew of the storage is not true of what is copied to it.
func TestAStorageIsClearedWithWhatMiddlemenHaveNoted(t *testing.T) {
	store := openStore(t)
	mm := &shardDriver[*process.Member]{store: store, ctx: t.Context()}
	meta := []storage.Meta{}
	for _, name := range process.MarkNames {
		meta = append(meta, storage.Meta{Name: name, Value: []byte("old")})
	}
	record := causal.Record{Version: causal.Version{HLC: 1, Origin: 1}}
	if err := store.Apply(t.Context(), []storage.Write{{Key: "k", Record: record}}, meta...); err != nil {
		t.Fatal(err)
	}
	marker := member.Applied{Group: 3, Volume: 4, Copying: true}
	if err := mm.clearStorage(marker); err != nil {
		t.Fatal(err)
	}
	if found, empty, err := readApplied(t.Context(), store); found != marker || !empty || err != nil {
		t.Errorf("%+v, empty: %v, %v", found, empty, err)
	}
}
