package node

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/middleman"
	"github.com/causalstore/causalstore/sidecar/storage"
)

// refusingStore refuses metadata while it is told to, and counts changes of keys.
type refusingStore struct {
	storage.Store
	refuses atomic.Bool
	applied atomic.Int64
}

func (s *refusingStore) SetMeta(ctx context.Context, name string, value []byte) error {
	if s.refuses.Load() {
		return errors.New("refused")
	}
	return s.Store.SetMeta(ctx, name, value)
}

func (s *refusingStore) Apply(ctx context.Context, writes []storage.Write, meta ...storage.Meta) error {
	if s.refuses.Load() && len(meta) > 0 {
		return errors.New("refused")
	}
	s.applied.Add(int64(len(writes)))
	return s.Store.Apply(ctx, writes, meta...)
}

// What a group of requests says of the storage as a whole is durable before the keys are changed that rely on it, and
// what the storage has refused is written again: after a crash, a tombstone would be gone without the horizon that
// stands for it, a log that was given up would be believed, or an origin would have no past.
func TestMetadataAreDurableBeforeTheWritesThatRelyOnThem(t *testing.T) {
	for name, c := range map[string]struct {
		meta string
		op   middleman.StorageOp
	}{
		"horizon": {metaHorizon, middleman.StorageOp{Kind: middleman.StorageHorizon, Horizon: 7}},
		"fence":   {metaFences, middleman.StorageOp{Kind: middleman.StorageFence, Origin: 1, Generation: 3}},
		"exclusions": {metaExclusions,
			middleman.StorageOp{Kind: middleman.StorageExclusions, Exclusions: causal.Exclusions{1}}},
		"origin": {metaOrigins, middleman.StorageOp{Kind: middleman.StorageWrite, Key: "new",
			Record: causal.Record{Version: causal.Version{HLC: 5, Origin: 9}}}},
	} {
		t.Run(name, func(t *testing.T) {
			store := &refusingStore{Store: openStore(t)}
			mm := startMiddleman(t, newRecorder(), store)
			defer mm.Close()
			group := []middleman.StorageOp{c.op, {ID: 2, Kind: middleman.StorageDelete, Key: "k"}}
			write := func() (failed int) {
				for _, r := range mm.serving.write(group, nil) {
					if r.Failed {
						failed++
					}
				}
				return failed
			}
			before, changes := metaOf(t, store, c.meta), store.applied.Load()
			store.refuses.Store(true)
			for range 2 {
				if failed := write(); failed != len(group) || store.applied.Load() != changes {
					t.Errorf("the metadata are refused: %d requests fail, %d keys are changed", failed,
						store.applied.Load()-changes)
				}
			}
			store.refuses.Store(false)
			if failed := write(); failed > 0 || store.applied.Load() == changes {
				t.Errorf("then %d requests fail, %d keys are changed", failed, store.applied.Load()-changes)
			}
			if after := metaOf(t, store, c.meta); after == before {
				t.Errorf("%s is still %q", c.meta, after)
			}
		})
	}
}

func metaOf(t *testing.T, s storage.Store, name string) string {
	t.Helper()
	b, _, err := s.Meta(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
