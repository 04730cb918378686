package node

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/member"
	"github.com/causalstore/causalstore/sidecar/causal/process"
	"github.com/causalstore/causalstore/sidecar/storage"
	"github.com/causalstore/causalstore/topology"
)

// legacyBytes is the size of a value that earlier versions have accepted, and that fits a message alone.
const legacyBytes = 20<<20 - 400

var shardNode = topology.Node{Part: topology.Middleman}

func valueOf(size int) causal.Record {
	return causal.Record{Version: causal.Version{HLC: 1, Origin: 1}, Value: causal.Value{Data: make([]byte, size)}}
}

func TestAPageOfAStorageFitsAMessageWhateverItsValuesAre(t *testing.T) {
	store := openStore(t)
	sizes := map[string]int{"a": 1<<20 - 300, "b": legacyBytes, "c": causal.MaxValueBytes, "d": 10, "e": 10}
	for key, size := range sizes {
		if err := store.Apply(t.Context(), []storage.Write{{Key: key, Record: valueOf(size)}}); err != nil {
			t.Fatal(err)
		}
	}
	mm := &shardDriver[*process.Member]{store: store}
	var got []string
	for page := (member.StorageTask{First: true, MaxBytes: 1 << 20}); ; page.First = false {
		r := mm.readPage(context.Background(), &page)
		if r.Err != nil {
			t.Fatal(r.Err)
		}
		size := 0
		for _, m := range r.Records {
			got = append(got, m.Key)
			size += m.Record.Value.Size()
		}
		if len(r.Records) > 1 && size > 1<<20 {
			t.Errorf("a page has %d records of %d bytes", len(r.Records), size)
		}
		if page.After = r.Next; page.After == "" {
			break
		}
	}
	if len(got) != len(sizes) {
		t.Errorf("the pages have %v", got)
	}
}

// getCounter counts the reads of single keys, which are made while the lock of the middleman is held.
type getCounter struct {
	storage.Store
	gets atomic.Int64
}

func (c *getCounter) Get(ctx context.Context, key string) (causal.Record, bool, error) {
	c.gets.Add(1)
	return c.Store.Get(ctx, key)
}

func TestAKeyWithALargeValueIsReadWithoutTheLockFromTheSecondTimeOn(t *testing.T) {
	store := &getCounter{Store: openStore(t)}
	for key, size := range map[string]int{"large": 1 << 20, "small": 10} {
		if err := store.Apply(t.Context(), []storage.Write{{Key: key, Record: valueOf(size)}}); err != nil {
			t.Fatal(err)
		}
	}
	net := newRecorder()
	mm := startMiddleman(t, net, store)
	defer mm.Close()
	reads := 0
	read := func(key string) (inline int64) {
		t.Helper()
		before := store.gets.Load()
		reads++
		mm.Handle([]causal.Message{causal.Get{ID: 1, Key: key}.Message(topology.Node{Part: topology.Sidecar, Index: 1},
			shardNode)})
		net.wait(t, causal.KindGetReply, reads)
		return store.gets.Load() - before
	}
	for i, want := range []struct {
		key    string
		inline int64
	}{{"large", 1}, {"large", 0}, {"small", 1}, {"large", 0}, {"small", 1}} {
		if n := read(want.key); n != want.inline {
			t.Errorf("read %d, of %s: %d with the lock held, want %d", i, want.key, n, want.inline)
		}
	}
	if err := store.Apply(t.Context(),
		[]storage.Write{{Key: "large", Record: valueOf(10), KeyExists: true}}); err != nil {
		t.Fatal(err)
	}
	if first, second := read("large"), read("large"); first != 0 || second != 1 {
		t.Errorf("once the value is small: %d and %d", first, second)
	}
}
