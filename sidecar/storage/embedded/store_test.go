package embedded

import (
	"context"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"go.uber.org/goleak"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/storage"
	"github.com/causalstore/causalstore/sidecar/storage/conformance"
)

var ctx = context.Background()

func TestMain(m *testing.M) {
	// Pebble leaks these goroutines when it fails to open a store.
	goleak.VerifyTestMain(m,
		goleak.IgnoreTopFunction(
			"github.com/cockroachdb/pebble/v2/vfs.(*diskHealthCheckingFS).startTickerLocked.func1"),
		goleak.IgnoreTopFunction("github.com/cockroachdb/pebble/v2.(*ConcurrencyLimitScheduler).periodicGranter"))
}

func mustOpen(t testing.TB, dir string, opts Options) *Store {
	t.Helper()
	s, err := Open(dir, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

func record(n int, data string) causal.Record {
	return causal.Record{Version: causal.Version{HLC: causal.HLC(n), Origin: 1},
		Value: causal.Value{Data: []byte(data)}}
}

func place(dir string, opts Options) conformance.Place {
	var current *Store
	return conformance.Place{
		Open: func(t *testing.T) storage.Store {
			current = mustOpen(t, dir, opts)
			return current
		},
		PutRaw: func(t *testing.T, key string, value []byte) {
			if err := current.db.Set(append([]byte{prefixData}, key...), value, pebble.Sync); err != nil {
				t.Fatal(err)
			}
		},
	}
}

func TestConformanceOnDisk(t *testing.T) {
	conformance.Run(t, func(t *testing.T) conformance.Place {
		return place(filepath.Join(t.TempDir(), "not", "there", "yet"), Options{})
	})
}

func TestConformanceInMemoryWithSmallMemTables(t *testing.T) {
	cache := pebble.NewCache(1 << 20)
	defer cache.Unref()
	conformance.Run(t, func(t *testing.T) conformance.Place {
		return place("store", Options{FS: vfs.NewMem(), Cache: cache, MemTableBytes: 64 << 10})
	})
}

func TestStoreCannotBeOpenedTwice(t *testing.T) {
	dir := t.TempDir()
	mustOpen(t, dir, Options{})
	if _, err := Open(dir, Options{}); err == nil || !strings.Contains(err.Error(), dir) ||
		!strings.Contains(err.Error(), "already open") {
		t.Errorf("got %v", err)
	}
}

func TestOpenOfAnExistingStoreIsFast(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, dir, Options{})
	for i := range 200 {
		if err := s.Apply(ctx,
			[]storage.Write{{Key: string(rune('a' + i)), Record: record(i, strings.Repeat("v", 1000))}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	best := time.Hour
	for range 5 {
		start := time.Now()
		s, err := Open(dir, Options{})
		if err != nil {
			t.Fatal(err)
		}
		best = min(best, time.Since(start))
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("best of 5: %v", best)
	if best > time.Second {
		t.Errorf("opening took %v", best)
	}
}

func TestPebbleMessagesAreLoggedAtDebugLevelOnly(t *testing.T) {
	var out strings.Builder
	s := mustOpen(t, "store", Options{FS: vfs.NewMem(), Logger: slog.New(slog.NewTextHandler(&out, nil))})
	if err := s.Apply(ctx, []storage.Write{{Key: "k", Record: record(1, "v")}}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if out.Len() != 0 {
		t.Errorf("logged at info level or above:\n%s", out.String())
	}
}

func TestLenIsNeverNegativeWhenCallersAreWrong(t *testing.T) {
	fs := vfs.NewMem()
	s := mustOpen(t, "store", Options{FS: fs})
	for i, w := range []storage.Write{
		{Key: "a", Delete: true, KeyExists: true},
		{Key: "a", Record: record(1, "v")},
		{Key: "a", Delete: true, KeyExists: true},
		{Key: "b", Delete: true, KeyExists: true},
	} {
		if err := s.Apply(ctx, []storage.Write{w}); err != nil {
			t.Fatal(err)
		}
		if n, err := s.Len(ctx); n < 0 || n > 1 || err != nil {
			t.Errorf("after write %d: len %d, %v", i, n, err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if n, err := mustOpen(t, "store", Options{FS: fs}).Len(ctx); n != 0 || err != nil {
		t.Errorf("after reopening: len %d, %v", n, err)
	}
}

func TestApplyReadsNothing(t *testing.T) {
	s := mustOpen(t, "store", Options{FS: vfs.NewMem()})
	writes := make([]storage.Write, 100)
	for i := range writes {
		writes[i] = storage.Write{Key: string(rune('a' + i)), Record: record(i, "v")}
	}
	if err := s.Apply(ctx, writes); err != nil {
		t.Fatal(err)
	}
	if err := s.db.Flush(); err != nil { // so that a read has to look for the key in a table
		t.Fatal(err)
	}
	tableReads := func() int64 {
		m := s.db.Metrics()
		return m.BlockCache.Hits + m.BlockCache.Misses + m.Filter.Hits + m.Filter.Misses
	}
	before := tableReads()
	for i := range writes {
		writes[i].KeyExists = true
	}
	if err := s.Apply(ctx, writes); err != nil {
		t.Fatal(err)
	}
	if n := tableReads() - before; n != 0 {
		t.Errorf("Apply read tables %d times", n)
	}
	if n, err := s.Len(ctx); n != int64(len(writes)) || err != nil {
		t.Errorf("len %d, %v", n, err)
	}
}
