package conformance

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/storage"
)

// concurrent runs several writers, each with its own keys and one shared key, and readers of everything.
func concurrent(t *testing.T, p Place) {
	const writers, rounds = 8, 40
	s := open(t, p)
	s.apply(set("shared", record(0, "shared")))
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	var readers, writing sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for ctx.Err() == nil {
				readAll(ctx, t, s.Store, writers)
			}
		})
	}
	for w := range writers {
		writing.Go(func() {
			for i := range rounds {
				key := strconv.Itoa(w)
				writes := []storage.Write{
					set(key, record(i, key)), set("shared", record(i, "shared")),
					set("temporary "+key, record(i, "x")), remove("temporary " + key),
				}
				writes[0].KeyExists, writes[1].KeyExists, writes[3].KeyExists = i > 0, true, true
				err := s.Apply(s.ctx, writes)
				if err != nil {
					t.Errorf("writer %d: %v", w, err)
					return
				}
				rec, found, err := s.Get(s.ctx, key)
				if err != nil || !found || !same(rec, record(i, key)) {
					t.Errorf("writer %d reads %v, %v, %v after its write of round %d", w, rec, found, err, i)
				}
			}
		})
	}
	writing.Wait()
	cancel()
	readers.Wait()
	s.wantLen(writers + 1)
}

func readAll(ctx context.Context, t *testing.T, s storage.Store, writers int) {
	check := func(key string, rec causal.Record) error {
		if key != string(rec.Value.Data) && rec.Value.Data[0] != 'x' {
			return fmt.Errorf("key %q holds %q", key, rec.Value.Data)
		}
		return nil
	}
	keys := make([]string, writers)
	for i := range keys {
		keys[i] = strconv.Itoa(i)
	}
	results, err := s.GetMany(ctx, keys, 1<<20)
	for i, r := range results {
		if r.Found {
			err = check(keys[i], r.Record)
		}
	}
	if err == nil {
		err = s.Scan(ctx, check)
	}
	if err == nil {
		_, err = s.Len(ctx)
	}
	if err != nil && ctx.Err() == nil {
		t.Errorf("reader: %v", err)
	}
}

// model applies random operations to the store and to a map, and compares the two.
func model(t *testing.T, p Place) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	want := make(map[string]causal.Record)
	s := open(t, p)
	for i := range 300 {
		switch op := rng.IntN(100); {
		case op < 3:
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			s = open(t, p)
		case op < 10:
			s.wantContents(want)
		case op < 40:
			key := randomKey(rng)
			if rec, ok := want[key]; ok {
				s.wantRecord(key, rec)
			} else {
				s.wantMissing(key)
			}
		default:
			writes := randomWrites(rng, i)
			s.apply(writes...)
			applyTo(want, writes)
			s.wantLen(int64(len(want)))
		}
	}
	s.wantContents(want)
}

func randomKey(rng *rand.Rand) string {
	key := oddKeys[rng.IntN(len(oddKeys))]
	if rng.IntN(2) == 0 {
		key += strconv.Itoa(rng.IntN(20))
	}
	return key
}

func randomWrites(rng *rand.Rand, n int) []storage.Write {
	writes := make([]storage.Write, 1+rng.IntN(5))
	for i := range writes {
		key := randomKey(rng)
		switch rng.IntN(4) {
		case 0:
			writes[i] = remove(key)
		case 1:
			writes[i] = set(key, tombstone(n))
		default:
			writes[i] = set(key, record(n, fmt.Sprintf("%d.%d", n, rng.IntN(1000))))
			writes[i].Record.Value.ExpireAtMs = int64(rng.IntN(2)) * rng.Int64()
		}
	}
	return writes
}

func applyTo(contents map[string]causal.Record, writes []storage.Write) {
	for _, w := range writes {
		if w.Delete {
			delete(contents, w.Key)
		} else {
			contents[w.Key] = w.Record
		}
	}
}
